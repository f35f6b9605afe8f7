"""The processor that Spark calls with each bucket's rows."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from operators.errors import DefinitionError
from operators.runtime.closing import Closing
from operators.runtime.evolution import stored_change
from operators.runtime.metrics import line, names
from operators.runtime.program import Program
from operators.runtime.stateful import StatefulOperator
from operators.spark.copies import drop_copy, open_copy
from operators.spark.failures import located
from operators.spark.journal import SparkJournal
from operators.spark.logs import log_at
from operators.spark.packing import ARRIVED, PARTIALS, ROWS, from_blobs, to_blob
from operators.spark.runs import batch_number
from operators.spark.workers import prepare_worker
from state_backends import StateConfig, StateError
from state_backends.checkpoints.savepoint import Savepoint
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.progress import FAR_PAST, Progress

_ROWS_PER_BLOB = 250_000
_LOG = logging.getLogger(__name__)


def result_types(counts: Sequence[str]) -> StructType:
    """Return the columns that a bucket returns: its metrics, those of a custom operator last, and rows as a blob."""
    metrics = StructType([StructField(name, LongType()) for name in names(counts)])
    return StructType([StructField("metrics", metrics), StructField("blob", BinaryType())])


def check_buckets(progress: Progress, buckets: int) -> None:
    """Refuse another number of buckets than that of the stored state.

    Args:
        progress: of the state's pointer.
        buckets: of the query.

    Raises:
        StateError: with both numbers and the ways out.
    """
    before = progress.buckets
    if before not in (None, buckets):
        raise StateError(
            f"the checkpoint has {before} buckets, but this query has {buckets}: set spark.windows.state.buckets and "
            f"spark.sql.shuffle.partitions back to {before}. Or move the state: write_savepoint(checkpoint, folder), then "
            "start with a new checkpoint and options={'state.savepoint': folder}"
        )


@dataclass(frozen=True, slots=True)
class Blobs:
    """What tasks sent to a bucket: rows as they are, and partial aggregates."""

    rows: Sequence[bytes] = ()
    partials: Sequence[bytes] = ()

    def __bool__(self) -> bool:
        return bool(self.rows or self.partials)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of Spark for a bucket.

    Attributes:
        watermark: in milliseconds.
        clock: of the batch, in milliseconds since the epoch; the same if the batch is repeated.
        arrived: whether the batch has records, if tasks tell that.
        fired: the event-time timer that fired, in milliseconds; None if the call is for rows.
    """

    watermark: int
    clock: int
    arrived: bool = False
    fired: int | None = None

    @classmethod
    def of(cls, times: Any, *, arrived: bool = False, fired: int | None = None) -> "Call":
        """Return the call at these times."""
        return cls(times.getCurrentWatermarkInMs(), times.getCurrentProcessingTimeInMs(), arrived, fired)


