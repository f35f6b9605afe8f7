"""An operator bound to a frame: everything that a worker needs, checked on the driver and sent as one value."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from operators.aggregates.definitions import Bound
from operators.columns.durations import ticks
from operators.columns.records import Records, most_ticks
from operators.errors import DefinitionError
from operators.runtime.identity import CLOCK
from operators.runtime.inputs import Inputs
from operators.runtime.page_places import PAGE_ROWS
from operators.steps.failed_windows import windows_named
from operators.steps.late_reports import LateSide
from operators.steps.partials import Partials, from_table, join
from operators.steps.plan import Plan
from state_backends import StateConfig, WindowStore
from state_backends.store.schema import StoredSchema, StoredState

_FEWEST_SEGMENT_US = 60_000_000
_MOST_LIVE_SEGMENTS = 16


class Output(Protocol):
    """The rows that come out of an operator."""

    @property
    def keys(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and Arrow types of the key columns."""

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the rows."""

    @property
    def aggregates(self) -> tuple[tuple[str, Bound], ...]:
        """Names of aggregates, and the aggregates; empty if the operator computes none."""

    @property
    def result_names(self) -> Sequence[Sequence[str]]:
        """The names of the results of each aggregate."""

    @property
    def bounds_type(self) -> pa.DataType | None:
        """Arrow type of the bounds of windows, if they come out."""

    @property
    def may_change(self) -> bool | None:
        """Whether a row that was emitted can be followed by another one in its place; None if rows are not of windows."""

    @property
    def emission(self) -> str | None:
        """When windows come out, as text, if the rows say it."""

    def counting_since(self, since: Mapping[str, int]) -> "Output":
        """Return the rows as they are of a state whose parts of these names count all records since these times, in ticks."""

    def table(self, emitted: Sequence[Any], sequence: int = 0) -> pa.Table:
        """Return what steps emitted as rows, with this number on those that a later batch may replace."""


class LabelOutput(Protocol):
    """Rows that come out whether or not their time can be used."""

    def without_results(self, bad: pa.Table) -> pa.Table:
        """Return those of the rows whose time cannot be used that come out."""


class Runnable(ABC):
    """What a user defined, as far as it takes to run it."""

    __slots__ = ()

    @property
    def takes_updates(self) -> bool:
        """Whether updates of windows, each of which comes several times, can be its records."""
        return False

    @property
    def final(self) -> bool:
        """Whether each row comes once, when no record can change it any more."""
        return True

    @abstractmethod
    def bind(self, schema: pa.Schema, event_time: str, config: StateConfig) -> "Binding":
        """Return the operator bound to a frame's columns.

        Raises:
            DefinitionError: a column is missing or of a wrong type, or the operator computes nothing.
        """

    def as_on_close(self) -> "Runnable":
        """Return the operator as it emits windows when they close, over the same state; by default it does."""
        return self

    def bounded(self) -> "Runnable":
        """Return the operator as it runs over a bounded frame: itself, or one that does the same in less time."""
        return self

    @abstractmethod
    def prepared(self, df: Any, event_time: str) -> "tuple[Runnable, Any, str]":
        """Return the operator, the DataFrame that it runs on, and its event-time column, with expressions made columns."""


@dataclass(frozen=True, slots=True)
class OutputTime:
    """A time in an operator's rows that later operators of a stream may take as event time.

    Attributes:
        column: the column of the result.
        field: the field of that column, if it is a struct.
        behind: the most ticks that it lies before the close time of the batch before the one that emits it; None if there is
            no limit, so that no later operator can take it.
        updates: whether a row is emitted again with each update.
        closed: whether it is never later than the close time of the batch that emits it.
    """

    column: str
    field: str | None
    behind: int | None
    updates: bool = False
    closed: bool = False

    @property
    def is_end(self) -> bool:
        """Whether it is the end of a window."""
        return self.field == "end"


@dataclass(frozen=True)
class Binding:
    """An operator bound to the columns of a frame.

    Attributes:
        plan: what is computed.
        output: the rows that come out.
        inputs: the columns that are read.
        grace: grace in ticks.
        segment: length of a stored segment in ticks.
        late: how late and bad records are reported, if they are.
        counts: names of what a custom operator counts.
        times: results that later operators may take as event time.
        segment_given: whether the length of a segment was asked for. If not, a stored state goes on with the one that it has.
        labels: makes rows of those whose time cannot be used, if any of them come out.
        publishes: whether what comes out are the pages that batches change, instead of rows.
    """

    plan: Plan
    output: Output
    inputs: Inputs
    grace: int
    segment: int
    late: LateSide | None = None
    counts: tuple[str, ...] = ()
    times: tuple[OutputTime, ...] = ()
    segment_given: bool = False
    labels: LabelOutput | None = None
    publishes: bool = False

    def __post_init__(self) -> None:
        time = self.output.bounds_type
        if time is not None and most_ticks(time, self.tick_us, self.plan.max_bound_offset) <= 0:
            raise DefinitionError(
                f"windows of {self.plan.max_bound_offset} ticks of {self.tick_us} us are longer than {time} can "
                f"express: use shorter windows, or cast {self.inputs.event_time!r} to a coarser unit"
            )

    @property
    def tick_us(self) -> int:
        """Length of a tick in microseconds."""
        return self.inputs.tick_us

    def reporting(self, late: LateSide | None) -> "Binding":
        """Return the binding with late and bad records reported in this way, or only counted."""
        if late is not None and self.plan.reports_inputs_only:
            late = late.with_unknown()
        others = () if late is None else tuple(zip(late.record.names, late.record.types, strict=True))
        return replace(self, late=late, inputs=replace(self.inputs, others=others))

    def counting_since(self, since: Mapping[str, int]) -> "Binding":
        """Return the binding as it is over a state whose parts of these names count all records since these times, in ticks."""
        return replace(self, output=self.output.counting_since(since))

    @property
    def refuses(self) -> bool:
        """Whether aggregates may leave out records that their functions cannot take."""
        return any(operation.base_operation.skips for operation in self.plan.operations)

    @property
    def sifts(self) -> bool:
        """Whether bad rows are set aside, to be reported or to come out, and not only counted."""
        return self.late is not None or self.labels is not None

    @property
    def rows(self) -> pa.Schema:
        """The Arrow schema of the rows that come out, those of late records among them."""
        if self.publishes:
            return PAGE_ROWS
        return self.output.arrow if self.late is None else self.late.with_reports(self.output.arrow)

    def windows_named(self) -> AbstractContextManager[None]:
        """Have the errors of users' functions in a block end with the window that they are about."""
        return windows_named(self.output.keys, self.tick_us)

    def read(self, rows: Sequence[pa.Table], partials: Sequence[pa.Table] = ()) -> Records | Partials:
        """Return a batch for the operator's step.

        Args:
            rows: tables of records, in the input columns; at least one, unless there are partials.
            partials: tables of what a first stage made of records, for plans in two stages.
        """
        plan = self.plan.two_stages
        if plan is None:
            return self.inputs.records.read(pa.concat_tables(rows))
        parts = [from_table(table, plan.layout) for table in partials]
        if rows:
            parts.insert(0, plan.accumulate(self.inputs.records.read(pa.concat_tables(rows))))
        return join(plan, parts)

    def table(self, emitted: Sequence[Any], sequence: int = 0) -> pa.Table:
        """Return what steps emitted as rows; none if pages are published, which come out with the commit."""
        return PAGE_ROWS.empty_table() if self.publishes else self.output.table(emitted, sequence)

    def with_late_rows(self, rows: pa.Table, late: pa.ChunkedArray | None) -> pa.Table:
        """Return rows and the reports of late records as one table of the schema `rows`."""
        return rows if late is None or self.late is None else self.late.join(rows, late)

    def store(self, backend: Any) -> WindowStore:
        """Return the window store over a backend."""
        return WindowStore(backend, self.plan.layout, self.segment)

    def stored_schema(self) -> StoredSchema:
        """Return what stored entries are."""
        states = [
            StoredState(op.describe(), tuple(zip(op.parts, op.codes, strict=True)))
            for op in self.plan.operations
        ]
        number_of = {op: number for number, op in enumerate(self.plan.operations)}
        results = [
            (name, tuple(number_of[op] for op in bound.operations)) for name, bound in self.output.aggregates
        ]
        keys = pa.schema(list(self.output.keys))
        plan = self.plan
        return StoredSchema(
            keys,
            self.tick_us,
            self.segment,
            self.grace,
            plan.head,
            tuple(states),
            tuple(results),
            plan.waiting_rows,
        )

    @property
    def columns(self) -> list[str]:
        """The columns that are read, with their types, as text."""
        return [f"{name}: {type_}" for name, type_ in self.inputs.values]

    def shares_state_with(self, other: "Binding") -> bool:
        """Return whether another binding works on the same state in the same way. Equal plans describe themselves equally."""
        mine, others = (
            (one.plan, one.output.keys, one.inputs.values, one.inputs.clock, one.tick_us, one.segment)
            for one in (self, other)
        )
        return mine == others

    def identity(self) -> dict[str, Any]:
        """Return what stored state depends on: a state written under another identity is refused."""
        clock = {} if self.inputs.clock is None else {CLOCK: self.inputs.clock}
        return {
            **self.plan.describe(),
            **clock,
            "grouped by": [f"{name}: {type_}" for name, type_ in self.output.keys],
            "columns": self.columns,
            "tick in us": self.tick_us,
            "segment in ticks": self.segment,
        }


def segment_length(config: StateConfig, tick_us: int, default: int) -> int:
    """Return the length of a segment in ticks: what the configuration says, or `default`.

    Raises:
        DefinitionError: what it says is not a length of time, or not a whole number of ticks.
    """
    if config.segment is None:
        return default
    return ticks(config.segment, tick_us, "spark.windows.state.segment", 1)


def default_segment(least: int, size: int, grace: int, tick_us: int) -> int:
    """Return the default length of a segment in ticks: `least` or more, a minute or more, few segments alive at a time."""
    fewest = -(-_FEWEST_SEGMENT_US // tick_us)
    return max(least, fewest, (2 * size + grace) // _MOST_LIVE_SEGMENTS)
