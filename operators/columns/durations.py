"""Lengths of time as text, timedelta or whole milliseconds, converted to whole numbers of ticks."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from operators.columns.duration_text import parse
from operators.errors import DefinitionError

Duration = str | timedelta | int
_TICKS_US = {"1 ms": 1_000, "1 us": 1}
_LONGEST = 2**59
_SECOND_MS = 1_000
_UNITS = {
    "us": 1,
    "ms": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}


def microseconds(value: Duration, name: str) -> int:
    """Return a duration in microseconds.

    Args:
        value: text such as "60 minutes", "PT1H" or "INTERVAL 1 HOUR" (see `parse`), a timedelta, or whole milliseconds.
        name: the argument's name, for errors.

    Raises:
        DefinitionError: the value is not a length of time.
    """
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1_000
    if isinstance(value, str):
        try:
            return parse(value)
        except ValueError as error:
            raise DefinitionError(f"{name} is {value!r}: {error}") from None
    raise DefinitionError(
        f"{name} is {value!r}: give text such as '60 minutes', a timedelta, or whole milliseconds"
    )


def ticks(value: Duration, tick_us: int, name: str, least: int | None) -> int:
    """Return a duration in ticks.

    Args:
        value: the duration.
        tick_us: length of a tick in microseconds.
        name: the argument's name, for errors.
        least: the smallest valid number of ticks; None if it may be negative.

    Raises:
        DefinitionError: the duration is too short, too long for 64-bit times, or not a whole number of ticks.
    """
    length = microseconds(value, name)
    if length % tick_us:
        raise DefinitionError(
            f"{name} is {value!r}, which is not a whole number of ticks of {tick_us} us; choose tick='1 us' for finer times"
        )
    if least is not None and length // tick_us < least:
        rule = "must be positive" if least > 0 else "must not be negative"
        raise DefinitionError(f"{name} is {value!r}: it {rule}")
    if abs(length // tick_us) >= _LONGEST:
        raise DefinitionError(f"{name} {value!r} is too long: times would overflow 64 bits")
    return length // tick_us


def is_odd(value: object) -> bool:
    """Return whether a length is a bare number below a second: of milliseconds, where others count seconds or minutes."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _SECOND_MS


def odd(value: object, name: str) -> str:
    """Return the message for such a length."""
    unit = "second" if value == 1 else "seconds"
    return (
        f"{name} is {value!r}, which is {value} ms, since a bare number is of milliseconds: give text such as "
        f"'{value} {unit}', or '{value} ms' if you mean that"
    )


def odd_lengths(definition: object, names: Iterable[str]) -> Iterator[str]:
    """Yield a message for each odd length among these attributes; several by name may be one of them."""
    for name in names:
        lengths = getattr(definition, name, None)
        named = lengths.items() if isinstance(lengths, Mapping) else [("", lengths)]
        for key, value in named:
            if is_odd(value):
                yield odd(value, f"lookback {key!r}" if key else name)


def tick_length(tick: str) -> int:
    """Return the length in microseconds of a tick that is given as text.

    Raises:
        DefinitionError: it is not a known tick.
    """
    if tick not in _TICKS_US:
        raise DefinitionError(f"tick is {tick!r}; known are {', '.join(map(repr, _TICKS_US))}")
    return _TICKS_US[tick]


def as_text(length: int) -> str:
    """Return a length in microseconds as text such as "90 seconds": in the largest unit that divides it."""
    whole = [(unit, scale) for unit, scale in _UNITS.items() if (length or 1_000_000) % scale == 0]
    unit, scale = whole[-1]
    count = length // scale
    return f"{count} {unit}{'s' if count != 1 and len(unit) > 2 else ''}"
