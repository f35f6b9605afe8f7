"""An operator bound to a frame: everything that a worker needs, checked on the driver and sent as one value."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from operators.aggregates.operation import Operation
from operators.columns.durations import ticks
from operators.columns.records import Records, Sifted, most_ticks
from operators.errors import DefinitionError
from operators.runtime.inputs import Inputs
from operators.steps.emission import AggregateOutput, OutputSchema
from operators.steps.late_reports import FailedRecords, LateSide
from operators.steps.partials import Partials, TwoStagePlan, from_table, join
from operators.steps.refused import Refused
from operators.steps.step import Counters, FailedCall, Step
from operators.steps.timed_store import TimedStore
from serializers.pages import PageLayout
from state_backends import Entries, StateConfig, WindowStore
from state_backends.store.schema import StoredSchema, StoredState

_FEWEST_SEGMENT_US = 60_000_000
_MOST_LIVE_SEGMENTS = 16


class Engine(Protocol):
    """Processes batches of a plan over one store."""

    @property
    def state(self) -> TimedStore:
        """The store, its timers and its close time."""

    def step(self, batch: Any, step: Step) -> Sequence[Any]:
        """Process one batch, as `Program.read` returns it for the plan; return what to emit, as `Output.table` takes it."""

    def forget(self, keys: list[bytes]) -> None:
        """Delete all that is stored of keys; the next step retracts their open windows."""


class Output(Protocol):
    """The rows that come out of an operator."""

    @property
    def keys(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and Arrow types of the key columns."""

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the rows."""

    def table(self, emitted: Sequence[Any], sequence: int = 0) -> pa.Table:
        """Return what steps emitted as rows, with this number on those that a later batch may replace."""


class LabelOutput(Protocol):
    """Rows that come out whether or not their time can be used."""

    def without_results(self, bad: pa.Table) -> pa.Table:
        """Return those of the rows whose time cannot be used that come out."""


class Plan(Protocol):
    """What an operator computes: a window kind with its sizes in ticks and its panes, or a custom operator."""

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
    def calls_user_code(self) -> bool:
        """Whether the operator calls functions of the user."""

    @property
    def max_bound_offset(self) -> int:
        """How many ticks the bound of a window can be away from an event time in it."""

    def describe(self) -> dict[str, Any]:
        """Return what stored state depends on, as plain values to be compared."""

    def cut_entries(self, entries: Entries, segment_ticks: int, close_time: int) -> Entries:
        """Return entries of a savepoint that had reached a close time as a store with segments of this length has them."""

    def engine(self, store: WindowStore) -> Engine:
        """Return the engine over a store."""


@runtime_checkable
class ReportingPlan(Protocol):
    """A plan whose operator may report records that it cannot process."""

    @property
    def reports_inputs_only(self) -> bool:
        """Whether it knows only their keys, event times and declared inputs, so that other columns are reported as null."""


class Runnable(Protocol):
    """What a user defined, as far as it takes to run it."""

    @property
    def takes_updates(self) -> bool:
        """Whether updates of windows, each of which comes several times, can be its records."""

    @property
    def final(self) -> bool:
        """Whether each row comes once, when no record can change it any more."""

    def program(self, schema: pa.Schema, event_time: str, config: StateConfig) -> "Program":
        """Return the operator bound to a frame's columns."""

    def closing(self) -> "Runnable":
        """Return the operator as it emits windows when they close, over the same state."""

    def bounded(self) -> "Runnable":
        """Return the operator as it runs over a bounded frame: itself, or one that does the same in less time."""

    def prepared(self, df: Any, event_time: str) -> "tuple[Runnable, Any, str]":
        """Return the operator, the DataFrame that it runs on, and its event-time column, with expressions made columns."""


