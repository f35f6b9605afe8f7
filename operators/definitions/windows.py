"""Window definitions: sliding, hopping, tumbling and session windows, checked when they are made."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from operators.aggregates import Aggregate
from operators.aggregates.operation import Operation, all_combine
from operators.aggregates.state_words import in_words
from operators.columns.durations import Duration, tick_length, ticks
from operators.columns.expressions import is_column
from operators.definitions.aggregation import WindowedAggregation
from operators.definitions.attributes import OF_OPERATORS, unknown_attribute
from operators.definitions.timetables import timetable
from operators.engines.fold_engine import FoldPlan
from operators.engines.pane_engine import PanePlan
from operators.engines.sessions import SessionPlan
from operators.errors import DefinitionError
from operators.kinds.fold_hopping import FoldedHopping
from operators.kinds.fold_sliding import FoldedSliding
from operators.kinds.hopping import Hopping
from operators.kinds.sliding import Sliding
from operators.kinds.timetables import Timetable
from operators.runtime.binding import default_segment

if TYPE_CHECKING:
    from pyspark.sql import Column

_HOUR_US = 3_600_000_000
_OF_OPERATORS = (*OF_OPERATORS, "cogroup")


class _Grouping:
    """How a window definition becomes an operator."""

    __slots__ = ()

    @property
    def gap_input(self) -> str | None:
        """The input column of session gaps, if there is one."""
        return None

    @property
    def row_gap(self) -> "Column | str | None":
        """Each record's session gap on Spark, an expression or the name of a column, if there is one."""
        return None

    def with_gap_column(self, name: str) -> "SessionWindows":
        """Return the definition with each record's gap in this column; only sessions have one."""
        raise NotImplementedError(f"{type(self).__name__} have no gap, so that {name!r} cannot be one")

    @property
    def local_clock(self) -> str | None:
        """The zone whose calendar the windows are in, if there is one."""
        return None

    @property
    def retracts(self) -> bool:
        """Whether windows that were emitted on update can cease to be."""
        return False

    def group_by(self, *columns: "str | Column") -> WindowedAggregation:
        """Return an operator with separate windows for each distinct value of these columns: names or, on Spark, expressions.

        Null is a value like any other; all NaN are one value. Without columns all records are one group.
        """
        return WindowedAggregation(self).group_by(*columns)  # type: ignore[arg-type]

    def aggregate(self, *unnamed: NoReturn, **aggregates: Aggregate) -> WindowedAggregation:
        """Return an operator over all records as one group, with these results by name."""
        return WindowedAggregation(self).aggregate(*unnamed, **aggregates)  # type: ignore[arg-type]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name, _OF_OPERATORS)


@dataclass(frozen=True, slots=True)
class SlidingWindows(_Grouping):
    """Record-driven sliding windows: one window for each distinct set of records that lie within `size` of each other.

    For each event time t of a key's records there is the left window [t - size, t], and the right window
    [t + tick, t + tick + size] if it holds any record. Both ends belong to a window. A record that arrives
    late creates no window that is closed by then. (Kafka Streams, KIP-450)

    Args:
        size: length: text such as "60 minutes" or "PT1H", a timedelta, or whole milliseconds; 0 or more. With 0, each distinct
            event time is a window.
        grace: how long after its end a window still takes records, likewise; 0 or more.
        tick: resolution of time, "1 ms" or "1 us"; event times are floored to it.

    Raises:
        DefinitionError: a length is invalid, too small, or not a whole number of ticks.
    """

    size: Duration
    grace: Duration = 0
    tick: str = "1 ms"
    size_ticks: int = field(init=False, repr=False)
    grace_ticks: int = field(init=False, repr=False)
    tick_us: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tick_us = tick_length(self.tick)
        object.__setattr__(self, "size_ticks", ticks(self.size, tick_us, "size", 0))
        object.__setattr__(self, "grace_ticks", ticks(self.grace, tick_us, "grace", 0))
        object.__setattr__(self, "tick_us", tick_us)

    def plan(self, operations: tuple[Operation, ...], policy: str) -> PanePlan | FoldPlan:
        """Return what is computed for these operations: over panes, or window by window if one is a fold without merge."""
        if not all_combine(operations):
            return FoldPlan(FoldedSliding(self.size_ticks), policy == "on_update", operations)
        return PanePlan(Sliding(self.size_ticks), policy == "on_update", operations)

    @property
    def bounds_behind(self) -> tuple[int, int]:
        """By how many ticks start and end may lie before the close time of the batch before the one that emits a window."""
        return self.size_ticks, 0

    def segment(self, operations: tuple[Operation, ...]) -> int:
        """Return the default length of a stored segment in ticks."""
        # Of panes, a step reads the pages where windows begin and end; of folds, it reads all.
        least = 0 if all_combine(operations) else self.size_ticks
        return default_segment(least, self.size_ticks, self.grace_ticks, self.tick_us)


