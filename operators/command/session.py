"""The Spark session of the command: local, quiet, and with all its files in a temporary folder."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from operators.command.errors import CommandError
from operators.spark.base.session import PARTITIONS_KEY, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Times are in UTC; and tasks are not put together, so that buckets are read side by side."""
_TASKS_PER_CORE = 4
_LAST_LINES = 5
_STREAMS = 1, 2
"""Numbers of stdout and stderr."""


@contextmanager
def session(
    conf: Mapping[str, str], *, tasks: int | None = None, quiet: bool = True
) -> Iterator["SparkSession"]:
    """Provide a session: a new one, which is stopped at the end, or one beside the session that runs in this process.

    Args:
        conf: more of Spark's conf.
        tasks: number of shuffle partitions; None for a few on each core.
        quiet: whether Spark logs nothing.
    """
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield _beside(running, conf, tasks)
        return
    with tempfile.TemporaryDirectory(prefix="windows-command-", ignore_cleanup_errors=True) as folder:
        own = _start({**_conf(Path(folder)), **conf}, Path(folder, "log") if quiet else None)
        try:
            own.conf.set(PARTITIONS_KEY, tasks or _some(own))
            yield own
        finally:
            own.stop()


def _start(conf: Mapping[str, str], log: Path | None) -> "SparkSession":
    """A new session. What its JVM and workers print goes to a file, if one is given.

    Raises:
        CommandError: Spark does not start; has the last lines of the file.
    """
    if log is None:
        return spark_session("windows", conf=conf)
    from pyspark.errors import PySparkRuntimeError

    try:
        with _printing_to(log):
            return spark_session("windows", conf=conf)
    except PySparkRuntimeError as error:
        last = " / ".join(log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:])
        raise CommandError(f"Spark does not start: {error}; it printed: {last}") from error


@contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """Have processes that start in the block print to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {stream: os.dup(stream) for stream in _STREAMS}
    try:
        with path.open("wb") as file:
            for stream in _STREAMS:
                os.dup2(file.fileno(), stream)
        yield
    finally:
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)


def _beside(running: "SparkSession", conf: Mapping[str, str], tasks: int | None) -> "SparkSession":
    own = running.newSession()
    for name, value in {**_READING, **conf}.items():
        own.conf.set(name, value)
    own.conf.set(PARTITIONS_KEY, tasks or _some(own))
    return own


def _some(spark: "SparkSession") -> int:
    return _TASKS_PER_CORE * spark.sparkContext.defaultParallelism


def _conf(folder: Path) -> dict[str, str]:
    return {
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        **_READING,
    }
