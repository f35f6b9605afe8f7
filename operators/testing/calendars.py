"""Windows of calendars by brute force, with the clocks of Python's `zoneinfo`. No code of the operators is used."""

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from operators.testing.oracles import HoppingOracle

_EPOCH, _SECOND = datetime(1970, 1, 1), timedelta(seconds=1)
_UNITS = {"month": 1, "quarter": 3, "year": 12}
_SPANS = {"week": 7 * 86_400, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_PART = re.compile(r"(?<!\d)([+-]?\d+) (month|quarter|year|week|day|hour|minute|second)s?")


def first_instant(zone: ZoneInfo, local: datetime) -> int:
    """Return the earliest second since the epoch at which the clock of a zone shows this time or a later one.

    The clock changes within 15 minutes once at most, and by less than 36 hours.
    """
    middle = int((local - _EPOCH) / _SECOND)
    ahead = [(at, _ahead(zone, at)) for at in range(middle - 129_600, middle + 129_600, 900)]
    candidates = {middle - offset for _, offset in ahead}
    for (earlier, before), (later, after) in pairwise(ahead):
        if before != after:
            changed = [_ahead(zone, at) != before for at in range(earlier, later)]
            candidates.add(earlier + bisect_left([*changed, True], True))
    return min(at for at in candidates if at + _ahead(zone, at) >= middle)


def _ahead(zone: ZoneInfo, at: int) -> int:
    moment = (_EPOCH + timedelta(seconds=at)).replace(tzinfo=timezone.utc)
    return int((moment.astimezone(zone).utcoffset() or timedelta()) / _SECOND)


def _parts(text: object) -> tuple[int, int]:
    """Months and seconds of a length such as "1 month 6 hours"."""
    found = [(int(number), unit) for number, unit in _PART.findall(str(text))]
    months = sum(number * _UNITS.get(unit, 0) for number, unit in found)
    return months, sum(number * _SPANS.get(unit, 0) for number, unit in found)


@dataclass
class Periods:
    """Windows of a calendar, each [start, end) in ticks.

    Attributes:
        zone: name of the zone.
        size, advance, offset: as text, such as "3 months", "1 month", "-1 day"; an offset may be 0.
        per_second: number of ticks in a second.
    """

    zone: str
    size: object
    advance: object
    offset: object = 0
    per_second: int = 1_000
    _starts: dict[datetime, int] = field(default_factory=dict)

    def windows(self, time: int) -> list[tuple[int, int]]:
        """Return the windows that contain a time, in order.

        Windows without length are left out; so are those that have the start or the end of a longer one.
        """
        near = self._near(time)
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for start, end in near:
            starts[start] = max(end, starts.get(start, end))
            ends[end] = min(start, ends.get(end, start))
        return sorted(
            {(a, b) for a, b in near if a <= time < b and starts[a] == b and ends[b] == a},
        )

    def _near(self, time: int) -> list[tuple[int, int]]:
        size, advance = _parts(self.size), _parts(self.advance)
        local = _EPOCH + timedelta(seconds=time // self.per_second)
        months = (local.year - 1970) * 12 + local.month
        number = months // advance[0] if advance[0] else time // self.per_second // advance[1]
        more = (size[0] // advance[0] if advance[0] else size[1] // advance[1]) + 3
        return [(self._at(n, (0, 0)), self._at(n, size)) for n in range(number - more, number + 4)]

    def _at(self, number: int, later: tuple[int, int]) -> int:
        """The first tick of the window of a number, or of what is later on the local clock."""
        (months, seconds), (by_months, by_seconds) = _parts(self.advance), _parts(self.offset)
        month = number * months + by_months + later[0]
        monday = -3 * 86_400 if "week" in str(self.advance) else 0
        first = datetime(1970 + month // 12, month % 12 + 1, 1)
        local = first + timedelta(seconds=number * seconds + monday + by_seconds + later[1])
        if local not in self._starts:
            self._starts[local] = first_instant(ZoneInfo(self.zone), local)
        return self._starts[local] * self.per_second


class CalendarOracle(HoppingOracle):
    """Hopping and tumbling windows of a calendar by brute force."""

    def __init__(self, periods: Periods, emit: str) -> None:
        super().__init__(0, 1, 0, emit)
        self._periods = periods
        self._start_of: dict[int, int] = {}
        self._of_time: dict[int, list[tuple[int, int]]] = {}

    def _windows(self, time: int) -> list[tuple[int, int]]:
        if time not in self._of_time:
            self._of_time[time] = self._periods.windows(time)
            self._start_of.update({end - 1: start for start, end in self._of_time[time]})
        return self._of_time[time]

    def _start(self, end: int) -> int:
        return self._start_of[end]

    def _last_end(self, time: int) -> int:
        return self._windows(time)[-1][1] - 1

    def _ends(self, key: Any) -> set[int]:
        times = {record.time for record in self._records.get(key, [])}
        ends = {end - 1 for time in times for _, end in self._windows(time)}
        return {end for end in ends if self._content(key, end)}
