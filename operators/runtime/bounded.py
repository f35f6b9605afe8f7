"""Batch mode: one pass over rows sorted by key and time, every window closes at the end of its key."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from operators.batch import FAR_FUTURE, FAR_PAST, Records, event_ticks, number_keys
from operators.emission import Counters, Emission
from operators.kernel import Ints
from operators.partials import KEY, TIME, Partials, TwoStagePlan, as_partial, column_names, to_table
from operators.program import Program, WindowOperator
from operators.runtime.packing import gathered
from state_backends.backends.memory import MemoryBackend

_ROWS_PER_STEP = 250_000
_SPARK_TYPES = {"i8": "bigint", "f8": "double", "object": "binary"}


@dataclass(frozen=True)
class FirstStage:
    """Accumulates a task's rows before Spark moves them to where their key is.

    Attributes:
        program: of a plan in two stages.
    """

    program: Program

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries of every some hundred thousand rows."""
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

    @property
    def keys(self) -> Sequence[str]:
        """The columns that the rows are sorted by before time, under the names that `named` gives."""

    def named(self, table: pa.Table) -> pa.Table:
        """Return rows as Spark sends them under the names that the other methods know."""

    def latest(self, table: pa.Table) -> int:
        """Return the latest time of some rows in ticks, or the far past."""

    def read(self, table: pa.Table) -> Records | Partials:
        """Return rows as a batch for the operator."""


@dataclass(frozen=True)
class InputRows:
    """The rows of the frame itself."""

    program: Program

    @property
    def keys(self) -> Sequence[str]:
        return self.program.group_by

    def named(self, table: pa.Table) -> pa.Table:
        return table.rename_columns(self.program.inputs)

    def latest(self, table: pa.Table) -> int:
        time, usable = event_ticks(table.column(self.program.event_time), self.program.tick_us)
        return _latest(time if usable is None else time[usable])

    def read(self, table: pa.Table) -> Records | Partials:
        return self.program.read([table])


@dataclass(frozen=True)
class FirstStageRows:
    """What `FirstStage` made of the rows."""

    program: Program

    @property
    def keys(self) -> Sequence[str]:
        return (KEY,)

    def named(self, table: pa.Table) -> pa.Table:
        return as_partial(table)

    def latest(self, table: pa.Table) -> int:
        return _latest(table.column(TIME).to_numpy())

    def read(self, table: pa.Table) -> Records | Partials:
        return self.program.read([table])


@dataclass(frozen=True)
class BoundedRun:
    """Runs a program over one partition of a bounded frame.

    Memory is bounded by a step's rows, whatever the number of keys; a key with more rows than that is taken in several
    steps, as a stream in order of time.

    Attributes:
        program: with every row's window emitted once, whatever the policy: after the last record they agree.
        source: how the rows are read.
    """

    program: Program
    source: Source

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the windows of a partition that is sorted by key and time."""
        open_key: WindowOperator | None = None
        waiting: pa.Table | None = None
        for part in gathered(batches, _ROWS_PER_STEP):
            named = self.source.named(part)
            table = named if waiting is None else pa.concat_tables([waiting, named])
            edge = self._last_key_start(table)
            if edge > 0:
                yield from self._step(open_key or self._operator(), table.slice(0, edge), FAR_FUTURE)
                open_key = None
            waiting = table.slice(edge)
            if waiting.num_rows > _ROWS_PER_STEP:
                open_key = open_key or self._operator()
                last = waiting.num_rows - 1  # kept back: it says whether the next rows are of its key
                taken = waiting.slice(0, last)
                yield from self._step(open_key, taken, self.source.latest(taken))
                waiting = waiting.slice(last)
        if waiting is not None:
            yield from self._step(open_key or self._operator(), waiting, FAR_FUTURE)

    def _operator(self) -> WindowOperator:
        return self.program.plan.operator(self.program.store(MemoryBackend()))

    def _last_key_start(self, table: pa.Table) -> int:
        """Where the rows of the last key begin."""
        number, _ = number_keys([table.column(name) for name in self.source.keys], table.num_rows)
        others = np.flatnonzero(number != number[-1])
        return int(others[-1]) + 1 if len(others) else 0

    def _step(self, operator: WindowOperator, table: pa.Table, close: int) -> Iterator[pa.RecordBatch]:
        """Take rows and close what ends before `close`."""
        emitted: list[Emission] = operator.step(self.source.read(table), operator.close, close, Counters())
        yield from self.program.output.table(emitted).to_batches()


def _latest(time: Ints) -> int:
    return int(time.max()) if len(time) else FAR_PAST
