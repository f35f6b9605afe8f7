"""An operator bound to a frame: all that a worker needs, checked on the driver and sent there as one value."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from operators.aggregates.operation import Operation
from operators.columns.records import RecordColumns, Records, most_ticks
from operators.errors import DefinitionError
from operators.steps.emission import OutputSchema
from operators.steps.late import LateSide, Sifted
from operators.steps.partials import Partials, TwoStagePlan, from_table, is_partial, join
from operators.steps.step import Step
from serializers.pages import PageLayout
from state_backends import WindowStore, WriteBatch
from state_backends.store.schema import StoredSchema, StoredState

_FEWEST_SEGMENT_US = 60_000_000
_MOST_LIVE_SEGMENTS = 16


class WindowOperator(Protocol):
    """What the hosts ask of an operator over one store. A batch is what `Program.read` makes for its plan."""

    close: int

    def rebuild(self, close: int, changes: "list[WriteBatch] | tuple[WriteBatch, ...] | None" = None) -> None:
        """Learn what the operator keeps beside the store, after the store was filled from outside."""

    def step(self, batch: Any, step: Step) -> Sequence[Any]:
        """Take one batch and return what to emit, as `Output.table` takes it."""


class Output(Protocol):
    """The rows that come out of an operator."""

    @property
    def keys(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and Arrow types of the key columns."""

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the rows."""

    def table(self, emitted: Sequence[Any]) -> pa.Table:
        """Return what steps emitted as rows."""


class Plan(Protocol):
    """What an operator computes: a window kind with its sizes in ticks and its panes, or a user's own."""

    @property
    def layout(self) -> PageLayout:
        """The layout of stored entries: the head, then the states of the operations in turn."""

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        """Name and kind (`TIME`, `NUMBER`) of each stored column before the states."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations whose states are stored."""

    @property
    def reach(self) -> int:
        """How far in ticks the bounds of windows can be from an event time in them."""

    def describe(self) -> dict[str, Any]:
        """Return what stored state depends on, as plain values to be compared."""

    def operator(self, store: WindowStore) -> WindowOperator:
        """Return the operator over a store."""


@dataclass(frozen=True, slots=True)
class OutputTime:
    """A time in an operator's rows that later operators of a stream may take as event time.

    Attributes:
        column: of the result.
        field: of that column, if it is a struct.
        behind: by how many ticks it may lie before the close time of the batch before the one that emits it.
        updates: whether a row comes several times, each with what it is then.
    """

    column: str
    field: str | None
    behind: int
    updates: bool = False

    @property
    def is_end(self) -> bool:
        """Whether it is the end of a window."""
        return self.field == "end"


