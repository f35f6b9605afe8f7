"""A line of text for each batch of a stream."""

import atexit
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

_LOG = logging.getLogger(__name__)
_OUT = "_out"
_MIB = 1 << 20
_TIMES = "step", "commit", "restore"
_SLOW_MS = 100
_MOST_MS_AT_END = 5_000


def batch_line(
    batch: int, seconds: float, name: str, taken: Mapping[str, Any], out: Mapping[str, Any]
) -> str:
    """Return what an operator did in a batch as a line of text.

    Args:
        batch: its number.
        seconds: how long the whole batch took.
        name: of the operator.
        taken: the observed metrics `<name>_in`.
        out: the observed metrics `<name>_out`.
    """
    rows, bad, did = taken.get("rows") or 0, taken.get("bad") or 0, {key: out[key] or 0 for key in out}
    size = f"{did['live_keys']:,} keys and {did['live_panes']:,} panes in {did['state_bytes'] / _MIB:.1f} MiB"
    slow = [f"{what} {did[f'{what}_ms'] / 1_000:.1f} s" for what in _TIMES if did[f"{what}_ms"] >= _SLOW_MS]
    parts = [
        f"batch {batch}, {name}: {rows:,} rows in {seconds:.1f} s",
        f"{did['windows']:,} rows out",
        f"{did['late']:,} late" if did["late"] else "",
        f"{bad:,} bad" if bad else "",
        size,
        ", ".join(slow),
    ]
    return "; ".join(part for part in parts if part)


class BatchLines(StreamingQueryListener):
    """Writes a line for each batch in which an operator of this library worked.

    Args:
        write: gets the line; by default it is logged at level INFO.
    """

    def __init__(self, write: Callable[[str], None] = _LOG.info) -> None:
        self._write = write

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing before the first batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Write a line for each operator of the batch."""
        progress = event.progress
        observed = {name: _by_name(row) for name, row in progress.observedMetrics.items()}
        for name, out in observed.items():
            if name.endswith(_OUT) and "live_keys" in out:
                operator = name.removesuffix(_OUT)
                taken = observed.get(f"{operator}_in", {})
                self._write(
                    batch_line(progress.batchId, progress.batchDuration / 1_000, operator, taken, out)
                )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the query has its exception."""


def _by_name(row: Row) -> dict[str, Any]:
    """A row's values by name. Spark Connect has a row as its values and their schema."""
    found = row.asDict()
    if found.keys() == {"schema", "values"}:
        names = [field["name"] for field in found["schema"]["fields"]]
        return dict(zip(names, found["values"], strict=True))
    return found


def print_batches(spark: SparkSession, write: Callable[[str], None] = print) -> BatchLines:
    """Print a line for each batch of the session's queries, from now on.

    Args:
        spark: the session.
        write: gets the lines.

    Returns:
        the listener; `spark.streams.removeListener` ends it.
    """
    lines = BatchLines(write)
    spark.streams.addListener(lines)
    if (
        getattr(spark, "sparkContext", None) is not None
    ):  # Spark Connect's listeners are called by this process itself.
        atexit.register(_remove, spark, lines)
    return lines


def _remove(spark: SparkSession, lines: BatchLines) -> None:
    """Remove the listener when Python ends: Java would go on calling it, and print a stack trace."""
    with suppress(Exception):  # The session was stopped, or Java is gone.
        spark.streams.removeListener(lines)
        # It may be in the middle of a call.
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_MOST_MS_AT_END)  # noqa: SLF001
