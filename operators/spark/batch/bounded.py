"""Batch mode: one pass over rows sorted by key and time; windows are closed at the end of their key."""

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, DoubleType, LongType, StructField, StructType

from operators.columns.records import FAR_FUTURE, Records
from operators.errors import OperatorError
from operators.runtime.batch_runner import Batch, BatchRunner, read_batch
from operators.runtime.binding import Binding
from operators.spark.base.failures import located, task
from operators.spark.base.logs import log_at
from operators.spark.base.workers import prepare_worker
from operators.spark.batch.sorting import (
    GROUP_BITS,
    ORDER,
    first_group,
    last_group,
    last_moment,
    time_reached,
)
from operators.spark.inputs import blobs
from operators.spark.inputs.blobs import to_batches
from operators.spark.inputs.packing import gather
from operators.steps.partials import KEY, Partials, column_names, from_table, to_table
from operators.steps.plan import Engine
from operators.steps.step import Counters
from state_backends.backends.memory import MemoryBackend

_LOG_SECONDS = 10.0
_LOG = logging.getLogger(__name__)
_SPARK_TYPES: dict[str, DataType] = {"i8": LongType(), "f8": DoubleType(), "object": BinaryType()}


@dataclass(frozen=True)
class Slicing:
    """How the rows of a bounded frame are cut into steps.

    Attributes:
        rows: the least number of rows of a step.
        group_bits: the number of bits of the key's hash by which rows are sorted: keys for which these are equal share steps.
    """

    rows: int = 250_000
    group_bits: int = GROUP_BITS


@dataclass(frozen=True)
class FirstStage:
    """Accumulates a task's rows before the shuffle.

    Attributes:
        binding: the binding of a plan in two stages.
        name: the name of the operator, in errors.
        rows: the least number of rows that are accumulated at a time.
    """

    binding: Binding
    name: str
    rows: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries of the rows, a few hundred thousand rows at a time."""
        prepare_worker()
        with located(f"operator {self.name!r}, reading rows in {task()}"):
            yield from self._entries(batches)

    def _entries(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = self.binding.plan.two_stages
        assert plan is not None  # noqa: S101 - made for no other
        for part in gather(batches, self.rows):
            records = self.binding.inputs.records.read(part.rename_columns(self.binding.inputs.names))
            with self.binding.windows_named():
                table = to_table(plan.accumulate(records), slice(None))
            plain = table.set_column(0, KEY, table.column(KEY).cast(pa.binary()))
            yield from to_batches(plain)

    @property
    def types(self) -> StructType:
        """The entries' columns as Spark has them."""
        codes = self.binding.plan.layout.codes
        types = [BinaryType(), LongType(), *(_SPARK_TYPES[code] for code in codes)]
        return StructType(list(map(StructField, column_names(len(codes)), types)))


class Source(Protocol):
    """How the rows of a bounded run are read."""

    def read(self, table: pa.Table) -> Records | Partials:
        """Return rows from Spark as a batch for the operator."""


@dataclass(frozen=True)
class InputRows:
    """The rows of the frame itself."""

    binding: Binding

    def read(self, table: pa.Table) -> Records | Partials:
        """Return the rows as records, or accumulated."""
        with self.binding.windows_named():
            return self.binding.read([table.rename_columns(self.binding.inputs.names)])


@dataclass(frozen=True)
class FirstStageRows:
    """The entries that `FirstStage` sends."""

    binding: Binding

    def read(self, table: pa.Table) -> Records | Partials:
        """Return the entries of all tasks, sorted and combined: rows from Spark are in order of groups of keys only."""
        plan = self.binding.plan.two_stages
        assert plan is not None  # noqa: S101 - made for no other
        with self.binding.windows_named():
            return plan.reduce(from_table(table, plan.layout))


