"""Spark sessions that can run stateful windows: how to make one, and what another session lacks."""

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from operators.errors import SessionSetupError
from operators.spark.base.inside import python_of_workers, set_python_of_workers
from operators.spark.base.java import ensure_java
from operators.spark.base.loopback import CONF as LOOPBACK
from operators.spark.base.loopback import on_loopback, stays_local
from state_backends import StateConfig
from state_backends.checkpoints.stored_bucket import RESIDENT
from state_backends.durability.folders import Folder

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG_KEY = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
PARTITIONS_KEY = "spark.sql.shuffle.partitions"
_ARROW_ROWS_KEY = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NEEDED_MODULES = {"google.protobuf": "protobuf", "zstandard": "zstandard", "pandas": "pandas<3"}
_MANY_PARTITIONS_PER_CORE = 8
_SECONDS_FOR_STORAGE = 10.0
CALLER = 5
"""How far up the stack who called an operator's `apply` is from a warning in what `apply` calls."""
_DAEMON_KEY = "spark.python.daemon.module"
_DAEMON = "operators.spark.daemon"
_able: set[str] = set()
"""Interpreters that can import this library."""


def session_conf(buckets: int | None = None) -> dict[str, str]:
    """Return the Spark conf that a session for stateful windows needs, to be merged into yours.

    Args:
        buckets: slices of the key space. Each is a state store that commits every batch: about as many as the cores of all
            workers is good. A query's checkpoint keeps the number from its first start on. By default this
            machine's cores.
    """
    return {
        _PROVIDER_KEY: _PROVIDER,
        _CHANGELOG_KEY: "true",
        PARTITIONS_KEY: str(buckets or os.cpu_count() or 2),
        _ARROW_ROWS_KEY: "100000",
    }


def spark_session(
    app_name: str = "stateful-windows",
    *,
    master: str | None = None,
    remote: str | None = None,
    buckets: int | None = None,
    conf: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Return a Spark session for stateful windows: a new one, or the running one, with its conf changed.

    Sets the conf of `session_conf` and, unless Spark runs elsewhere, finds a Java and makes the workers run this interpreter;
    those of a running session, too, if they cannot import this library. Its master and memory stay as they are: to change
    them, call `spark.stop()` first.

    With a local master, Spark listens on 127.0.0.1 only, since anyone who reaches its ports can talk to it; in a process that
    has started Spark before, its web page stays where it was. Set SPARK_LOCAL_IP to another address if Spark is to be reached,
    or before you use another master later in the same process. And workers, which Spark starts anew after a pause of a minute,
    have this library loaded when they begin (`operators.spark.daemon`).

    Args:
        app_name: the application's name.
        master: such as "local[2]"; None for Spark's own default.
        remote: a Spark Connect server, such as "sc://host:15002", in place of a master; None for the one that the environment
            variable SPARK_REMOTE names, if any. Needs the extra `connect`, and no Java here.
        buckets: as in `session_conf`; with a Connect server, by default its `spark.sql.shuffle.partitions`.
        conf: more conf, which overrides the rest. On a Connect server only conf that can change at run time can be set.

    Raises:
        JavaNotFoundError: no Java 17 or newer was found.
    """
    elsewhere = (remote or os.environ.get("SPARK_REMOTE", "")).startswith("sc://")
    settings = session_conf(buckets)
    if not elsewhere:
        ensure_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    elif buckets is None:
        del settings[PARTITIONS_KEY]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    if remote is not None:
        builder = builder.remote(remote)
    settings |= conf or {}
    connect = remote is not None or "SPARK_REMOTE" in os.environ
    local = not connect and stays_local(master or settings.get("spark.master"))
    if local and SparkSession.getActiveSession() is None:
        settings = {**LOOPBACK, **_daemon(), **settings}
    for key, value in settings.items():
        builder = builder.config(key, value)
    with on_loopback() if local else nullcontext():
        spark = builder.getOrCreate()
    context = context_of(spark)
    if context is not None and _wrong_python(spark):
        set_python_of_workers(context, os.environ["PYSPARK_PYTHON"])  # Someone else made it.
    return spark


def _daemon() -> dict[str, str]:
    """The conf for a daemon that has loaded this library, if the workers' Python finds it without help."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({_DAEMON!r}) is None)"
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            [os.environ["PYSPARK_PYTHON"], "-c", code], capture_output=True, timeout=60, check=True
        )
        return {_DAEMON_KEY: _DAEMON}
    return {}


def check_running(spark: "SparkSession") -> None:
    """Refuse a frame of a session that was stopped.

    Raises:
        SessionSetupError: says what to do.
    """
    if _is_stopped(spark):
        raise SessionSetupError(
            "the Spark session of this DataFrame was stopped: create a new one, for example with operators.spark_session(...), "
            "and create the DataFrame in it"
        )


def check_workers(spark: "SparkSession") -> None:
    """Refuse a session that cannot even process a bounded frame.

    Raises:
        SessionSetupError: says how to fix it.
    """
    _refuse(_wrong_python(spark))


