"""Whether executors have the packages that operators need, in the versions of the driver."""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from operators.errors import SessionSetupError
from operators.spark.base.inside import OTHER_PYTHON
from operators.spark.base.session import context_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYTHON = "Python"
LIBRARY = "spark-stateful-windows"
_PARTS = {PYTHON: 2, LIBRARY: None, "msgpack": 1, "numpy": 2, "pyarrow": 1, "rocksdict": 2, "zstandard": 1}
"""How many parts of a version have to be the driver's; None for all of them."""
_TASKS_A_CORE = 2
_CORES_OF_A_SERVER = 8
"""Assumed for Spark Connect, which does not tell."""
_WAIT_S = 0.2
"""Each task waits, so that no core takes the tasks of all others."""
_NO_DAEMON = "Error from python worker"

Found = Mapping[str, str | None]
"""The version of each package, None for one that is not there."""


def check_executors(spark: "SparkSession", tasks: int | None = None) -> dict[str, Found]:
    """Ask the executors of a session for their packages, before a query writes any state, and compare them with the driver's.

    Compared are this library, Python (3.11 is not 3.12), NumPy, PyArrow, msgpack, zstandard and rocksdict. What the driver
    does not have either is not asked for, such as rocksdict where the backend is another one. With Spark Connect, the client
    is the driver. An executor without this library cannot run Spark's daemon of workers that the session's conf may name:
    that is an error, too.

    Cost: a job of short tasks, 0.2 s each.

    Args:
        spark: the session.
        tasks: how many tasks ask. By default, two for each core that Spark knows of, or 16 with Spark Connect: give more where
            executors come later.

    Returns:
        For each host that answered, the versions by package. A host that is missing has run no task.

    Raises:
        SessionSetupError: a package is missing on a host, or has another version; names host, package and what to install. Or
            no Python worker could start.
    """
    from pyspark.sql.functions import udf

    ours = json.loads(_asking([*_PARTS], 0)(None))[1]
    context = context_of(spark)
    count = tasks or _TASKS_A_CORE * (_CORES_OF_A_SERVER if context is None else context.defaultParallelism)
    asked = udf(_asking([*_PARTS], _WAIT_S), "string", useArrow=False)
    try:
        rows = spark.range(count, numPartitions=count).select(asked("id")).distinct().collect()
    except Exception as error:  # PySpark's, or Java's where no worker could start
        raise SessionSetupError(_unanswered(str(error))) from error
    hosts: dict[str, Found] = {}
    problems = []
    for host, found in sorted((json.loads(told) for (told,) in rows), key=str):
        hosts[host] = found
        problems += [f"host {host!r} {problem}" for problem in _problems(ours, found)]
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise SessionSetupError(
            f"executors cannot run the operators of this program:\n{listed}\n"
            "Give all executors the driver's environment: the page On a cluster of the documentation says how"
        )
    return hosts


def _asking(names: Sequence[str], seconds: float) -> Callable[[Any], str]:
    """Return a function that tells versions as JSON. Spark sends it as a whole, since executors may lack this library."""

    def told(_: Any) -> str:
        import json
        import platform
        import socket
        import time
        from importlib.metadata import PackageNotFoundError, version

        found: dict[str, str | None] = {names[0]: platform.python_version()}
        for name in names[1:]:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = None
        time.sleep(seconds)
        return json.dumps([socket.gethostname(), found])

    return told


def _problems(ours: Found, theirs: Found) -> list[str]:
    """What is wrong with a host's packages, one text for each."""
    problems = []
    for name, parts in _PARTS.items():
        wanted, found = ours[name], theirs[name]
        if wanted is None:
            continue
        if found is None:
            problems.append(f"lacks {name}: install {name} {wanted} there")
        elif found.split(".")[:parts] != wanted.split(".")[:parts]:
            problems.append(f"has {name} {found}, and the driver {wanted}: install one of them on both")
    return problems


def _unanswered(error: str) -> str:
    """Why executors did not answer."""
    if OTHER_PYTHON in error:
        return (
            f"executors have another Python than the driver, which has {platform.python_version()}: give both the same minor "
            f"version, and set PYSPARK_PYTHON to that of the executors. Spark says: {_line(error, OTHER_PYTHON)}"
        )
    if "No module named 'operators'" in error or _NO_DAEMON in error:
        return (
            f"executors cannot start Python workers: install {LIBRARY} {version(LIBRARY)} and what it needs there, or leave "
            f"spark.python.daemon.module out of the session's conf, and ask again. Spark says: {_line(error, 'No module')}"
        )
    reason = error.partition("\n\tat ")[0]
    return f"executors could not be asked for their packages: {reason}"


def _line(text: str, mark: str) -> str:
    """The line of a text that has a mark, or the first one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if mark in line), lines[0] if lines else "")