@dataclass(frozen=True)
class Program:
    """An operator bound to the columns of a frame.

    Attributes:
        plan: what is computed.
        output: the rows that come out.
        event_time: name of the event-time column.
        group_by: names of the key columns.
        columns: names and Arrow types of the columns that aggregates read.
        grace: in ticks.
        tick_us: length of a tick in microseconds.
        segment: length of a stored segment in ticks.
        gap: name of the column of session gaps, or None.
        late: how late and bad records are told, if somebody wants to know.
        counts: names of what the operator counts itself.
        times: results that later operators may take as event time.
    """

    plan: Plan
    output: Output
    event_time: str
    group_by: tuple[str, ...]
    columns: tuple[tuple[str, pa.DataType], ...]
    grace: int
    tick_us: int
    segment: int
    gap: str | None = None
    late: LateSide | None = None
    counts: tuple[str, ...] = ()
    times: tuple[OutputTime, ...] = ()

    def __post_init__(self) -> None:
        if (
            isinstance(self.output, OutputSchema)
            and most_ticks(self.output.time, self.tick_us, self.plan.reach) <= 0
        ):
            raise DefinitionError(
                f"windows of {self.plan.reach} ticks of {self.tick_us} us are longer than times of type {self.output.time} can "
                f"tell: choose shorter ones, or cast {self.event_time!r} to a coarser unit"
            )

    @property
    def inputs(self) -> list[str]:
        """Names of all input columns, each once."""
        gap = [] if self.gap is None else [self.gap]
        told = [] if self.late is None else self.late.record.names
        read = [*self.group_by, self.event_time, *gap, *(name for name, _ in self.columns)]
        return list(dict.fromkeys([*read, *told]))

    @property
    def records(self) -> RecordColumns:
        """Which columns make the records."""
        values = tuple(name for name, _ in self.columns)
        return RecordColumns(self.event_time, self.group_by, values, self.tick_us, self.gap, self.plan.reach)

    @property
    def aliases(self) -> dict[str, str]:
        """Names that any engine takes as they are, for each input column."""
        return {name: f"c{number}" for number, name in enumerate(self.inputs)}

    def empty(self) -> pa.Table:
        """Return a table without rows that can be read."""
        told = (
            {}
            if self.late is None
            else dict(zip(self.late.record.names, self.late.record.types, strict=True))
        )
        types = {**told, self.event_time: pa.timestamp("us"), **dict(self.output.keys), **dict(self.columns)}
        if self.gap is not None:
            types.setdefault(self.gap, pa.duration("us"))
        return pa.schema([(name, types[name]) for name in self.inputs]).empty_table()

    @property
    def rows(self) -> pa.Schema:
        """The Arrow schema of the rows that come out, those of late records among them."""
        return self.output.arrow if self.late is None else self.late.beside(self.output.arrow)

    def sifted(self, tables: Sequence[pa.Table]) -> Sifted | None:
        """Return the rows by whether they can be used, if somebody wants to know of those that cannot."""
        return None if self.late is None else Sifted.of(pa.concat_tables(tables), self.records)

    def told(self, batch: Sifted | None, step: Step) -> pa.StructArray | None:
        """Return what is to be told of a batch's late and bad records after its step; count the bad ones."""
        if batch is None or self.late is None:
            return None
        step.counters.rows += batch.bad.num_rows
        step.counters.bad += batch.bad.num_rows
        return self.late.told(batch, step.late or [])

    def joined(self, rows: pa.Table, told: pa.StructArray | None) -> pa.Table:
        """Return rows, and what is told of late records, as one table of the schema `rows`."""
        return rows if told is None or self.late is None else self.late.joined(rows, told)

    def read(self, tables: Sequence[pa.Table]) -> Records | Partials:
        """Return a batch for the operator's step, from tables of rows or of what a first stage made of rows."""
        plan = self.plan
        if not isinstance(plan, TwoStagePlan):
            return self.records.read(pa.concat_tables(tables))
        rows = [table for table in tables if not is_partial(table)]
        parts = [from_table(table, plan.layout) for table in tables if is_partial(table)]
        if rows:
            parts.insert(0, plan.accumulate(self.records.read(pa.concat_tables(rows))))
        return join(plan, parts)

    def store(self, backend: Any) -> WindowStore:
        """Return the window store over a backend."""
        return WindowStore(backend, self.plan.layout, self.segment)

    def stored(self) -> StoredSchema:
        """Return what stored entries are."""
        states = [
            StoredState(op.describe(), tuple(zip(op.parts, op.codes, strict=True)))
            for op in self.plan.operations
        ]
        keys = pa.schema(list(self.output.keys))
        return StoredSchema(keys, self.tick_us, self.segment, self.grace, self.plan.head, tuple(states))

    def identity(self) -> dict[str, Any]:
        """Return what stored state depends on: a state written under another identity is refused."""
        return {
            **self.plan.describe(),
            "grouped by": [f"{name}: {type_}" for name, type_ in self.output.keys],
            "columns": [f"{name}: {type_}" for name, type_ in self.columns],
            "tick in us": self.tick_us,
            "segment in ticks": self.segment,
        }


def default_segment(least: int, size: int, grace: int, tick_us: int) -> int:
    """Return the default length of a segment in ticks: `least` or more, a minute or more, few segments alive at a time."""
    fewest = -(-_FEWEST_SEGMENT_US // tick_us)
    return max(least, fewest, (2 * size + grace) // _MOST_LIVE_SEGMENTS)
