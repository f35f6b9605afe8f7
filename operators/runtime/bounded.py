"""Batch mode: one pass over rows sorted by key and time, every window closes at the end of its key."""

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from operators.base.step import Step
from operators.batch import FAR_FUTURE, Records
from operators.partials import KEY, Partials, TwoStagePlan, as_partial, column_names, to_table
from operators.program import Program, WindowOperator
from operators.runtime.allocation import keep_freed_memory
from operators.runtime.failures import located, task
from operators.runtime.logs import log_at
from operators.runtime.packing import gathered
from operators.runtime.sorting import ORDER, last_group, reached
from state_backends.backends.memory import MemoryBackend

_ROWS_PER_STEP = 250_000
_TELL_SECONDS = 10.0
_LOG = logging.getLogger(__name__)
_SPARK_TYPES = {"i8": "bigint", "f8": "double", "object": "binary"}


@dataclass(frozen=True)
class FirstStage:
    """Accumulates a task's rows before Spark moves them to where their key is.

    Attributes:
        program: of a plan in two stages.
        name: of the operator, in errors.
    """

    program: Program
    name: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries of every some hundred thousand rows."""
        keep_freed_memory()
        with located(f"operator {self.name!r}, reading rows in {task()}"):
            yield from self._entries(batches)

    def _entries(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = self.program.plan
        assert isinstance(plan, TwoStagePlan)  # noqa: S101 - made for no other
        for part in gathered(batches, _ROWS_PER_STEP):
            records = self.program.records.read(part.rename_columns(self.program.inputs))
            table = to_table(plan.accumulate(records), slice(None))
            plain = table.set_column(0, KEY, table.column(KEY).cast(pa.binary()))
            yield from plain.replace_schema_metadata(None).to_batches()

    @property
    def ddl(self) -> str:
        """The entries' columns as Spark has them."""
        codes = self.program.plan.layout.codes
        types = ["binary", "bigint", *(_SPARK_TYPES[code] for code in codes)]
        return ", ".join(
            f"{name} {type_}" for name, type_ in zip(column_names(len(codes)), types, strict=True)
        )


class Source(Protocol):
    """How the rows that come to a bounded run are read."""

    def read(self, table: pa.Table) -> Records | Partials:
        """Return rows as Spark sends them as a batch for the operator."""


@dataclass(frozen=True)
class InputRows:
    """The rows of the frame itself."""

    program: Program

    def read(self, table: pa.Table) -> Records | Partials:
        """Return the rows as records, or accumulated."""
        return self.program.read([table.rename_columns(self.program.inputs)])


@dataclass(frozen=True)
class FirstStageRows:
    """What `FirstStage` made of the rows."""

    program: Program

    def read(self, table: pa.Table) -> Records | Partials:
        """Return the entries."""
        return self.program.read([as_partial(table)])


@dataclass(frozen=True)
class BoundedRun:
    """Runs a program over one partition of a bounded frame.

    Memory is bounded by a step's rows, whatever the number of keys; a key with more rows than that is taken in several
    steps, as a stream in order of time.

    Attributes:
        program: with every row's window emitted once, whatever the policy: after the last record they agree.
        source: how the rows are read.
        name: of the operator, in errors and in the log.
        log_level: from which level on the worker logs.
    """

    program: Program
    source: Source
    name: str
    log_level: str = "warning"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the windows of a partition that is sorted as `in_order` does."""
        log_at(self.log_level)
        keep_freed_memory()
        where = task()
        with located(f"operator {self.name!r}, {where}"):
            yield from self._windows(self._watched(batches, where))

    def _watched(self, batches: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches, and log from time to time how many rows there were."""
        rows, began = 0, time.monotonic()
        told = began
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if (now := time.monotonic()) - told >= _TELL_SECONDS:
                told = now
                _LOG.info("operator %r, %s: %d rows in %.0f s", self.name, where, rows, now - began)

    def _windows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        open_keys: WindowOperator | None = None
        waiting: pa.Table | None = None
        for part in gathered(batches, _ROWS_PER_STEP):
            table = part if waiting is None else pa.concat_tables([waiting, part])
            edge = last_group(table)
            if edge > 0:
                yield from self._step(open_keys or self._operator(), table.slice(0, edge), FAR_FUTURE)
                open_keys = None
            waiting = table.slice(edge)
            if waiting.num_rows > _ROWS_PER_STEP:
                open_keys = open_keys or self._operator()
                last = waiting.num_rows - 1  # kept back: it says whether the next rows are of its keys
                taken = waiting.slice(0, last)
                yield from self._step(open_keys, taken, reached(taken, self.program.tick_us))
                waiting = waiting.slice(last)
        if waiting is not None:
            yield from self._step(open_keys or self._operator(), waiting, FAR_FUTURE)

    def _operator(self) -> WindowOperator:
        return self.program.plan.operator(self.program.store(MemoryBackend()))

    def _step(self, operator: WindowOperator, table: pa.Table, close: int) -> Iterator[pa.RecordBatch]:
        """Take rows and close what ends before `close`."""
        program, rows = self.program, table.drop_columns([ORDER])
        sifted = None if program.late is None else program.sifted([rows.rename_columns(program.inputs)])
        batch = self.source.read(rows) if sifted is None else program.read([sifted.usable])
        step = Step(operator.close, close, late=None if sifted is None else [])
        emitted = program.output.table(operator.step(batch, step))
        yield from program.joined(emitted, program.told(sifted, step)).to_batches()
