"""Window definitions: sliding, hopping and tumbling windows, checked when they are made."""

from dataclasses import dataclass, field

from operators.aggregates import Aggregate
from operators.durations import Duration, ticks
from operators.errors import DefinitionError
from operators.framed import FramedPlan
from operators.panes import PaneSchema
from operators.program import default_segment
from operators.sliding import SlidingPlan
from operators.windows import WindowedAggregation

_TICKS_US = {"1 ms": 1_000, "1 us": 1}
_LONGEST = 2**59


class _Grouping:
    """How a window definition becomes an operator."""

    __slots__ = ()

    def group_by(self, *columns: str) -> WindowedAggregation:
        """Return an operator with windows of its own for each distinct value of these columns.

        Null is a value like any other; all NaN are one value. Without columns all records are one group.
        """
        return WindowedAggregation(self).group_by(*columns)  # type: ignore[arg-type]

    def aggregate(self, **aggregates: Aggregate) -> WindowedAggregation:
        """Return an operator over all records as one group, with these results by name."""
        return WindowedAggregation(self).aggregate(**aggregates)  # type: ignore[arg-type]


def _tick_us(tick: str) -> int:
    if tick not in _TICKS_US:
        raise DefinitionError(f"tick is {tick!r}; known are {', '.join(map(repr, _TICKS_US))}")
    return _TICKS_US[tick]


def _length(value: Duration, tick_us: int, name: str, least: int) -> int:
    length = ticks(value, tick_us, name, least)
    if length >= _LONGEST:
        raise DefinitionError(f"{name} {value!r} is longer than time can be counted")
    return length


@dataclass(frozen=True, slots=True)
class SlidingWindows(_Grouping):
    """Record-driven sliding windows: one window for each distinct set of records that lie within `size` of each other.

    For each event time t of a key's records there is the left window [t - size, t], and the right window
    [t + tick, t + tick + size] if it holds any record. Both ends belong to a window. (Kafka Streams, KIP-450)

    Args:
        size: length: text such as "60 minutes", a timedelta, or whole milliseconds; positive.
        grace: how long after its end a window still takes records, likewise; 0 or more.
        tick: resolution of time, "1 ms" or "1 us"; event times are floored to it.

    Raises:
        DefinitionError: a length that is no length, too small, or no whole number of ticks.
    """

    size: Duration
    grace: Duration = 0
    tick: str = "1 ms"
    size_ticks: int = field(init=False, repr=False)
    grace_ticks: int = field(init=False, repr=False)
    tick_us: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tick_us = _tick_us(self.tick)
        object.__setattr__(self, "size_ticks", _length(self.size, tick_us, "size", 1))
        object.__setattr__(self, "grace_ticks", _length(self.grace, tick_us, "grace", 0))
        object.__setattr__(self, "tick_us", tick_us)

    def plan(self, schema: PaneSchema, policy: str) -> SlidingPlan:
        """Return what is computed for panes of this schema."""
        return SlidingPlan(self.size_ticks, policy == "on_update", schema)

    def segment(self) -> int:
        """Return the default length of a stored segment in ticks."""
        return default_segment(self.size_ticks, self.grace_ticks, self.tick_us)


@dataclass(frozen=True, slots=True)
class HoppingWindows(_Grouping):
    """Windows of one size that begin every `advance`: [start, start + size), each record in about size / advance of them.

    Records are accumulated once, in frames of the greatest common divisor of size and advance; windows combine frames. So a
    window that advances by a hundredth of its size costs about what its rows out cost, but where the divisor is tiny
    (size 1 hour, advance 7 minutes and 1 ms: 1 ms) a frame holds few records and nothing is saved.

    Args:
        size: length: text such as "60 minutes", a timedelta, or whole milliseconds; positive.
        advance: from one window's start to the next one's, likewise; positive and at most `size`.
        grace: how long after its end a window still takes records, likewise; 0 or more.
        offset: shifts all starts from multiples of `advance` since the epoch, as Spark's startTime; 0 or more.
        tick: resolution of time, "1 ms" or "1 us"; event times are floored to it.

    Raises:
        DefinitionError: a length that is no length, too small, too large, or no whole number of ticks.
    """

    size: Duration
    advance: Duration
    grace: Duration = 0
    offset: Duration = 0
    tick: str = "1 ms"
    size_ticks: int = field(init=False, repr=False)
    advance_ticks: int = field(init=False, repr=False)
    grace_ticks: int = field(init=False, repr=False)
    offset_ticks: int = field(init=False, repr=False)
    tick_us: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tick_us = _tick_us(self.tick)
        size, advance = _length(self.size, tick_us, "size", 1), _length(self.advance, tick_us, "advance", 1)
        if advance > size:
            raise DefinitionError(
                f"advance is {self.advance!r}, more than size {self.size!r}: records between windows would be in none"
            )
        object.__setattr__(self, "size_ticks", size)
        object.__setattr__(self, "advance_ticks", advance)
        object.__setattr__(self, "grace_ticks", _length(self.grace, tick_us, "grace", 0))
        object.__setattr__(self, "offset_ticks", _length(self.offset, tick_us, "offset", 0) % advance)
        object.__setattr__(self, "tick_us", tick_us)

    def plan(self, schema: PaneSchema, policy: str) -> FramedPlan:
        """Return what is computed for panes of this schema."""
        return FramedPlan(
            self.size_ticks, self.advance_ticks, self.offset_ticks, policy == "on_update", schema
        )

    def segment(self) -> int:
        """Return the default length of a stored segment in ticks."""
        return default_segment(self.size_ticks, self.grace_ticks, self.tick_us)


class TumblingWindows(HoppingWindows):
    """Windows of one size, one after another: [start, start + size), each record in one of them.

    Args:
        size: length: text such as "60 minutes", a timedelta, or whole milliseconds; positive.
        grace: how long after its end a window still takes records, likewise; 0 or more.
        offset: shifts all starts from multiples of `size` since the epoch, as Spark's startTime; 0 or more.
        tick: resolution of time, "1 ms" or "1 us"; event times are floored to it.

    Raises:
        DefinitionError: a length that is no length, too small, or no whole number of ticks.
    """

    __slots__ = ()

    def __init__(self, size: Duration, grace: Duration = 0, offset: Duration = 0, tick: str = "1 ms") -> None:
        super().__init__(size, size, grace, offset, tick)
