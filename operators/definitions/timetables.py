"""Timetables of what users write: fixed lengths, or lengths of a zone's calendar."""

from math import gcd

from operators.columns.calendar_text import (
    CalendarLength,
    calendar_length,
    calendar_offset,
    refuse_calendar_lengths,
)
from operators.columns.durations import Duration, ticks
from operators.columns.zones import DAY_S, zone_of
from operators.errors import DefinitionError
from operators.kinds.calendars import Calendar
from operators.kinds.timetables import CalendarTimetable, FixedTimetable, Timetable


def timetable(
    size: Duration, advance: Duration, offset: Duration, tick_us: int, zone: str | None
) -> Timetable:
    """Return when windows start and end.

    Args:
        size, advance, offset, zone: as for `HoppingWindows`.
        tick_us: length of a tick in microseconds.

    Raises:
        DefinitionError: as `HoppingWindows`.
    """
    if zone is not None:
        return _of_calendar(size, advance, offset, tick_us, zone)
    refuse_calendar_lengths(size=size, advance=advance, offset=offset)
    size_ticks, step = ticks(size, tick_us, "size", 1), ticks(advance, tick_us, "advance", 1)
    if step > size_ticks:
        raise _gaps(size, advance)
    return FixedTimetable(size_ticks, step, ticks(offset, tick_us, "offset", None) % step)


def calendar(
    length: CalendarLength, offset: Duration, tick_us: int, zone: str, name: str = "offset"
) -> Calendar:
    """Return the periods of a length.

    Args:
        length: the length of a period.
        offset: how much later they begin on the local clock.
        tick_us: length of a tick in microseconds.
        zone: name of the zone.
        name: the name of the argument `offset`, for errors.

    Raises:
        DefinitionError: the zone is unknown, or the offset is not shorter than a period.
    """
    per_second = 1_000_000 // tick_us
    months, shift = calendar_offset(offset, tick_us, name)
    found = Calendar(zone_of(zone), length.unit, length.count, 0, 0, per_second)
    rest = length.count - abs(months) if length.unit == "month" else length.count * (months == 0)
    if rest <= 0 or abs(shift) >= Calendar(found.zone, length.unit, rest, 0, 0, per_second).shortest:
        raise DefinitionError(
            f"{name} is {offset!r}: it must be shorter than {found.text(1)}, after which the next window starts"
        )
    if length.unit == "day":
        day = DAY_S * per_second
        shift = (length.anchor * day + shift) % (length.count * day)
    return Calendar(found.zone, length.unit, length.count, months % length.count, shift, per_second)


def _of_calendar(
    size: Duration, advance: Duration, offset: Duration, tick_us: int, zone: str
) -> CalendarTimetable:
    whole, step = calendar_length(size, "size"), calendar_length(advance, "advance")
    if whole.unit != step.unit:
        raise DefinitionError(
            f"size is {size!r} and advance {advance!r}: months begin on any day of a week, and days are no part of them that "
            "is always the same. Give both in days and weeks, or both in months, quarters and years"
        )
    if step.count > whole.count:
        raise _gaps(size, advance)
    starts, pane = calendar(step, offset, tick_us, zone), gcd(whole.count, step.count)
    panes = Calendar(starts.zone, starts.unit, pane, starts.months, starts.shift, starts.per_second)
    return CalendarTimetable(panes, whole.count // pane, step.count // pane)


def _gaps(size: Duration, advance: Duration) -> DefinitionError:
    return DefinitionError(
        f"advance is {advance!r}, more than size {size!r}: records between two windows would be in neither"
    )
