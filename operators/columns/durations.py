"""Lengths of time as text, timedelta or whole milliseconds, made whole numbers of ticks."""

import re
from datetime import timedelta

from operators.errors import DefinitionError

Duration = str | timedelta | int
_TICKS_US = {"1 ms": 1_000, "1 us": 1}
_LONGEST = 2**59
_MICROSECONDS = {
    "us": 1, "microsecond": 1,
    "ms": 1_000, "millisecond": 1_000,
    "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000,
    "min": 60_000_000, "minute": 60_000_000,
    "h": 3_600_000_000, "hour": 3_600_000_000,
    "d": 86_400_000_000, "day": 86_400_000_000,
    "week": 604_800_000_000,
}  # fmt: skip
_PLURALS = {f"{unit}s": scale for unit, scale in _MICROSECONDS.items() if len(unit) > 2}
_TOLD = {
    "us": 1,
    "ms": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}
_PART = re.compile(r"\s*(-?\d+)\s*([a-zA-Z]+)\s*")


def microseconds(value: Duration, name: str) -> int:
    """Return a duration in microseconds.

    Args:
        value: text such as "60 minutes" or "1 hour 30 min", a timedelta, or whole milliseconds.
        name: the argument's name, for errors.

    Raises:
        DefinitionError: the value is none of these.
    """
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1_000
    if isinstance(value, str):
        return _parse(value, name)
    raise DefinitionError(
        f"{name} is {value!r}: give text such as '60 minutes', a timedelta, or whole milliseconds"
    )


def _parse(text: str, name: str) -> int:
    total, position = 0, 0
    while part := _PART.match(text, position):
        unit = part[2].lower()
        scale = _MICROSECONDS.get(unit) or _PLURALS.get(unit)
        if scale is None:
            raise DefinitionError(
                f"{name} is {text!r}: unknown unit {part[2]!r}; known: {', '.join(_MICROSECONDS)}"
            )
        total += int(part[1]) * scale
        position = part.end()
    if position == 0 or position != len(text):
        raise DefinitionError(
            f"{name} is {text!r}: write a number and a unit, such as '60 minutes' or '1 hour 30 min', in whole numbers"
        )
    return total


def ticks(value: Duration, tick_us: int, name: str, least: int) -> int:
    """Return a duration in ticks.

    Args:
        value: the duration.
        tick_us: length of a tick in microseconds.
        name: the argument's name, for errors.
        least: the smallest number of ticks that is legal.

    Raises:
        DefinitionError: the duration is too small, longer than time can be counted, or no whole number of ticks.
    """
    length = microseconds(value, name)
    if length % tick_us:
        raise DefinitionError(
            f"{name} is {value!r}, which is no whole number of ticks of {tick_us} us; choose tick='1 us' for finer times"
        )
    if length // tick_us < least:
        wanted = "must be positive" if least > 0 else "must not be negative"
        raise DefinitionError(f"{name} is {value!r}: it {wanted}")
    if length // tick_us >= _LONGEST:
        raise DefinitionError(f"{name} {value!r} is longer than time can be counted")
    return length // tick_us


def tick_length(tick: str) -> int:
    """Return the length in microseconds of a tick that is given as text.

    Raises:
        DefinitionError: it is not among the known ones.
    """
    if tick not in _TICKS_US:
        raise DefinitionError(f"tick is {tick!r}; known are {', '.join(map(repr, _TICKS_US))}")
    return _TICKS_US[tick]


def window_length(value: Duration, tick_us: int, name: str, least: int) -> int:
    """Return a length of windows in ticks, as `ticks` does.

    Raises:
        DefinitionError: as `ticks`, or it is longer than time can be counted.
    """
    length = ticks(value, tick_us, name, least)
    if length >= _LONGEST:
        raise DefinitionError(f"{name} {value!r} is longer than time can be counted")
    return length


def as_text(length: int) -> str:
    """Return a length in microseconds as text that is a duration, such as "90 seconds": in the largest unit that divides it."""
    whole = [(unit, scale) for unit, scale in _TOLD.items() if (length or 1_000_000) % scale == 0]
    unit, scale = whole[-1]
    count = length // scale
    return f"{count} {unit}{'s' if count != 1 and len(unit) > 2 else ''}"
