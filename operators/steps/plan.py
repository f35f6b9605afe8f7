"""What an operator computes, as a value, and what processes batches by it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa

from operators.aggregates.definitions import Bound
from operators.aggregates.operation import Operation
from operators.aggregates.state_words import listed
from operators.aggregates.strategy import BY_COST, Strategy
from operators.columns.ranges import Ints, Mask
from operators.columns.records import FAR_PAST
from operators.columns.zones import Zone
from operators.kinds.described import WindowsPart
from operators.kinds.kind import WindowKind
from operators.steps.emission import AggregateOutput
from operators.steps.partials import TwoStagePlan
from operators.steps.step import Step
from operators.steps.timed_store import Emitted, TimedStore
from serializers.pages import Column, PageLayout
from state_backends import Entries, WindowStore
from state_backends.store.schema import head_codes

if TYPE_CHECKING:
    from operators.steps.panes import PaneSchema


class Engine(Protocol):
    """Processes batches of a plan over one store."""

    @property
    def plan(self) -> "Plan":
        """What is computed."""

    @property
    def state(self) -> TimedStore:
        """The store, its timers and its close time."""

    def step(self, batch: Any, step: Step) -> Sequence[Emitted]:
        """Process one batch, as `Binding.read` returns it for the plan, and return what to emit."""


class Summed(NamedTuple):
    """How the entries of pages are summed.

    Attributes:
        schema: the sums, which have no columns of objects.
        panes_of: returns the panes among stored entries.
        ends: returns where the windows that end at a time begin and end.
        contain_whole: given the first and last ticks of spans, and the first and last ends of windows, returns which spans each
            window contains whole, or not at all.
    """

    schema: "PaneSchema"
    panes_of: Callable[[Entries], Entries]
    ends: Callable[[int], list[int]]
    contain_whole: Callable[[Ints, Ints, Ints, Ints], Mask]


class Plan(ABC):
    """What an operator computes, and what is different about it. Two plans that are equal share state.

    Attributes:
        operations: the distinct operations whose states are stored.
    """

    __slots__ = ()
    operations: tuple[Operation, ...]
    reports_inputs_only: ClassVar[bool] = False
    """Whether only keys, event times and inputs are known of records that cannot be processed: the rest is reported as null."""
    late_alone: ClassVar[bool] = False
    """Whether a record is late or not whatever other records there are."""
    answers_moments: ClassVar[bool] = False
    """Whether there are windows that end at any moment, for `windows_at`."""

    @property
    def keeps_state(self) -> bool:
        """Whether state may stay whatever the close time: of a lifetime, or what a custom operator keeps."""
        return False

    @property
    def can_be_parted(self) -> bool:
        """Whether the parts of a batch, one after another in order of time, give the same rows as the whole."""
        return False

    @property
    def stores_rows(self) -> bool:
        """Whether rows wait in the store until they come out."""
        return self.waiting_rows is not None

    def apart(self, output: Any, records: Any, name: str) -> tuple[pa.Table, Any, Any] | None:
        """Return a batch with numbers in place of the columns that come out of it as they are; None if none do.

        Args:
            output: the output of the plan.
            records: the records of the batch.
            name: the name of the column of numbers.

        Returns:
            The columns, an output in which the numbers are the first column, and the records with numbers.
        """
        del output, records, name
        return None

    @property
    @abstractmethod
    def head(self) -> tuple[tuple[str, str], ...]:
        """Name and kind (`TIME`, `NUMBER`) of each stored column before the states."""

    @property
    @abstractmethod
    def max_bound_offset(self) -> int:
        """How many ticks the bound of a window can be away from an event time in it."""

    @property
    @abstractmethod
    def has_timers(self) -> bool:
        """Whether entries become due."""

    @property
    def layout(self) -> PageLayout:
        """The layout of stored entries: the head, then the states of all operations."""
        codes = (code for operation in self.operations for code in operation.codes)
        return PageLayout((*head_codes(self.head), *codes))

    @property
    def waiting_rows(self) -> pa.Schema | None:
        """The columns of the rows that wait in the store until they come out; None if none do."""
        return None

    @property
    def row_time(self) -> str | None:
        """The column of their event times; None if no rows wait."""
        return None

    @property
    def two_stages(self) -> TwoStagePlan | None:
        """The plan itself, if records can be accumulated to entries before a step."""
        return None

    @property
    def first_stage(self) -> TwoStagePlan | None:
        """The plan itself, if tasks may accumulate its records before the shuffle.

        A task that runs again has to send what it sent before: the same records in the same order make the same states.
        Records that operations may skip are counted and reported behind the shuffle.
        """
        return (
            None if any(operation.base_operation.skips for operation in self.operations) else self.two_stages
        )

    @property
    def grid(self) -> tuple[int, int] | None:
        """Length and offset of panes of equal length; None if there are none."""
        return None

    @property
    def longest_pane(self) -> int:
        """The most ticks that an entry's records are apart, if an entry is a pane; 1 if it is an event time."""
        return 1

    @property
    @abstractmethod
    def why_rows(self) -> str:
        """Why records are not accumulated before the shuffle, if they are not."""

    @abstractmethod
    def windows(self, tick_us: int, gap: str | None) -> WindowsPart:
        """Return the windows as text.

        Args:
            tick_us: length of a tick in microseconds.
            gap: the column of the gaps of sessions, if there is one.
        """

    @property
    def summed(self) -> "Summed | None":
        """How the entries of whole pages are summed, for `windows_at`; None if they are not: by default."""
        return None

    def spans_at(self, time: int, segment_ticks: int) -> list[tuple[int, int]]:
        """Return the first and the last segment of each span that windows which end at a time reach into."""
        raise NotImplementedError

    def windows_at(self, entries: Entries, sums: Entries | None, keys: int, time: int, empty: Entries) -> Any:
        """Return the windows of keys that end at one time, over what is stored of them, as an output takes them.

        Args:
            entries: the entries of the keys, in the stored columns, sorted.
            sums: sums of other entries, as `summed` says, sorted; None if there are none.
            keys: how many there are.
            time: when the windows end, in ticks: not before the close time that the entries are of.
            empty: what `empty` returns; it is made once for many calls.
        """
        raise NotImplementedError

    def empty(self) -> Entries:
        """Return an entry of no records."""
        raise NotImplementedError

    def without_rows(self) -> "Plan":
        """Return a plan of the same state for others who read it; rows that come out are of no use."""
        return self

    @abstractmethod
    def engine(self, store: WindowStore) -> Engine:
        """Return the engine over a store."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what stored state depends on, as plain values to be compared."""

    @abstractmethod
    def late_before(self, close_time: int) -> int:
        """Return the time before which a record is late: all windows that could contain it are closed."""

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end, as they are emitted, of the last window that could contain a record at each time.

        By default the plan knows of no windows, and returns the time.
        """
        return time, time

    @abstractmethod
    def next_due(self, entries: Entries, close_time: int) -> Ints:
        """Return the last tick of the next window to close that contains each stored entry, or NEVER."""

    def earliest_due(self, first: int, last: int, close_time: int) -> int:
        """Return a tick before which no entry with a time from `first` to `last` is due; by default nothing is known."""
        del first, last, close_time
        return FAR_PAST

    def cut_entries(self, entries: Entries, segment_ticks: int, close_time: int) -> Entries:
        """Return entries of a savepoint as a store with segments of this length has them: by default as they are.

        Args:
            entries: the entries of some keys, sorted.
            segment_ticks: length of a segment.
            close_time: that they had reached.
        """
        del segment_ticks, close_time
        return entries

    def missing_head(self, time: Column) -> dict[str, Column]:
        """Return the head columns that entries may lack which a former definition of the operator stored, by name.

        Args:
            time: shape (n,), int64: the times of the entries.
        """
        del time
        return {}

    def strategy_of(self, bound: Bound) -> tuple[Strategy, str | None]:
        """Return how the windows of an aggregate are computed, and what would make that cheaper, if anything."""
        most = max((operation.strategy for operation in bound.operations), key=BY_COST.index)
        return most, bound.operations[-1].cheaper

    @property
    def zone(self) -> Zone | None:
        """The zone whose calendar the windows are in; None if there is none."""
        return None

    def stored_span(self, close_time: int, latest: int) -> tuple[int, int]:
        """Return the first and the last tick that stored windows depend on, given the latest time of an entry."""
        raise NotImplementedError

    @property
    def ends_lifetimes(self) -> bool:
        """Whether the lifetime of a key ends with a pause."""
        return False

    def incomplete_before(self, close_time: int) -> int:
        """Return the time before which an entry may lack records that were late; FAR_PAST if none does, as by default."""
        del close_time
        return FAR_PAST

    def lasting_results(self, output: AggregateOutput) -> list[str]:
        """Return the names of the results that are computed from all records that there ever were: by default none."""
        del output
        return []


class WindowPlan(Plan):
    """What an operator computes for one kind of windows, with lengths in ticks.

    Attributes:
        on_update: whether changed windows are emitted after each batch, instead of closed ones once.
    """

    __slots__ = ()
    on_update: bool

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """The window kind and its lengths, under the names that are stored with the state."""

    @property
    def can_be_parted(self) -> bool:
        return not self.on_update

    @property
    def has_timers(self) -> bool:
        return not self.on_update

    @property
    def why_rows(self) -> str:
        if skips := listed(op.describe() for op in self.operations if op.base_operation.skips):
            return f"{skips} may skip records, which are counted behind the shuffle"
        if self.two_stages is not None:
            return "a pane is one event time, so that partial aggregation would save little"
        unmerged = listed(op.describe() for op in self.operations if not op.combines)
        return f"{unmerged} cannot be combined, so that there is no partial aggregation"

    def of_output(self, output: AggregateOutput, kept: Collection[Operation]) -> "WindowPlan":
        """Return the plan that computes the aggregates of an output.

        Args:
            output: the rows, with aggregates of other operations.
            kept: those of them whose states of all records are stored, whether an aggregate needs them or not.
        """
        del kept
        plan: Any = self
        return replace(plan, operations=output.operations)  # type: ignore[no-any-return]

    def describe(self) -> dict[str, Any]:
        return {
            **self.identity,
            "emission": "on_update" if self.on_update else "on_close",
            "state": [operation.describe() for operation in self.operations],
        }


class KindPlan(WindowPlan):
    """The plan of a kind that is a value.

    Attributes:
        kind: where its windows lie, with lengths in ticks.
    """

    __slots__ = ()
    kind: WindowKind

    @property
    def identity(self) -> dict[str, Any]:
        return self.kind.identity

    @property
    def max_bound_offset(self) -> int:
        return self.kind.max_bound_offset

    def late_before(self, close_time: int) -> int:
        return self.kind.late_before(close_time)

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        return self.kind.last_window(time)

    @property
    def zone(self) -> Zone | None:
        return self.kind.zone

    def stored_span(self, close_time: int, latest: int) -> tuple[int, int]:
        return self.kind.stored_span(close_time, latest)

    def incomplete_before(self, close_time: int) -> int:
        return self.kind.incomplete_before(close_time)

    def windows(self, tick_us: int, gap: str | None) -> WindowsPart:
        return self.kind.describe(tick_us)
