"""The processor that Spark calls with each bucket's rows."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from operators.runtime.closing import Closing
from operators.runtime.evolution import stored_change
from operators.runtime.metrics import line, names
from operators.runtime.program import Program
from operators.runtime.stateful import Outcome, StatefulOperator
from operators.spark.copies import drop_copy, open_copy
from operators.spark.failures import located
from operators.spark.journal import SparkJournal
from operators.spark.logs import log_at
from operators.spark.packing import from_blobs, to_blob
from operators.spark.runs import batch_number
from state_backends import StateConfig, StateError
from state_backends.checkpoints.savepoint import Savepoint
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.progress import Progress

_ROWS_PER_BLOB = 250_000
_LOG = logging.getLogger(__name__)


def result_ddl(counts: Sequence[str]) -> str:
    """Return the columns of what a bucket gives back: its metrics, those of the operator's own behind, and rows as a blob."""
    return ", ".join(["bucket int", *(f"`{name}` bigint" for name in names(counts)), "blob binary"])


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
            f"the checkpoint has {before} buckets, this query has {buckets}: set spark.windows.state.buckets and "
            f"spark.sql.shuffle.partitions back to {before}. Or move the state: write_savepoint(checkpoint, folder), then "
            "start with a new checkpoint and options={'state.savepoint': folder}"
        )


class BucketProcessor(StatefulProcessor):
    """Runs the program over one bucket per call: one commit, and one event-time timer while state is left.

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
        log_at(self._config.log_level)
        self._handle = handle
        self._journal = SparkJournal(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Take a bucket's packed rows."""
        blobs = [blob for frame in rows for blob in frame["blob"] if blob is not None]
        return self._run(key[0], blobs, timerValues.getCurrentWatermarkInMs(), fired=None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Close windows because the watermark moved."""
        fired = expiredTimerInfo.getExpiryTimeInMs()
        return self._run(key[0], [], timerValues.getCurrentWatermarkInMs(), fired)

    def close(self) -> None:
        """Keep the copies open for the next batch."""

    def _run(
        self, label: int, blobs: list[bytes], watermark: int, fired: int | None
    ) -> Iterator[pd.DataFrame]:
        buckets, batch = len(self._labels), batch_number()
        # With another number of buckets a timer may be of one that there is no more.
        bucket = (
            f"bucket {self._labels.index(label)} of {buckets}" if label in self._labels else "an old bucket"
        )
        with located(f"operator {self._name!r}, {bucket}, batch {batch}"):
            yield from self._batch(label, batch, blobs, watermark, fired)

    def _batch(
        self, label: int, batch: int | None, blobs: list[bytes], watermark: int, fired: int | None
    ) -> Iterator[pd.DataFrame]:
        stored = read_pointer(self._journal)
        pointer = stored or Pointer.fresh()
        check_buckets(pointer.progress, len(self._labels))
        # The bucket of label 0, which there is with any number of buckets, begins with the first batch: its pointer tells
        # queries with other buckets, or with another operator, that they cannot go on from here.
        begins = stored is None and (self._savepoint is not None or label == 0)
        timer = pointer.progress.timer
        # In a chain each bucket works in each batch, to know the close time of the batch before in the next one.
        wanted = timer == fired if fired is not None else begins or self._closing.chained
        if not (blobs or wanted):
            # A timer that a later one has replaced, or a call that only wakes buckets to begin, or to be checked.
            stored_change(self._program, pointer.progress, self._config.evolution)
            return
        operator = open_copy(self._program, self._config, pointer.store_id)
        try:
            pointer = operator.open(self._journal, pointer)
            first = self._begun(operator, label) if begins else []
            outcome = self._step(operator, pointer, blobs, watermark, fired, batch)
        except BaseException:
            drop_copy(self._config, pointer.store_id)
            raise
        outcome.metrics["windows"] += sum(table.num_rows for table in first)
        told = self._name, self._labels.index(label), batch, line(outcome.metrics)
        _LOG.info("operator=%s bucket=%d batch=%s %s", *told)
        rows = self._program.joined(pa.concat_tables([*first, outcome.rows]), outcome.late)
        yield from self._results(label, rows, outcome.metrics)

    def _results(self, label: int, rows: pa.Table, metrics: dict[str, int]) -> Iterator[pd.DataFrame]:
        """The result blobs; the metrics stand beside the first."""
        tables = [rows.slice(at, _ROWS_PER_BLOB) for at in range(0, rows.num_rows, _ROWS_PER_BLOB)]
        for table in tables or [None]:
            counts = [metrics.get(name, 0) for name in self._metrics]
            values = (label, *counts, None if table is None else to_blob(table))
            yield pd.DataFrame([values], columns=["bucket", *self._metrics, "blob"])
            metrics = {}

    def _begun(self, operator: StatefulOperator, label: int) -> list[pa.Table]:
        """Start from the savepoint; return the rows that fell due on the way."""
        if self._savepoint is None:
            return []
        return [operator.start_from(self._savepoint, self._labels.index(label), len(self._labels))]

    def _step(
        self,
        operator: StatefulOperator,
        pointer: Pointer,
        blobs: list[bytes],
        watermark: int,
        fired: int | None,
        batch: int | None,
    ) -> Outcome:
        tables = from_blobs(blobs) or [self._program.empty()]
        return operator.run(
            tables,
            self._closing.closes(watermark, self._program.tick_us),
            self._journal,
            pointer,
            lambda: Progress(
                buckets=len(self._labels),
                timer=self._set_timer(operator, pointer.progress.timer, watermark + 1, fired),
            ),
            batch,
        )

    def _set_timer(
        self, operator: StatefulOperator, old: int | None, new: int, fired: int | None
    ) -> int | None:
        """Have the next move of the watermark call this bucket as long as it has state; return the timer."""
        wanted = None if operator.store.is_empty() else new
        if old is not None and old not in (wanted, fired):
            self._handle.deleteTimer(old)
        if wanted is not None and (wanted != old or fired is not None):
            self._handle.registerTimer(wanted)
        return wanted
