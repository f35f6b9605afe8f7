"""Metrics of each batch of a session's streams, as Spark's listener gets them, for outputs."""

import atexit
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timezone

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from operators.errors import DefinitionError
from operators.monitoring.batch import OperatorBatch, QueryRun
from operators.monitoring.lines import TextOutput
from operators.monitoring.output import BatchOutput, as_output
from operators.monitoring.reporter import Reporter
from operators.spark.base.inside import plain_row, wait_for_listeners
from operators.spark.base.kafka_lag import lag_of
from operators.spark.base.observed import COUNTS

_IN, _OUT = "_in", "_out"
_NO_WATERMARK = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MOST_MS_AT_END = 5_000


class BatchListener(StreamingQueryListener):
    """Reports each batch in which an operator of this library worked.

    Args:
        reporter: gets the batches.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Report that a query started."""
        self._reporter.started(QueryRun(event.name, str(event.id), str(event.runId)))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Report each operator of the batch."""
        for batch in operator_batches(event.progress):
            self._reporter.report(batch)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Report that a query ended."""
        self._reporter.ended(str(event.runId), event.exception)


def operator_batches(progress: StreamingQueryProgress) -> Iterator[OperatorBatch]:
    """Yield what each operator of this library did in a batch."""
    observed = {name: _counts(row) for name, row in progress.observedMetrics.items()}
    ours = [(name.removesuffix(_OUT), out) for name, out in observed.items() if name.endswith(_OUT)]
    ours = [(operator, out) for operator, out in ours if "live_keys" in out]
    lag = lag_of(progress.sources) if ours else {}
    for operator, out in ours:
        yield OperatorBatch(
            QueryRun(progress.name, str(progress.id), str(progress.runId)),
            operator,
            progress.batchId,
            _moment(progress.timestamp),
            progress.batchDuration / 1_000,
            observed.get(f"{operator}{_IN}", {}),
            out,
            _watermark(progress),
            lag,
        )


def _counts(row: Row) -> dict[str, int]:
    """The totals of a row of `observed`, or none."""
    counts = plain_row(row.asDict()).get(COUNTS)
    return counts if isinstance(counts, dict) else {}


def _watermark(progress: StreamingQueryProgress) -> datetime | None:
    """The watermark of the batch. Spark's is 1970 until there is one."""
    text = (progress.eventTime or {}).get("watermark")
    try:
        found = None if text is None else _moment(text)
    except ValueError:  # A year that Python does not have.
        return None
    return None if found == _NO_WATERMARK else found


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def report_batches(
    spark: SparkSession, *outputs: BatchOutput | Callable[[OperatorBatch], object]
) -> BatchListener:
    """Report each batch of the session's queries to outputs, from now on.

    Args:
        spark: the session.
        outputs: outputs of `operators.monitoring`, your own, or functions that take an `OperatorBatch`. If one fails, its
            error is logged, and the query and the other outputs go on.

    Returns:
        the listener; `spark.streams.removeListener` ends it.

    Raises:
        DefinitionError: no output is given, or what is given is none.
    """
    if not outputs:
        raise DefinitionError(
            "report_batches needs an output, such as operators.monitoring.PrometheusOutput()"
        )
    return _listen(spark, BatchListener(Reporter([as_output(output) for output in outputs])))


def print_batches(spark: SparkSession, write: Callable[[str], object] = print) -> BatchListener:
    """Print a line for each batch of the session's queries, from now on.

    Args:
        spark: the session.
        write: gets the lines.

    Returns:
        the listener; `spark.streams.removeListener` ends it.
    """
    return report_batches(spark, TextOutput(write))


def _listen(spark: SparkSession, listener: BatchListener) -> BatchListener:
    spark.streams.addListener(listener)
    # Spark Connect's listeners are called by this process itself.
    if getattr(spark, "sparkContext", None) is not None:
        atexit.register(_remove, spark, listener)
    return listener


def _remove(spark: SparkSession, listener: BatchListener) -> None:
    """Remove the listener when Python ends: Java would go on calling it, and print a stack trace."""
    with suppress(Exception):  # The session was stopped, or Java is gone.
        spark.streams.removeListener(listener)
        # It may be in the middle of a call.
        wait_for_listeners(spark, _MOST_MS_AT_END)