@dataclass(frozen=True, slots=True)
class HoppingWindows(_Grouping):
    """Windows of one size that begin every `advance`: [start, start + size), each record in about size / advance of them.

    Each record is accumulated once, in a pane as long as the greatest common divisor of size and advance; windows combine
    panes. So the cost is about that of the rows that come out, even if windows advance by a hundredth of their size. Where the
    divisor is tiny (size 1 hour, advance 7 minutes and 1 ms: 1 ms), a pane holds few records and nothing is saved.

    Args:
        size: length: text such as "60 minutes" or "PT1H", a timedelta, or whole milliseconds; positive.
        advance: from one window's start to the next one's, likewise; positive and at most `size`.
        grace: how long after its end a window still takes records, likewise; 0 or more.
        offset: shifts all starts from multiples of `advance` since the epoch, as Spark's startTime; it may be negative. With
            a zone, by the local clock: "6 hours" for days from six to six, "-1 day" for weeks from Sunday, "3 months" for years
            from April; it is shorter than `advance`.
        tick: resolution of time, "1 ms" or "1 us"; event times are floored to it.
        zone: a zone of the tz database, such as "Europe/Berlin" or "UTC", in whose calendar the windows are. Size and advance
            are then whole numbers of days, weeks (from Monday), months, quarters or years: "1 day", "3 months". A boundary is
            the earliest instant whose local time is that of the boundary or later. So a day may have 23 or 25 hours, and one
            that the clock leaves out has no window.

    Raises:
        DefinitionError: a length is invalid, too small, too large, or not a whole number of ticks; months without a zone, or
            hours with one; the zone is unknown.
    """

    size: Duration
    advance: Duration
    grace: Duration = 0
    offset: Duration = 0
    tick: str = "1 ms"
    zone: str | None = None
    grace_ticks: int = field(init=False, repr=False)
    tick_us: int = field(init=False, repr=False)
    times: Timetable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tick_us = tick_length(self.tick)
        object.__setattr__(self, "grace_ticks", ticks(self.grace, tick_us, "grace", 0))
        object.__setattr__(self, "tick_us", tick_us)
        object.__setattr__(self, "times", timetable(self.size, self.advance, self.offset, tick_us, self.zone))

    def plan(self, operations: tuple[Operation, ...], policy: str) -> PanePlan | FoldPlan:
        """Return what is computed for these operations: over panes, or window by window if one is a fold without merge."""
        if not all_combine(operations):
            return FoldPlan(FoldedHopping(self.times), policy == "on_update", operations)
        return PanePlan(Hopping(self.times), policy == "on_update", operations)

    @property
    def bounds_behind(self) -> tuple[int, int]:
        """By how many ticks start and end may lie before the close time of the batch before the one that emits a window."""
        return self.times.size - 1, -1

    @property
    def local_clock(self) -> str | None:
        """The zone whose calendar the windows are in, if there is one."""
        return self.zone

    def segment(self, operations: tuple[Operation, ...]) -> int:
        """Return the default length of a stored segment in ticks."""
        return default_segment(self.times.size, self.times.size, self.grace_ticks, self.tick_us)


class TumblingWindows(HoppingWindows):
    """Windows of one size, one after another: [start, start + size), each record in one of them.

    Args:
        size: length: text such as "60 minutes" or "PT1H", a timedelta, or whole milliseconds; positive.
        grace: how long after its end a window still takes records, likewise; 0 or more.
        offset: shifts all starts from multiples of `size` since the epoch, as Spark's startTime; it may be negative. With a
            zone, by the local clock, as for `HoppingWindows`.
        tick: resolution of time, "1 ms" or "1 us"; event times are floored to it.
        zone: a zone of the tz database in whose calendar the windows are: local days, weeks, months, quarters or years, as for
            `HoppingWindows`.

    Raises:
        DefinitionError: as `HoppingWindows`.
    """

    __slots__ = ()

    def __init__(
        self,
        size: Duration,
        grace: Duration = 0,
        offset: Duration = 0,
        tick: str = "1 ms",
        zone: str | None = None,
    ) -> None:
        super().__init__(size, size, grace, offset, tick, zone)


