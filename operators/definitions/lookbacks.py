"""The lookbacks of rolling windows: their names, when a lifetime ends, and the columns that come out beside them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from operators.columns.checks import list_columns
from operators.columns.durations import Duration, as_text, ticks
from operators.errors import DefinitionError

LIFETIME = "lifetime"
"""The lookback without end."""


def lookback_ticks(lookbacks: Duration | Mapping[str, Duration], tick_us: int) -> dict[int | None, str]:
    """Return the names of lookbacks by their lengths in ticks; None is the length of a lifetime.

    Args:
        lookbacks: lengths by name, or one.
        tick_us: length of a tick in microseconds.

    Raises:
        DefinitionError: a name or a length is invalid, two lengths are equal, or there are none.
    """
    lengths: dict[int | None, str] = {}
    for name, length in lookbacks_by_name(lookbacks).items():
        if isinstance(lookbacks, Mapping) and not (isinstance(name, str) and name):
            raise DefinitionError(
                f"lookback name {name!r} must be text that is not empty: results are named after it"
            )
        what = f"lookback {name!r}" if name else "lookback"
        count = None if length == LIFETIME else ticks(length, tick_us, what, 1)
        if count in lengths:
            same = LIFETIME if count is None else as_text(count * tick_us)
            raise DefinitionError(
                f"lookbacks {lengths[count]!r} and {name!r} are equal, {same}: leave one out"
            )
        lengths[count] = name
    return lengths


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


def kept_names(keep: Any) -> tuple[str, ...]:
    """Return the columns to keep.

    Raises:
        DefinitionError: they are not a list of names.
    """
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise DefinitionError(f"keep is {keep!r}: give a list of column names, such as keep=['amount']")
    names = tuple(dict.fromkeys(keep))
    if not all(isinstance(name, str) for name in names):
        raise DefinitionError(f"keep is {list(names)!r}: give names of columns, such as keep=['amount']")
    return names


def kept_columns(
    columns: Sequence[tuple[str, str]], keep: Collection[str], always: Collection[str]
) -> tuple[tuple[str, str], ...]:
    """Return those of a frame's columns that come out.

    Args:
        columns: their names, and those that they have in the result.
        keep: the ones that the user named.
        always: the keys and the event time.

    Raises:
        DefinitionError: the frame lacks a column; names it.
    """
    there = [out for _, out in columns]
    for name in keep:
        if name not in there:
            raise DefinitionError(
                f"keep: column {name!r} does not exist; the frame has the columns {list_columns(name, there)}"
            )
    return tuple((name, out) for name, out in columns if out in keep or name in always)