@dataclass(frozen=True)
class BoundedRun:
    """Runs a binding over one partition of a bounded frame.

    Memory is bounded by a step's rows and their bytes, whatever the number of keys. A group of keys with more than that is
    processed in several steps, like a stream in order of time, by an operator that sees no other keys: its close time moves
    with theirs.

    Attributes:
        binding: the operator with its plan for bounded frames, which emits each window once.
        source: how the rows are read.
        name: the name of the operator, in errors and in the log.
        rows: the least number of rows of a step, unless they are wide.
        log_level: the lowest level at which the worker logs.
        close_time: close time in ticks: windows that end by it are emitted. By default all are.
    """

    binding: Binding
    source: Source
    name: str
    rows: int
    log_level: str = "warning"
    close_time: int = FAR_FUTURE

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what comes of the rows of a partition that `in_order` has sorted."""
        log_at(self.log_level)
        prepare_worker()
        where = task()
        with located(f"operator {self.name!r}, {where}"):
            yield from self._windows(self._log_progress(batches, where))

    def _log_progress(self, batches: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches, and log the number of rows from time to time."""
        rows, began = 0, time.monotonic()
        logged = began
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if (now := time.monotonic()) - logged >= _LOG_SECONDS:
                logged = now
                _LOG.info("operator %r, %s: %d rows in %.0f s", self.name, where, rows, now - began)

    def _windows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun: Engine | None = None  # with earlier rows of the group that the waiting ones are of
        waiting: pa.Table | None = None
        for part in gather(batches, self.rows):
            table = part if waiting is None else pa.concat_tables([waiting, part])
            if begun is not None and (end := first_group(table)) < table.num_rows:
                yield from self._last_step(begun, table.slice(0, end))
                begun, table = None, table.slice(end)
            edge = last_group(table)
            if edge > 0:
                yield from self._last_step(self._engine(), table.slice(0, edge))
            waiting = table.slice(edge)
            large = waiting.num_rows > self.rows or waiting.nbytes > blobs.AT_ONCE_BYTES
            cut = self._cut(waiting) if large else 0
            if cut:
                begun, taken = begun or self._engine(), waiting.slice(0, cut)
                passed = time_reached(taken, self.binding.tick_us)
                yield from self._step(begun, taken, min(passed, self.close_time))
                waiting = waiting.slice(cut)
        if waiting is not None:
            yield from self._last_step(begun or self._engine(), waiting)

    def _cut(self, waiting: pa.Table) -> int:
        """How many rows of one group to process now. The last ones stay: they show whether the next rows are of their group.

        Rows that Spark's order cannot tell apart stay in one step, for operators that depend on the order of records. If all
        rows are such ones, and records can be accumulated, they are cut anywhere.
        """
        whole = last_moment(waiting)
        return waiting.num_rows - 1 if not whole and self.binding.plan.two_stages is not None else whole

    def _engine(self) -> Engine:
        return self.binding.plan.engine(self.binding.store(MemoryBackend()))

    def _last_step(self, engine: Engine, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Process the last rows of an operator's keys."""
        return self._step(engine, table, self.close_time)

    def _step(self, engine: Engine, table: pa.Table, close_time: int) -> Iterator[pa.RecordBatch]:
        """Process rows and close what ends before `close_time`."""
        runner = BatchRunner(self.binding, engine)
        done = runner.run(self._batch(table), (engine.state.close_time, close_time))
        refuse_late(done.counters)
        for rows in done.tables():
            yield from to_batches(rows)

    def _batch(self, table: pa.Table) -> Batch:
        binding, rows = self.binding, table.drop_columns([ORDER])
        if not (binding.sifts or binding.refuses):
            return Batch(self.source.read(rows))
        return read_batch(binding, [rows.rename_columns(binding.inputs.names)])


def refuse_late(counters: Counters) -> None:
    """Refuse late records, which a bounded frame has only for an operator that is wrong.

    Raises:
        OperatorError: there are some.
    """
    if counters.late:
        raise OperatorError(
            f"{counters.late} records are late in a bounded frame, where none can be: the operator is wrong, not "
            "the data. The late_before of a custom operator must not return a time after the close time that it gets"
        )
