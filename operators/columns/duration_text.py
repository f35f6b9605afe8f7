"""Lengths of time as text: numbers with units, ISO 8601 durations, and the intervals of Spark SQL."""

import re

MICROSECONDS = {
    "us": 1, "microsecond": 1,
    "ms": 1_000, "millisecond": 1_000,
    "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000,
    "min": 60_000_000, "minute": 60_000_000,
    "h": 3_600_000_000, "hour": 3_600_000_000,
    "d": 86_400_000_000, "day": 86_400_000_000,
    "week": 604_800_000_000,
}  # fmt: skip
_PLURALS = {f"{unit}s": scale for unit, scale in MICROSECONDS.items() if len(unit) > 2}
_SHORT = ("d", "h", "min", "s", "ms", "us")
_SECOND = MICROSECONDS["second"]
_NOT_FIXED = frozenset({"month", "months", "year", "years"})
_NO_FIXED_LENGTH = "months and years have no fixed length; use days"
_USAGE = "write a number and a unit, such as '60 minutes' or '1 hour 30 min', in whole numbers"
_PART = re.compile(r"\s*(-?)('?)(-?\d+(?:\.\d+)?)\2\s*([a-zA-Z]+)\s*")
_ISO = re.compile(
    r"([+-]?)P(?:(?P<year>[+-]?\d+)Y)?(?:(?P<month>[+-]?\d+)M)?(?:(?P<week>[+-]?\d+)W)?(?:(?P<day>[+-]?\d+)D)?"
    r"(?:T(?=[+\-\d])(?:(?P<hour>[+-]?\d+)H)?(?:(?P<minute>[+-]?\d+)M)?(?:(?P<second>[+-]?\d+(?:[.,]\d+)?)S)?)?",
    re.IGNORECASE,
)
_BEGINS_AS_ISO = re.compile(r"[+-]?P[T+\-\d]", re.IGNORECASE)
_INTERVAL = re.compile(r"INTERVAL\b\s*", re.IGNORECASE)
_QUOTED = re.compile(r"([+-]?)\s*'([^']*)'(?:\s*(\w+)\s+TO\s+(\w+))?", re.IGNORECASE)
_FIELDS = {"day": r"(\d+)", "hour": r"(\d+)", "minute": r"(\d+)", "second": r"(\d+(?:\.\d+)?)"}
_LIMITS = {"hour": 24, "minute": 60, "second": 60}
"""Fields of an interval from one unit to another are below these, but for the first one."""


def parse(text: str) -> int:
    """Return a length of time in microseconds.

    Accepted are, in upper or lower case:

    - numbers with units, "1 hour 30 min": weeks, days, hours, minutes, seconds, ms, us
    - ISO 8601 durations, "PT1H", "P1DT2H30M", "P2W", "PT0.5S"
    - intervals of Spark SQL, "INTERVAL 1 HOUR 30 MINUTES", "INTERVAL '1' DAY", "INTERVAL '1 02:03:04' DAY TO SECOND"

    Only seconds may have a fraction, down to microseconds.

    Raises:
        ValueError: says what is wrong with the text. Months and years are refused, since their lengths differ.
    """
    text = text.strip()
    if _BEGINS_AS_ISO.match(text):
        return _iso(text)
    interval = _INTERVAL.match(text)
    return _numbers(text, quotes=False) if interval is None else _interval(text[interval.end() :])


def _numbers(text: str, *, quotes: bool) -> int:
    total, position = 0, 0
    while part := _PART.match(text, position):
        sign, quote, number, unit = part.groups()
        if (sign and number.startswith("-")) or (quote and not quotes):
            break
        total += _microseconds(sign + number, unit)
        position = part.end()
    if position == 0 or position != len(text):
        raise ValueError(_USAGE)
    return total


def _microseconds(number: str, unit: str) -> int:
    known = unit.lower()
    if known in _NOT_FIXED:
        raise ValueError(_NO_FIXED_LENGTH)
    scale = MICROSECONDS.get(known) or _PLURALS.get(known)
    if scale is None:
        raise ValueError(f"unknown unit {unit!r}; known: {', '.join(MICROSECONDS)}")
    if scale == _SECOND:
        return _seconds(number)
    if "." in number:
        raise ValueError(_USAGE)
    return int(number) * scale


def _seconds(number: str) -> int:
    """Microseconds of a decimal number of seconds, exactly."""
    whole, _, fraction = number.replace(",", ".").partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > 6:
        raise ValueError(f"{number} seconds are no whole number of microseconds")
    micros = int(fraction.ljust(6, "0"))
    return int(whole) * _SECOND + (-micros if whole.startswith("-") else micros)


def _iso(text: str) -> int:
    found = _ISO.fullmatch(text)
    parts = {} if found is None else {unit: n for unit, n in found.groupdict().items() if n is not None}
    if found is None or not parts:
        raise ValueError(
            "not an ISO 8601 duration: write days, hours, minutes and seconds in this order, such as 'P1DT2H30M', "
            "with a fraction only of seconds, such as 'PT0.5S'"
        )
    total = sum(_microseconds(number.replace(",", "."), unit) for unit, number in parts.items())
    return -total if found[1] == "-" else total


def _interval(text: str) -> int:
    quoted = _QUOTED.fullmatch(text.strip())
    if quoted is None:
        return _numbers(text, quotes=True)
    sign, inside, first, last = quoted.groups()
    total = _numbers(inside, quotes=False) if first is None else _range(inside, first.lower(), last.lower())
    return -total if sign == "-" else total


def _range(text: str, first: str, last: str) -> int:
    """The length of an interval from one unit to another, such as '1 02:03:04' from day to second."""
    if first in _NOT_FIXED:
        raise ValueError(_NO_FIXED_LENGTH)
    units = _between(first, last)
    separators = ["", *(" " if unit == "hour" else ":" for unit in units[1:])]
    fields = (separator + _FIELDS[unit] for separator, unit in zip(separators, units, strict=True))
    found = re.fullmatch(rf"\s*([+-]?){''.join(fields)}\s*", text)
    if found is None or any(
        float(number) >= _LIMITS[unit] for number, unit in zip(found.groups()[2:], units[1:], strict=True)
    ):
        example = "1" + "".join(separator + "02" for separator in separators[1:])
        raise ValueError(f"an interval from {first} to {last} is written as '{example}'")
    total = sum(map(_microseconds, found.groups()[1:], units))
    return -total if found[1] == "-" else total


def _between(first: str, last: str) -> list[str]:
    units = list(_FIELDS)
    if first not in units or last not in units or units.index(first) >= units.index(last):
        raise ValueError(
            f"there is no interval from {first} to {last}: it goes from day, hour or minute to a smaller unit"
        )
    return units[units.index(first) : units.index(last) + 1]


def length(microseconds: int) -> str:
    """Return an exact length of time, such as "1 h 30 min"; "0 s" for zero."""
    parts = []
    for unit in _SHORT:
        count, microseconds = divmod(microseconds, MICROSECONDS[unit])
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"
