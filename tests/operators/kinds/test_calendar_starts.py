"""Starts of periods that are kept for the next batch: the same as those that are made anew."""

import random

import numpy as np
import pytest

from operators.columns.calendar_text import Unit
from operators.columns.records import FAR_FUTURE, FAR_PAST
from operators.columns.zones import zone_of
from operators.kinds import calendars
from operators.kinds.calendars import Calendar
from tests.effort import few
from tests.operators.kinds.test_calendars import DAY, ZONES, ms

PERIODS: tuple[tuple[Unit, int, int], ...] = (
    ("day", 1, 0),
    ("day", 3, 0),
    ("day", 7, 0),
    ("month", 1, 0),
    ("month", 5, 0),
    ("month", 12, 3),
    ("month", 12_000, 0),
)


def calendars_of(zone: str) -> list[Calendar]:
    """Calendars of each unit, shifted and not, in ms and us."""
    return [
        Calendar(zone_of(zone), *period, shift * per_second // 1_000, per_second)
        for period in PERIODS
        for shift, per_second in ((0, 1_000), (-DAY // 2, 1_000), (DAY // 4, 1_000_000))
    ]


@pytest.mark.parametrize("zone", few([*ZONES, "UTC"], 4))
def test_what_is_kept_is_what_is_made(zone: str) -> None:
    """Numbers, starts and begins of few times, many, one, none, and those at the ends of time; also where clocks change."""
    chance = random.Random(zone)
    for calendar in calendars_of(zone):
        scale = calendar.per_second // 1_000
        changes = chance.choices((zone_of(zone).table[0][1:] * 1_000).tolist() or [0], k=2)
        for middle in (*changes, ms("2026-07-01"), chance.randrange(ms("0001-01-01"), ms("9000-01-01"))):
            for span in (0, DAY, 300 * DAY, 40_000 * DAY):
                times = np.array([middle + chance.randint(-span, span) for _ in range(20)]) * scale
                numbers = calendar._number(times)
                assert numbers.tolist() == calendar.number(times).tolist()
                assert calendar.start_by_clock(numbers).tolist() == calendar.start(numbers).tolist()
                assert calendar.start_by_clock(numbers).tolist() == calendar.begin(times).tolist()
        for time in (FAR_PAST, FAR_FUTURE):
            numbers = calendar._number(np.array([time]))
            assert numbers.tolist() == calendar.number(np.array([time])).tolist()
            assert calendar.start_by_clock(numbers).tolist() == calendar.start(numbers).tolist()
        none = np.zeros(0, np.int64)
        assert [0, 0, 0] == [len(call(none)) for call in (calendar.number, calendar.start, calendar.begin)]


def test_times_that_are_near_each_other_make_nothing_anew() -> None:
    """Once the starts around a time are known, neither numbers nor starts near it are worked out from the clock."""
    calendar = Calendar(zone_of("Europe/Berlin"), "day", 1, 0, 0, 1_000)
    times = np.arange(ms("2026-03-20"), ms("2026-04-20"), DAY // 3)
    numbers, begins = calendar.number(times), calendar.begin(times)
    made = calendars._starts.cache_info().misses
    assert numbers.tolist() == calendar.number(times).tolist()
    assert begins.tolist() == calendar.start(numbers).tolist() == calendar.begin(times).tolist()
    assert made == calendars._starts.cache_info().misses
    kept = calendars._starts(calendar, int(numbers[0]) // calendars._STRETCH)[1]
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 0