@dataclass(frozen=True, slots=True)
class SessionWindows(_Grouping):
    """Windows of records of a key that follow one another with no gap: [first event, last event + gap].

    Two events exactly `gap` apart are one session. If every record has its own gap, a session waits until the latest
    event time + gap of its records. A session that has closed is final. A record that comes behind the close time is taken
    if it joins a session that is open, or that the rest of its batch makes open; else it is late. It may begin that session
    before the end of one that is final: the windows of final sessions of one key may overlap.

    With `max_length` the record that would make a session longer begins the next one, however close it follows; sessions
    are then what a walk through the records in order of time would cut, in whatever order they came. The windows of two
    sessions may then overlap by the gap, and a record is late once the session that it would make alone has closed.

    Args:
        gap: text such as "5 minutes" or "PT5M", a timedelta, or whole milliseconds, 0 or more; or, on Spark, a column or
            expression with each record's gap: an interval, its text, or whole milliseconds. With 0, only records of one event
            time are in one session.
        gap_column: in place of `gap`, the name of a column with each record's gap, on Spark as well as in the local runner.
            Records whose gap is null, not positive, or longer than 2**59 ticks are counted as bad; they move stream time all
            the same, as in Spark.
        grace: how long after its end a session still takes records, likewise; 0 or more.
        max_length: longest time from a session's first event to its last, likewise; 0 or more. The gap comes on top: a window
            is `max_length` + `gap` long at most.
        tick: resolution of time, "1 ms" or "1 us"; event times and gaps are floored to it.

    Raises:
        DefinitionError: a length is invalid, too small, or not a whole number of ticks; no gap, or two.
    """

    gap: "Duration | Column | None" = None
    gap_column: str | None = None
    grace: Duration = 0
    max_length: Duration | None = None
    tick: str = "1 ms"
    gap_ticks: int | None = field(init=False, repr=False)
    grace_ticks: int = field(init=False, repr=False)
    max_length_ticks: int | None = field(init=False, repr=False)
    tick_us: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tick_us = tick_length(self.tick)
        if (self.gap is None) == (self.gap_column is None):
            raise DefinitionError("SessionWindows need either gap or gap_column")
        if not isinstance(self.gap_column, str | None):
            raise DefinitionError(
                f"gap_column must be the name of a column, not {self.gap_column!r}; a Spark expression goes into gap"
            )
        gap = None if self.gap is None or self.gap_expression is not None else self.gap
        for name, value, least in (
            ("gap", gap, 0),
            ("grace", self.grace, 0),
            ("max_length", self.max_length, 0),
        ):
            length = None if value is None else ticks(value, tick_us, name, least)  # type: ignore[arg-type]
            object.__setattr__(self, f"{name}_ticks", length)
        object.__setattr__(self, "tick_us", tick_us)

    @property
    def gap_expression(self) -> "Column | None":
        """The Spark column or expression of each record's gap, if there is one."""
        return self.gap if is_column(self.gap) else None

    @property
    def row_gap(self) -> "Column | str | None":
        return self.gap_column if self.gap_expression is None else self.gap_expression

    def with_gap_column(self, name: str) -> "SessionWindows":
        return replace(self, gap=None, gap_column=name)

    @property
    def gap_input(self) -> str | None:
        if self.gap_expression is not None:
            raise DefinitionError(
                "gap is a Spark expression, which cannot be evaluated without Spark: name a gap_column instead"
            )
        return self.gap_column

    @property
    def retracts(self) -> bool:
        return True

    @property
    def _longest_ticks(self) -> int | None:
        """From a session's start to its end at most."""
        if self.max_length_ticks is None or self.gap_ticks is None:
            return None
        return self.max_length_ticks + self.gap_ticks

    def plan(self, operations: tuple[Operation, ...], policy: str) -> SessionPlan:
        """Return what is computed for these operations.

        Raises:
            DefinitionError: an aggregate that cannot be combined, as sessions have to be.
        """
        for operation in operations:
            if not operation.combines:
                raise DefinitionError(
                    f"{in_words(operation.describe())} cannot be combined, but sessions merge: give the fold a merge function"
                )
        return SessionPlan(self.gap_ticks, self.max_length_ticks, policy == "on_update", operations)

    @property
    def bounds_behind(self) -> tuple[int | None, int | None]:
        """By how many ticks start and end may lie before the close time of the batch before; None is any number."""
        if self.max_length_ticks is not None and self.gap_ticks is None:
            # A record behind the close time can move a cut, and what it cuts off may have ended long ago:
            #     a . . . . . . . c    |       a session, which waits for a's gap and is still open at the close time
            #   x a . . . . . . .      |       x begins it earlier, so that c is beyond the greatest length:
            #                     c -  |       a session, whose gap has passed
            return None, None
        return self._longest_ticks, 0

    def segment(self, operations: tuple[Operation, ...]) -> int:
        """Return the default length of a stored segment in ticks."""
        # If each record has its own gap, sessions can end at any later time, and a batch looks into every segment.
        gap = _HOUR_US // self.tick_us if self.gap_ticks is None else self.gap_ticks
        return default_segment(gap, gap, self.grace_ticks, self.tick_us)
