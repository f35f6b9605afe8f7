"""The lookbacks of rolling windows: their names, when a lifetime ends, and the columns that come out beside them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, get_args

import pyarrow as pa

from operators.columns.calendar_text import calendar_length
from operators.columns.checks import list_columns, list_names
from operators.columns.durations import Duration, as_text, ticks
from operators.definitions.timetables import calendar
from operators.errors import DefinitionError
from operators.kinds.rolling import Closed, Lookback
from serializers import SerializationError
from serializers.rows import RowCodec

_TO_DATE = re.compile(r"(day|week|month|quarter|year) to date", re.IGNORECASE)
LIFETIME = "lifetime"
"""The lookback without end."""


def lookback_ticks(
    lookbacks: Duration | Mapping[str, Duration],
    tick_us: int,
    zone: str | None = None,
    offset: Duration | Mapping[str, Duration] = 0,
) -> dict[Lookback, str]:
    """Return the names of lookbacks by their lengths in ticks; None is the length of a lifetime, a calendar one to date.

    Args:
        lookbacks: lengths by name, or one.
        tick_us: length of a tick in microseconds.
        zone: the zone whose calendar the lookbacks to date follow.
        offset: how much later their periods begin: one length for all, or lengths by name.

    Raises:
        DefinitionError: a name or a length is invalid, two lengths are equal, or there are none; a zone or an offset is
            missing, or of no use.
    """
    lengths: dict[Lookback, str] = {}
    offsets = offset_by_name(lookbacks, zone, offset)
    for name, length in lookbacks_by_name(lookbacks).items():
        if isinstance(lookbacks, Mapping) and not (isinstance(name, str) and name):
            raise DefinitionError(
                f"lookback name {name!r} must be text that is not empty: results are named after it"
            )
        what = f"lookback {name!r}" if name else "lookback"
        count: Lookback
        if name in offsets:
            unit = calendar_length(f"1 {unit_to_date(length)}", what)
            count = calendar(unit, offsets[name], tick_us, str(zone), f"offset of {what}")
        else:
            count = None if length == LIFETIME else ticks(length, tick_us, what, 1)
        if count in lengths:
            same = as_text(count * tick_us) if isinstance(count, int) else str(length)
            raise DefinitionError(
                f"lookbacks {lengths[count]!r} and {name!r} are equal, {same}: leave one out"
            )
        lengths[count] = name
    return lengths


def unit_to_date(length: object) -> str | None:
    """Return the unit of a lookback such as "month to date"; None if it is another one."""
    found = _TO_DATE.fullmatch(length.strip()) if isinstance(length, str) else None
    return None if found is None else found[1].lower()


def offset_by_name(
    lookbacks: Duration | Mapping[str, Duration], zone: str | None, offset: Duration | Mapping[str, Duration]
) -> dict[Any, Duration]:
    """Return the offsets of the lookbacks to date, by name; arguments are those of `lookback_ticks`.

    Raises:
        DefinitionError: a zone or an offset is missing, or of no use.
    """
    by_name = lookbacks_by_name(lookbacks)
    to_date = [name for name, length in by_name.items() if unit_to_date(length)]
    if to_date and zone is None:
        raise DefinitionError(
            f"lookback {to_date[0]!r} is {by_name[to_date[0]]!r}: give zone='Europe/Berlin', zone='UTC' or another one, in "
            "whose calendar it is"
        )
    if not to_date and (zone is not None or offset):
        what = f"zone is {zone!r}" if zone is not None else f"offset is {offset!r}"
        raise DefinitionError(f"{what}, and no lookback is to date, such as 'month to date': leave it out")
    for name in offset if isinstance(offset, Mapping) else ():
        if name not in to_date:
            raise DefinitionError(
                f"offset of lookback {name!r}: the lookbacks to date are {list_names(str(name), map(str, to_date))}"
            )
    return {name: offset.get(name, 0) if isinstance(offset, Mapping) else offset for name in to_date}


def check_closed(closed: object) -> None:
    """Refuse what does not say which ends belong to a window.

    Raises:
        DefinitionError: names what is known.
    """
    if closed not in get_args(Closed):
        known = ", ".join(map(repr, get_args(Closed)))
        raise DefinitionError(f"closed is {closed!r}; known are {known}")


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


def check_emitted(rows: Iterable[tuple[str, str, pa.DataType]], results: Iterable[str]) -> None:
    """Refuse columns that cannot come out beside results.

    Args:
        rows: the columns: name, name in the result, and type.
        results: the names of the results.

    Raises:
        DefinitionError: a column cannot be stored, or has the name of a result.
    """
    names = {name.lower(): name for name in results}
    for _, out, type_ in rows:
        try:
            RowCodec(pa.schema([(out, type_)]))
        except SerializationError as error:
            raise DefinitionError(
                f"all columns come out beside the aggregates, but {error}: cast column {out!r}, or drop it first"
            ) from error
        if (result := names.get(out.lower())) is not None:
            alike = "" if result == out else f" {out!r}, but for case, which most tables do not tell apart"
            raise DefinitionError(
                f"result {result!r} has the name of a column of the frame{alike}: give the aggregate, or the lookback, "
                "another name"
            )
