"""Lengths of a calendar as text: days, weeks, months, quarters and years, and shifts of their starts."""

import re
from dataclasses import dataclass
from typing import Literal

from operators.columns.durations import Duration, ticks
from operators.errors import DefinitionError

Unit = Literal["day", "month"]
"""What the periods of a calendar are made of."""
_UNITS: dict[str, tuple[Unit, int]] = {
    "day": ("day", 1),
    "week": ("day", 7),
    "month": ("month", 1),
    "quarter": ("month", 3),
    "year": ("month", 12),
}
_ISO = {"D": "day", "W": "week", "M": "month", "Y": "year"}
_LENGTH = re.compile(r"\s*(?:interval\s+)?'?(\d+)'?\s*([a-z]+?)s?\s*|\s*P(\d+)([DWMY])\s*", re.IGNORECASE)
_MONTHS = re.compile(r"(?<!\d)([+-]?\d{1,9})\s{0,9}(month|quarter|year)s?\b", re.IGNORECASE)
_MONDAY = -3
"""The first day of a week, Monday 1969-12-29, in days since the epoch."""
USAGE = "with a zone, give a whole number of days, weeks, months, quarters or years, such as '1 month'"


@dataclass(frozen=True, slots=True)
class CalendarLength:
    """A length of days or months.

    Attributes:
        unit: "day" or "month".
        count: number of units.
        anchor: the day since the epoch on which one of such periods begins.
    """

    unit: Unit
    count: int
    anchor: int


def calendar_length(value: object, name: str) -> CalendarLength:
    """Return a length of a calendar.

    Args:
        value: text such as "1 day", "3 months" or "P1M".
        name: the argument's name, for errors.

    Raises:
        DefinitionError: it is not a whole number of days, weeks, months, quarters or years.
    """
    found = _LENGTH.fullmatch(value) if isinstance(value, str) else None
    number, unit = (
        (None, None) if found is None else (found[1] or found[3], found[2] or _ISO[found[4].upper()])
    )
    if number is None or unit is None or unit.lower() not in _UNITS:
        hint = "; leave zone out for hours and other fixed lengths" if value else ""
        raise DefinitionError(f"{name} is {value!r}: {USAGE}{hint}")
    if not int(number):
        raise DefinitionError(f"{name} is {value!r}: it must be positive")
    if int(number) > 9_999:
        raise DefinitionError(f"{name} is {value!r}: give at most 9999 of a unit")
    kind, units = _UNITS[unit.lower()]
    return CalendarLength(kind, int(number) * units, _MONDAY if unit.lower() == "week" else 0)


def refuse_calendar_lengths(**lengths: object) -> None:
    """Refuse lengths in months, quarters or years, which only a calendar has.

    Raises:
        DefinitionError: names the argument, and the way out.
    """
    for name, value in lengths.items():
        if isinstance(value, str) and (_MONTHS.search(value) or re.fullmatch(r"\s*P\d+[MY]\s*", value)):
            raise DefinitionError(
                f"{name} is {value!r}: months, quarters and years have no fixed length: give zone='Europe/Berlin', "
                "zone='UTC' or another one, in whose calendar they are, or use days"
            )


def calendar_offset(value: Duration, tick_us: int, name: str) -> tuple[int, int]:
    """Return by how many months, and by how many ticks of the local clock, periods begin later.

    Args:
        value: text such as "6 hours", "-1 day", "3 months" or "1 month 6 hours", a timedelta, or whole milliseconds.
        tick_us: length of a tick in microseconds.
        name: the argument's name, for errors.

    Raises:
        DefinitionError: it is not a length of time, or not a whole number of ticks.
    """
    if not isinstance(value, str):
        return 0, ticks(value, tick_us, name, None)
    months = sum(int(number) * _UNITS[unit.lower()][1] for number, unit in _MONTHS.findall(value))
    rest = _MONTHS.sub(" ", value).strip()
    return months, ticks(rest, tick_us, name, None) if rest or not months else 0
