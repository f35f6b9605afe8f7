"""When windows that follow one another start and end: after so many ticks, or by the calendar of a zone.

Windows are numbered. Starts and ends both ascend with the number, and each time is in the windows from `first_after` to
`last_at`, which is at least one.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

from operators.columns.duration_text import length
from operators.columns.ranges import Ints, Mask
from operators.columns.zones import Zone
from operators.kinds.calendars import Calendar


class Timetable(ABC):
    """Starts and ends of windows.

    Attributes:
        size: the most ticks that a window lasts.
        adjective: what precedes the name of the kind where it is stored.
    """

    __slots__ = ()
    size: int
    adjective: ClassVar[str] = ""

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What stored state depends on, by the names that are stored with it."""

    @property
    @abstractmethod
    def grid(self) -> tuple[int, int] | None:
        """Length and offset of panes of equal length; None if their lengths differ."""

    @property
    @abstractmethod
    def pane(self) -> int:
        """The most ticks that a pane lasts: no window holds only a part of one."""

    @property
    def zone(self) -> Zone | None:
        """The zone whose calendar it follows, if there is one."""
        return None

    @abstractmethod
    def pane_of(self, time: Ints) -> Ints:
        """Return the first tick of the pane that each time is in."""

    @abstractmethod
    def start(self, number: Ints) -> Ints:
        """Return the first tick of each window."""

    @abstractmethod
    def end(self, number: Ints) -> Ints:
        """Return the tick after the last one of each window."""

    @abstractmethod
    def first_after(self, time: Ints) -> Ints:
        """Return the first window that ends after each time."""

    @abstractmethod
    def last_at(self, time: Ints) -> Ints:
        """Return the last window that starts at each time, or before it."""

    def left_out(self, number: Ints) -> Mask | None:
        """Return which numbers between those of windows stand for none; None if all are windows."""
        del number
        return None

    @abstractmethod
    def texts(self, tick_us: int) -> tuple[str, str, str, str]:
        """Return size, step and pane as text, and since when windows start."""

    @property
    @abstractmethod
    def spacing(self) -> int:
        """The ticks between two panes, about."""


@dataclass(frozen=True, slots=True)
class FixedTimetable(Timetable):
    """Windows [start, start + size) that begin every `advance` ticks.

    Attributes:
        size: window size in ticks.
        advance: ticks from one window's start to the next one's, at most `size`.
        offset: ticks from the epoch to the start of some window, from 0 to below `advance`.
    """

    size: int
    advance: int
    offset: int

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "size in ticks": self.size,
            "step in ticks": self.advance,
            "offset in ticks": self.offset,
        }

    @property
    def grid(self) -> tuple[int, int]:
        return self.pane, self.offset

    @property
    def pane(self) -> int:
        return gcd(self.size, self.advance)

    @property
    def spacing(self) -> int:
        return self.pane

    def pane_of(self, time: Ints) -> Ints:
        return time - (time - self.offset) % self.pane

    def start(self, number: Ints) -> Ints:
        return number * self.advance + self.offset

    def end(self, number: Ints) -> Ints:
        return self.start(number) + self.size

    def first_after(self, time: Ints) -> Ints:
        return self.last_at(time - self.size) + 1

    def last_at(self, time: Ints) -> Ints:
        return (time - self.offset) // self.advance

    def texts(self, tick_us: int) -> tuple[str, str, str, str]:
        shifted = f", shifted by {length(self.offset * tick_us)}" if self.offset else ""
        size, step, pane = (length(ticks * tick_us) for ticks in (self.size, self.advance, self.pane))
        return size, step, pane, f"since the epoch{shifted}"


@dataclass(frozen=True, slots=True)
class CalendarTimetable(Timetable):
    """Windows of whole periods of a calendar.

    Of windows that would share a start or an end, since a clock goes forward over a whole day, only the longest one is there.

    Attributes:
        panes: the periods.
        periods: number of periods in a window.
        advance: number of periods from one window's start to the next one's, at most `periods`.
    """

    panes: Calendar
    periods: int
    advance: int
    adjective: ClassVar[str] = "calendar "

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.panes.longest(self.periods)

    @property
    def identity(self) -> dict[str, Any]:
        size, step = self.panes.text(self.periods), self.panes.text(self.advance)
        return {"size": size, "step": step, **self.panes.identity}

    @property
    def grid(self) -> None:
        return None

    @property
    def pane(self) -> int:
        return self.panes.longest(1)

    @property
    def spacing(self) -> int:
        return self.panes.nominal(1)

    @property
    def zone(self) -> Zone:
        return self.panes.zone

    def pane_of(self, time: Ints) -> Ints:
        return self.panes.begin(time)

    def start(self, number: Ints) -> Ints:
        return self.panes.start(number * self.advance)

    def end(self, number: Ints) -> Ints:
        return self.panes.start(number * self.advance + self.periods)

    def first_after(self, time: Ints) -> Ints:
        found = (self.panes.number(time) - self.periods) // self.advance + 1
        while self.panes.vanishes and (same := self.start(found) == self.start(found + 1)).any():
            found = found + same
        return found

    def last_at(self, time: Ints) -> Ints:
        found = self.panes.number(time) // self.advance
        while self.panes.vanishes and (same := self.end(found) == self.end(found - 1)).any():
            found = found - same
        return found

    def left_out(self, number: Ints) -> Mask | None:
        if not self.panes.vanishes:
            return None
        start, end = self.start(number), self.end(number)
        return (start == end) | (start == self.start(number + 1)) | (end == self.end(number - 1))

    def texts(self, tick_us: int) -> tuple[str, str, str, str]:
        size, step, pane = (self.panes.text(count) for count in (self.periods, self.advance, 1))
        return size, step, pane, f"since {self.panes.first} in {self.panes.zone.name}"
