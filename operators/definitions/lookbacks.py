"""The lookbacks of rolling windows: their names, and when a lifetime ends."""

from collections.abc import Mapping
from typing import Any

from operators.columns.durations import Duration, ticks
from operators.errors import DefinitionError


def pause_ticks(forget_after: Duration | None, tick_us: int, *, lifetime: bool) -> int | None:
    """Return how long a key may be idle before its lifetime begins anew, in ticks; None if for ever.

    Args:
        forget_after: a length of time.
        tick_us: length of a tick in microseconds.
        lifetime: whether there is a lookback without end.

    Raises:
        DefinitionError: the length is invalid, or nothing needs it.
    """
    if forget_after is None:
        return None
    found = ticks(forget_after, tick_us, "forget_after", 1)
    if not lifetime:
        raise DefinitionError(
            "forget_after ends the lifetime of a key that is idle, and no lookback is 'lifetime': leave it out, the state of "
            "other lookbacks goes by itself"
        )
    return found


def lookbacks_by_name(lookbacks: Duration | Mapping[str, Duration]) -> dict[Any, Duration]:
    """Return lengths by name; that of a single one is empty.

    Raises:
        DefinitionError: the lengths have no names, or there are none.
    """
    if isinstance(lookbacks, list | tuple | set | frozenset):
        raise DefinitionError(
            f"lookbacks is {lookbacks!r}: give lengths by name, such as {{'1h': '1 hour', '1d': '1 day'}}; results are named "
            "after them"
        )
    named: dict[Any, Duration] = dict(lookbacks) if isinstance(lookbacks, Mapping) else {"": lookbacks}
    if not named:
        raise DefinitionError("lookbacks is empty: give at least one, such as {'1h': '1 hour'}")
    return named
