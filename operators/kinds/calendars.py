"""Days, weeks, months, quarters and years of a zone: which one an instant is in, and where each begins.

A period begins at the earliest instant whose local time is its first or later, and ends where the next one begins. So an
instant is in the last period that has begun, whatever the clocks do. Where a clock goes forward over a whole day, that day has
no length.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from operators.columns.calendar_text import Unit
from operators.columns.ranges import Ints
from operators.columns.records import FAR_FUTURE
from operators.columns.zones import CYCLE_DAYS, DAY_S, Zone

ZONE, CLOCK_CHANGES = "zone", "clock changes"
"""Names of a zone, and of what its clock does, in what a stored state depends on."""
_CYCLE_MONTHS = 4_800
_MOST_EDGES = 4_096
_STRETCH = 256
"""Of so many periods, and as many after them, the starts are made at once and kept."""
_MARGIN = 4
"""By more periods than a calendar's clock, or the length of a month, shifts an instant from where it is on average."""
_LATEST = FAR_FUTURE + FAR_FUTURE // 2
_FEW_EDGES = 16
"""Up to so many edges are compared one by one, in less time than a search takes."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Periods of whole days or months, one after another, numbered from the epoch.

    Attributes:
        zone: whose clock counts.
        unit: what a period is made of.
        count: number of units in a period.
        months: months from January 1970 to the beginning of period 0.
        shift: ticks of the local clock by which it begins later.
        per_second: number of ticks in a second.
    """

    zone: Zone
    unit: Unit
    count: int
    months: int
    shift: int
    per_second: int

    @property
    def _day(self) -> int:
        return DAY_S * self.per_second

    def start(self, number: Ints) -> Ints:
        """Return the first tick of each period. It never descends."""
        if not len(number):
            return number
        low, high = _bounds(number)
        first, starts = _starts(self, low // _STRETCH)
        return starts[number - first] if high < first + len(starts) else self.start_by_clock(number)

    def start_by_clock(self, number: Ints) -> Ints:
        """Do the same as `start`, from the changes of the clock alone."""
        if self.unit == "day":
            local = number * (self.count * self._day)
        else:
            local = _days(number * self.count + self.months) * self._day
        return self.zone.earliest(local + self.shift, self.per_second)

    def number(self, time: Ints) -> Ints:
        """Return the last period that has begun at each instant."""
        first, edges = self._edges(time)
        return self._number(time) if edges is None else first + np.searchsorted(edges, time, "right")

    def begin(self, time: Ints) -> Ints:
        """Return the first tick of the last period that has begun at each instant."""
        first, edges = self._edges(time)
        if edges is None:
            return self.start(self._number(time))
        start = self.start(np.array([first]))
        if len(edges) > _FEW_EDGES:
            return np.append(start, edges)[np.searchsorted(edges, time, "right")]
        found = np.repeat(start, len(time))
        for edge in edges.tolist():
            np.copyto(found, edge, where=time >= edge)
        return found

    def _edges(self, time: Ints) -> tuple[int, Ints | None]:
        """The period of the first instant, and the starts of later ones; None if they are more than is worth it."""
        if not len(time):
            return 0, np.zeros(0, np.int64)
        low, high = _bounds(time)
        first, starts = _starts(self, self._about(low) // _STRETCH)
        since, until = bisect_right(starts, low), bisect_right(starts, high)
        if since and until < len(starts):
            return first + since - 1, starts[since:until]
        first, last = self._number(np.array([low, high])).tolist()
        if last - first > min(len(time), _MOST_EDGES):
            return first, None
        return first, self.start(np.arange(first + 1, last + 1))

    def _about(self, time: int) -> int:
        """The period of an instant, or one of the `_MARGIN` periods before and after it."""
        if self.unit == "day":
            return (time - self.shift) // (self.count * self._day)
        months = (time - self.shift) * _CYCLE_MONTHS // (CYCLE_DAYS * self._day)
        return (months - self.months) // self.count

    def _number(self, time: Ints) -> Ints:
        local = self.zone.latest_local(time, self.per_second) - self.shift
        if self.unit == "day":
            return local // (self.count * self._day)
        return (_months(local // self._day) - self.months) // self.count

    def text(self, periods: int) -> str:
        """Return so many periods as text, such as "3 months"."""
        count = periods * self.count
        unit, count = (
            ("year", count // 12) if self.unit == "month" and count % 12 == 0 else (self.unit, count)
        )
        return f"{count} {unit}{'' if count == 1 else 's'}"

    @property
    def first(self) -> str:
        """The first tick of period 0 on the local clock, as text."""
        day = _days(np.array([self.months])) if self.unit == "month" else np.zeros(1, np.int64)
        micros = (day * self._day + self.shift) * (1_000_000 // self.per_second)
        text = str(micros.astype("datetime64[us]")[0])
        return text.removesuffix(".000000").removesuffix("T00:00:00").replace("T", " ")

    @property
    def identity(self) -> dict[str, Any]:
        """What stored state depends on, by the names that are stored with it."""
        return {"from": self.first, ZONE: self.zone.name, CLOCK_CHANGES: self.zone.text}

    @property
    def vanishes(self) -> bool:
        """Whether a period may have no length, or two of them share their first tick."""
        return self.unit == "day" and self.zone.longest_gap_s >= self.count * DAY_S

    def nominal(self, periods: int) -> int:
        """Return the most ticks that so many periods last on a clock that never changes."""
        return _days_of(self.unit, periods * self.count)[1] * self._day

    @property
    def shortest(self) -> int:
        """The fewest ticks that a period lasts on a clock that never changes."""
        return _days_of(self.unit, self.count)[0] * self._day

    def longest(self, periods: int) -> int:
        """Return a number of ticks that no so many periods last longer than."""
        return self.nominal(periods) + self.zone.spread_s * self.per_second


def _bounds(values: Ints) -> tuple[int, int]:
    """The lowest and the highest of some values."""
    return (int(values[0]),) * 2 if len(values) == 1 else (int(values.min()), int(values.max()))


@lru_cache(maxsize=64)
def _starts(calendar: Calendar, stretch: int) -> tuple[int, Ints]:
    """The first period of a stretch, less a margin, and the starts from there on; none where ticks near the ends of 64 bits.

    Each batch asks for the same few of them again and again.
    """
    first = stretch * _STRETCH - _MARGIN
    number = np.arange(2 * (_STRETCH + _MARGIN)) + first
    if (abs(first) + len(number)) * calendar.nominal(1) >= _LATEST:
        number = number[:0]
    starts = calendar.start_by_clock(number)
    starts.flags.writeable = False
    return first, starts


def _days(months: Ints) -> Ints:
    """The day since the epoch on which each month since the epoch begins."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _months(days: Ints) -> Ints:
    """The month since the epoch in which each day since the epoch lies."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


@lru_cache(maxsize=64)
def _days_of(unit: Unit, count: int) -> tuple[int, int]:
    """The fewest and the most days of so many units."""
    if unit == "day":
        return count, count
    begin = _days(np.arange(_CYCLE_MONTHS + count))
    days = begin[count:] - begin[:-count]
    return int(days.min()), int(days.max())