class BucketProcessor(StatefulProcessor):
    """Runs the program over one bucket per call: one commit, and one event-time timer as long as there is state.

    Args:
        program: what is run.
        config: the backend.
        labels: of all buckets, in their order.
        name: of the operator, in errors and in the log.
        closing: how close times follow from the watermark.
        savepoint: what a query without a checkpoint starts from.
    """

    def __init__(
        self,
        program: Program,
        config: StateConfig,
        labels: tuple[int, ...],
        name: str,
        closing: Closing,
        savepoint: Savepoint | None = None,
    ) -> None:
        self._program = program
        self._name = name
        self._metrics = names(program.counts)
        self._config = config
        self._labels = labels
        self._closing = closing
        self._savepoint = savepoint

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keep Spark's handle and open the journal."""
        prepare_worker()
        log_at(self._config.log_level)
        self._handle = handle
        self._journal = SparkJournal(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Process a bucket's packed rows."""
        parts = [part for frame in rows for part in zip(frame["kind"], frame["blob"], strict=True)]
        blobs = Blobs(*([blob for kind, blob in parts if kind == which] for which in (ROWS, PARTIALS)))
        arrived = any(kind == ARRIVED for kind, _ in parts)
        return self._run(key[0], blobs, Call.of(timerValues, arrived=arrived))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Close windows because the watermark moved."""
        fired = expiredTimerInfo.getExpiryTimeInMs()
        return self._run(key[0], Blobs(), Call.of(timerValues, fired=fired))

    def close(self) -> None:
        """Keep the copies open for the next batch."""

    def _run(self, label: int, blobs: Blobs, call: Call) -> Iterator[pd.DataFrame]:
        buckets, batch = len(self._labels), batch_number()
        # With another number of buckets, a timer may belong to a bucket that no longer exists.
        bucket = (
            f"bucket {self._labels.index(label)} of {buckets}" if label in self._labels else "an old bucket"
        )
        with located(f"operator {self._name!r}, {bucket}, batch {batch}"):
            yield from self._batch(label, batch, blobs, call)

    def _batch(self, label: int, batch: int | None, blobs: Blobs, call: Call) -> Iterator[pd.DataFrame]:
        if call.watermark < 0:
            raise DefinitionError(
                "the frame is bounded, but apply was told that it is a stream: give streaming=False"
            )
        stored = read_pointer(self._journal)
        pointer = stored or Pointer.fresh()
        check_buckets(pointer.progress, len(self._labels))
        # The bucket of label 0, which exists with any number of buckets, starts with the first batch: its pointer shows
        # queries with other buckets, or with another operator, that they cannot go on from here.
        begins = stored is None and (self._savepoint is not None or label == 0)
        if not (blobs or begins or self._is_due(call, pointer.progress)) and self._fits(pointer):
            # A timer that a later one has replaced, or a call that only starts or checks the bucket.
            return
        operator = open_copy(self._program, self._config, pointer.store_id)
        try:
            pointer = operator.open(self._journal, pointer)
            first = self._begun(operator, label) if begins else []
            closes = self._closes(call, pointer.progress)
            done = operator.step(closes, *self._tables(blobs))
            # Asked before the commit, while the store knows of this batch's changes.
            timer = None if operator.store.is_empty() else call.watermark + 1
            self._set_timer(timer, pointer.progress.timer, call.fired)
            active = self._active(call, pointer.progress)
            host = Progress(buckets=len(self._labels), timer=timer, active=active)
            pointer = operator.commit(self._journal, pointer, host, batch)
            metrics = operator.drain_metrics(done.counters)
        except BaseException:
            drop_copy(self._config, pointer.store_id)
            raise
        metrics["windows"] += sum(table.num_rows for table in first)
        _LOG.info(
            "operator=%s bucket=%d batch=%s %s", self._name, self._labels.index(label), batch, line(metrics)
        )
        rows = self._program.joined(pa.concat_tables([*first, done.rows]), done.late)
        yield from self._results(rows, metrics)

    def _is_due(self, call: Call, progress: Progress) -> bool:
        """Whether a bucket without rows has work to do."""
        if call.fired is not None:
            return call.fired == progress.timer
        if self._closing.chained:  # To know the close time of the batch before in the next one.
            return True
        has_state = progress.timer is not None
        return has_state and (call.arrived or self._by_clock(call, progress) > progress.close_time)

    def _closes(self, call: Call, progress: Progress) -> tuple[int, int]:
        """Close times in ticks at the start and at the end of the batch."""
        start, end = self._closing.closes(call.watermark, self._program.tick_us)
        return start, max(end, self._by_clock(call, progress))

    def _by_clock(self, call: Call, progress: Progress) -> int:
        """The close time that follows from the clock, if the stream is quiet."""
        active = self._active(call, progress)
        return (
            FAR_PAST if active is None else self._closing.by_clock(call.clock, active, self._program.tick_us)
        )

    def _active(self, call: Call, progress: Progress) -> int | None:
        """The clock of the last batch with records; that of the first one that the bucket worked in, if there was none."""
        if self._closing.idle_ms is None:
            return None
        return call.clock if call.arrived or progress.active is None else progress.active

    def _fits(self, pointer: Pointer) -> bool:
        """Whether the stored state has the form that this operator writes; otherwise the bucket has to be opened.

        All buckets are asked in a run's first batch, so that all have one form after it, as `read_state` needs it.

        Raises:
            StateError: the state belongs to another operator, or the policy forbids to change it.
        """
        return stored_change(self._program, pointer.progress, self._config.evolution) is None

    def _results(self, rows: pa.Table, metrics: dict[str, int]) -> Iterator[pd.DataFrame]:
        """Yield the result blobs; the first one has the metrics."""
        tables = [rows.slice(at, _ROWS_PER_BLOB) for at in range(0, rows.num_rows, _ROWS_PER_BLOB)]
        for table in tables or [None]:
            counts = {name: metrics.get(name, 0) for name in self._metrics}
            yield pd.DataFrame({"metrics": [counts], "blob": [None if table is None else to_blob(table)]})
            metrics = {}

    def _begun(self, operator: StatefulOperator, label: int) -> list[pa.Table]:
        """Start from the savepoint, if there is one; return the rows that become due."""
        if self._savepoint is None:
            return []
        return [operator.start_from(self._savepoint, self._labels.index(label), len(self._labels))]

    def _tables(self, blobs: Blobs) -> tuple[list[pa.Table], list[pa.Table]]:
        """The batch's rows and partial aggregates; a batch without any has one table without rows."""
        rows, partials = from_blobs(blobs.rows), from_blobs(blobs.partials)
        return (rows if rows or partials else [self._program.inputs.empty()]), partials

    def _set_timer(self, timer: int | None, before: int | None, fired: int | None) -> None:
        """Have the next move of the watermark call this bucket as long as it has state."""
        if before is not None and before not in (timer, fired):
            self._handle.deleteTimer(before)
        if timer is not None and (timer != before or fired is not None):
            self._handle.registerTimer(timer)