@dataclass(frozen=True, slots=True)
class OutputTime:
    """A time in an operator's rows that later operators of a stream may take as event time.

    Attributes:
        column: of the result.
        field: of that column, if it is a struct.
        behind: by how many ticks it may lie before the close time of the batch before the one that emits it; None if by any
            number, so that no later operator can take it.
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


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as an operator takes it.

    Attributes:
        records: the usable records, accumulated if the plan has two stages.
        sifted: all rows by whether they can be used, if bad ones are not only counted.
        refused: usable records that aggregates leave out.
    """

    records: Records | Partials
    sifted: Sifted | None = None
    refused: Refused = field(default_factory=Refused)


@dataclass(frozen=True, slots=True)
class Processed:
    """What came of a batch.

    Attributes:
        rows: to be emitted.
        late: reports of late and bad records; None if they are only counted.
        counters: what was counted.
    """

    rows: pa.Table
    late: pa.ChunkedArray | None
    counters: Counters


@dataclass(frozen=True)
class Program:
    """An operator bound to the columns of a frame.

    Attributes:
        plan: what is computed.
        output: the rows that come out.
        inputs: the columns that are read.
        grace: in ticks.
        segment: length of a stored segment in ticks.
        late: how late and bad records are reported, if they are.
        counts: names of what a custom operator counts.
        times: results that later operators may take as event time.
        segment_given: whether the length of a segment was asked for. If not, a stored state goes on with the one that it has.
        labels: makes rows of those whose time cannot be used, if any of them come out.
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

    def __post_init__(self) -> None:
        if not isinstance(self.output, OutputSchema):
            return
        if most_ticks(self.output.time, self.tick_us, self.plan.max_bound_offset) <= 0:
            raise DefinitionError(
                f"windows of {self.plan.max_bound_offset} ticks of {self.tick_us} us are longer than {self.output.time} can "
                f"express: use shorter windows, or cast {self.inputs.event_time!r} to a coarser unit"
            )

    @property
    def tick_us(self) -> int:
        """Length of a tick in microseconds."""
        return self.inputs.tick_us

    def reporting(self, late: LateSide | None) -> "Program":
        """Return the program with late and bad records reported in this way, or only counted."""
        if late is not None and isinstance(self.plan, ReportingPlan) and self.plan.reports_inputs_only:
            late = late.with_unknown()
        others = () if late is None else tuple(zip(late.record.names, late.record.types, strict=True))
        return replace(self, late=late, inputs=replace(self.inputs, others=others))

    @property
    def refuses(self) -> bool:
        """Whether aggregates may leave out records that their functions cannot take."""
        return any(operation.bare.skips for operation in self.plan.operations)

    @property
    def sifts(self) -> bool:
        """Whether bad rows are set aside, to be reported or to come out, and not only counted."""
        return self.late is not None or self.labels is not None

    @property
    def rows(self) -> pa.Schema:
        """The Arrow schema of the rows that come out, those of late records among them."""
        return self.output.arrow if self.late is None else self.late.with_reports(self.output.arrow)

    def read(self, rows: Sequence[pa.Table], partials: Sequence[pa.Table] = ()) -> Records | Partials:
        """Return a batch for the operator's step.

        Args:
            rows: tables of records, in the input columns; at least one, unless there are partials.
            partials: tables of what a first stage made of records, for plans in two stages.
        """
        if not isinstance(self.plan, TwoStagePlan):
            return self.inputs.records.read(pa.concat_tables(rows))
        parts = [from_table(table, self.plan.layout) for table in partials]
        if rows:
            parts.insert(0, self.plan.accumulate(self.inputs.records.read(pa.concat_tables(rows))))
        return join(self.plan, parts)

    def batch(self, rows: Sequence[pa.Table], partials: Sequence[pa.Table] = ()) -> Batch:
        """Return a batch with its bad rows set aside, and refused records named, if these are needed.

        Arguments are those of `read`.
        """
        plan, columns = self.plan, self.inputs.records
        if not (self.sifts or (self.refuses and rows)):
            return Batch(self.read(rows, partials))
        sifted = columns.sift_all(rows) if self.sifts else None
        records = columns.read(pa.concat_tables(rows)) if sifted is None else columns.records(sifted.usable)
        refused = Refused.by(plan.operations, records)
        return Batch(plan.accumulate(records) if isinstance(plan, TwoStagePlan) else records, sifted, refused)

    def step(self, closes: tuple[int, int], batch: Batch, failed_before: Sequence[FailedCall] = ()) -> Step:
        """Return a step that takes what is reported of a batch.

        Args:
            closes: close times in ticks at the start and at the end of the batch.
            batch: if its rows are not sifted, what is late or fails is only counted.
            failed_before: calls that raised before the batch, to be reported with it.
        """
        counters = Counters(failed=len(failed_before) + len(batch.refused))
        if batch.sifted is None:
            return Step(*closes, counters)
        return Step(*closes, counters, late=[], failed=[*failed_before])

    def failed(self, step: Step, batch: Batch) -> FailedRecords | None:
        """Return the records of a batch for which a function raised, to be reported; None if there are none."""
        if self.late is None or batch.sifted is None or not (step.failed or len(batch.refused)):
            return None
        calls = self.late.failed(step.failed or [], dict(self.inputs.keys), self.inputs.event_time)
        if not len(batch.refused):
            return calls
        return calls.and_refused(self.late.of_rows(batch.sifted.usable.table, batch.refused))

    def process(
        self,
        engine: Engine,
        batch: Batch,
        closes: tuple[int, int],
        sequence: int = 0,
        failed_before: Sequence[FailedCall] = (),
    ) -> Processed:
        """Have an engine of the plan process one batch, and return what came of it.

        Args:
            engine: over the store.
            batch: made by `batch`.
            closes: close times in ticks at the start and at the end of the batch.
            sequence: number of the batch, for rows that a later batch may replace.
            failed_before: as for `step`.
        """
        sifted = batch.sifted
        step = self.step(closes, batch, failed_before)
        rows = self.output.table(engine.step(batch.records, step), sequence)
        if sifted is None:
            return Processed(rows, None, step.counters)
        step.counters.rows += sifted.bad.num_rows
        step.counters.bad += sifted.bad.num_rows
        if self.labels is not None and sifted.bad.num_rows:
            rows = pa.concat_tables([rows, self.labels.without_results(sifted.bad)])
        late = (
            None
            if self.late is None
            else self.late.reports(sifted, step.late or [], self.failed(step, batch))
        )
        return Processed(rows, late, step.counters)

    def joined(self, rows: pa.Table, late: pa.ChunkedArray | None) -> pa.Table:
        """Return rows and the reports of late records as one table of the schema `rows`."""
        return rows if late is None or self.late is None else self.late.joined(rows, late)

    def store(self, backend: Any) -> WindowStore:
        """Return the window store over a backend."""
        return WindowStore(backend, self.plan.layout, self.segment)

    def stored(self) -> StoredSchema:
        """Return what stored entries are."""
        states = [
            StoredState(op.describe(), tuple(zip(op.parts, op.codes, strict=True)))
            for op in self.plan.operations
        ]
        number_of = {op: number for number, op in enumerate(self.plan.operations)}
        aggregates = self.output.aggregates if isinstance(self.output, AggregateOutput) else ()
        results = [(name, tuple(number_of[op] for op in bound.operations)) for name, bound in aggregates]
        keys = pa.schema(list(self.output.keys))
        return StoredSchema(
            keys, self.tick_us, self.segment, self.grace, self.plan.head, tuple(states), tuple(results)
        )

    def identity(self) -> dict[str, Any]:
        """Return what stored state depends on: a state written under another identity is refused."""
        return {
            **self.plan.describe(),
            "grouped by": [f"{name}: {type_}" for name, type_ in self.output.keys],
            "columns": [f"{name}: {type_}" for name, type_ in self.inputs.values],
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