def check_session(spark: "SparkSession") -> None:
    """Refuse a session that cannot run a streaming query with state, naming all that is missing.

    Raises:
        SessionSetupError: says how to fix it.
    """
    problems = [
        *_old_connect(type(spark.range(0).groupBy())),
        *_missing_modules(),
        *_wrong_provider(spark),
        *_wrong_python(spark),
    ]
    _refuse(problems)
    if spark.conf.get(_CHANGELOG_KEY, "false") != "true":
        warnings.warn(
            f"{_CHANGELOG_KEY} is not true: the commit of each batch will be several times slower",
            stacklevel=CALLER,
        )


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise SessionSetupError(
            f"this Spark session cannot run stateful windows:\n{listed}\n"
            "operators.spark_session(...) creates a session that can, and fixes a running one; "
            "operators.session_conf() returns the conf for a session of yours"
        )


def _old_connect(grouped: type) -> list[str]:
    """The problem if a session's grouped frames have no stateful operator."""
    if hasattr(grouped, "transformWithStateInPandas"):
        return []
    from pyspark import __version__

    return [
        (
            f"streams through Spark Connect need PySpark 4.1 or newer, this is {__version__}: upgrade client and server, or "
            "use a session without Spark Connect"
        )
    ]


def check_partitions(spark: "SparkSession", buckets: int) -> None:
    """Warn if the number of shuffle partitions differs from the number of buckets, or is too large for the machine."""
    partitions = int(spark.conf.get(PARTITIONS_KEY) or buckets)
    if partitions != buckets:
        warnings.warn(
            f"{PARTITIONS_KEY} is {partitions}, but the state has {buckets} buckets: partitions without a bucket cost "
            "time in every batch, and buckets of one partition run one after another. Set both to the same number",
            stacklevel=CALLER,
        )
    elif partitions >= 200 and partitions > _MANY_PARTITIONS_PER_CORE * _known_cores(spark):
        warnings.warn(
            f"{PARTITIONS_KEY} is {partitions}: each partition is a state store that commits every batch, which takes seconds "
            "on a small machine. Set it to about the number of cores before the query first starts",
            stacklevel=CALLER,
        )


def check_snapshot_folder(spark: "SparkSession", config: StateConfig) -> None:
    """Warn if the folder for snapshots cannot be written from the driver: workers would only log it."""
    uri = config.snapshots.folder
    # With Spark Connect this is not the driver; and the backend of Spark's own store writes no snapshots.
    if uri is None or context_of(spark) is None or config.backend == RESIDENT:
        return
    folder = Folder(uri)
    why = folder.why_not_writable(_SECONDS_FOR_STORAGE)
    if why is not None:
        warnings.warn(
            f"the folder {folder.shown!r} of spark.windows.state.snapshots.folder cannot be written from the driver: {why}. If "
            "the workers cannot write to it either, the stream runs without snapshots, and its changelog grows without bound: "
            "check the folder's name and the credentials",
            stacklevel=CALLER,
        )


def _missing_modules() -> list[str]:
    found = []
    for module, package in _NEEDED_MODULES.items():
        try:
            there = find_spec(module) is not None
        except ModuleNotFoundError:
            there = False
        if not there:
            found.append(f"the package {package} is not installed: pip install '{package}'")
    return found


def _wrong_provider(spark: "SparkSession") -> list[str]:
    provider = spark.conf.get(_PROVIDER_KEY, "")
    if provider and provider.endswith("RocksDBStateStoreProvider"):
        return []
    return [f"{_PROVIDER_KEY} is {provider!r}: spark.conf.set({_PROVIDER_KEY!r}, {_PROVIDER!r})"]


def _known_cores(spark: "SparkSession") -> int:
    """The cores of this machine, or 0 where Spark runs elsewhere."""
    return 0 if context_of(spark) is None else os.cpu_count() or 1


def context_of(spark: "SparkSession") -> "SparkContext | None":
    """Return the session's context; None for a Spark Connect session, which raises an AttributeError."""
    return getattr(spark, "sparkContext", None)


def _is_stopped(spark: "SparkSession") -> bool:
    context = context_of(spark)
    if context is None:
        return bool(getattr(spark, "is_stopped", False))
    try:
        _ = context.defaultParallelism
    except Exception:  # noqa: BLE001 - the session was stopped, or Java is gone
        return True
    return False


def _wrong_python(spark: "SparkSession") -> list[str]:
    context = context_of(spark)
    if context is None or not (context.master or "").startswith("local"):
        return []
    python = python_of_workers(context)
    if os.environ.get("PYSPARK_PYTHON") == python or _can_work(shutil.which(python)):
        return []
    problem = (
        f"its workers run {python!r}, which cannot import this library; this is {sys.executable!r}. "
        "Call operators.spark_session(), which also fixes a running session, or set the environment variable "
        "PYSPARK_PYTHON to sys.executable before the session is created"
    )
    return [problem]


def _can_work(python: str | None) -> bool:
    """Whether an interpreter is this one, or has the same version and can import this library. Cost: a second."""
    if python is None:
        return False
    if Path(python).absolute() == Path(sys.executable).absolute() or python in _able:
        return True
    code = "import sys, operators.spark.batch.bounded; print(*sys.version_info[:2])"
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        if done.stdout.split() == [str(part) for part in sys.version_info[:2]]:
            _able.add(python)
            return True
    return False
