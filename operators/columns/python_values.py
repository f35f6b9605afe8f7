"""Values as functions of users get them, and back to Arrow: one form for each type, which storing does not change.

The form follows from the type alone, so a function gets the same whether its record came in this batch or was stored in an
earlier one: times with a zone are in UTC, nanoseconds are cut off, structs are dicts, and so are maps, unless their keys are
nested: such maps are lists of [key, value].
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

_Change = Callable[[Any], Any]
_BEYOND = (OverflowError, ValueError)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a value with a time that Python cannot hold, such as one in the year 20,000.

    Attributes:
        value: as it came.
        reason: why it cannot be given to a function.
    """

    value: pa.Scalar
    reason: str


def python_values(array: pa.Array) -> list[Any]:
    """Return an Arrow column as Python values, in the form that functions of users get.

    O(n), a Python object each; a column with values that Python cannot hold is read twice.
    """
    type_ = _with_type(array.type, _readable)
    readable = array if type_ == array.type else array.cast(type_, safe=False)
    change = _from_arrow(type_)
    try:
        values = readable.to_pylist()
    except _BEYOND:
        return [_value(*pair, change) for pair in zip(readable, array, strict=True)]
    return values if change is None else [change(value) for value in values]


def arrow_values(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return Python values as an Arrow column: those of `python_values`, as they are or stored, and what functions return.

    Raises:
        pa.ArrowException, TypeError, ValueError, OverflowError: a value is not of the type.
    """
    if may_be_unreadable(type_) and any(isinstance(value, Unreadable) for value in values):
        found = [
            pa.array([value.value], value.value.type).cast(type_)
            if isinstance(value, Unreadable)
            else arrow_values([value], type_)
            for value in values
        ]
        return pa.concat_arrays(found)
    change = _to_arrow(type_)
    return pa.array(values if change is None else [change(value) for value in values], type_)


def may_be_unreadable(type_: pa.DataType) -> bool:
    """Whether a column of the type may have values that Python cannot hold."""
    if pat.is_nested(type_):
        return any(may_be_unreadable(field.type) for field in _fields(type_))
    return bool(pat.is_temporal(type_))


def unreadable(values: Iterable[Any], names: Iterable[str] = ()) -> str | None:
    """Return why one of these values cannot be given to a function; None if all can.

    Args:
        values: the values of a record, or of a column.
        names: the names of the columns, for each value of a record.
    """
    for name, value in zip_longest(names, values):
        if isinstance(value, Unreadable):
            return value.reason if name is None else f"column {name!r} {value.reason}"
    return None


def _value(readable: pa.Scalar, original: pa.Scalar, change: _Change | None) -> Any:
    try:
        value = readable.as_py()
    except _BEYOND as error:
        return Unreadable(original, f"has a time that Python cannot hold ({error})")
    return value if change is None else change(value)


def _fields(type_: pa.DataType) -> Iterable[pa.Field]:
    """The fields of a nested type."""
    if pat.is_map(type_):
        return [type_.key_field, type_.item_field]
    return list(type_) if pat.is_struct(type_) else [type_.value_field]


def _with_type(type_: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with each of the types in it changed that is not nested."""
    if not pat.is_nested(type_):
        return change(type_)
    fields = [field.with_type(_with_type(field.type, change)) for field in _fields(type_)]
    if pat.is_struct(type_):
        return pa.struct(fields)
    if pat.is_map(type_):
        return pa.map_(*fields)
    if pat.is_fixed_size_list(type_):
        return pa.list_(fields[0], type_.list_size)
    return (pa.large_list if pat.is_large_list(type_) else pa.list_)(fields[0])


def _readable(type_: pa.DataType) -> pa.DataType:
    """The type without zones but UTC, and without nanoseconds, of which Python knows none."""
    if pat.is_timestamp(type_):
        return pa.timestamp("us" if type_.unit == "ns" else type_.unit, type_.tz and "UTC")
    if pat.is_duration(type_) and type_.unit == "ns":
        return pa.duration("us")
    return pa.time64("us") if pat.is_time64(type_) else type_


def _in_parts(type_: pa.DataType, of: Callable[[pa.DataType], _Change | None], of_map: Any) -> _Change | None:
    """What changes values of a nested type, from what changes those of the types in it; None if nothing has to change."""
    if pat.is_map(type_):
        return _unless_null(of_map(type_, *(of(field.type) or _same for field in _fields(type_))))
    if not pat.is_nested(type_):
        return None
    changes = {field.name: of(field.type) for field in _fields(type_)}
    if not any(changes.values()):
        return None
    if pat.is_struct(type_):
        known = {name: change for name, change in changes.items() if change is not None}
        return _unless_null(
            lambda value: (
                {**value, **{name: change(value.get(name)) for name, change in known.items()}}
                if isinstance(value, Mapping)
                else value
            )
        )
    (item,) = changes.values()
    return _unless_null(lambda value: [(item or _same)(each) for each in value])


def _from_arrow(type_: pa.DataType) -> _Change | None:
    """What brings a value that Arrow has made into its form; None if it has it already."""
    if pat.is_timestamp(type_) and type_.tz:
        return _unless_null(_in_utc)

    def of_map(type_: pa.DataType, key: _Change, item: _Change) -> _Change:
        if pat.is_nested(type_.key_type):
            return lambda pairs: [[key(k), item(v)] for k, v in pairs]
        return lambda pairs: {key(k): item(v) for k, v in pairs}

    return _in_parts(type_, _from_arrow, of_map)


def _to_arrow(type_: pa.DataType) -> _Change | None:
    """What makes a value in its form, or as it was stored, one that Arrow takes; None if Arrow takes it as it is."""

    def of_map(_: pa.DataType, key: _Change, item: _Change) -> _Change:
        return lambda value: [
            (key(k), item(v)) for k, v in (value.items() if isinstance(value, Mapping) else value)
        ]

    return _in_parts(type_, _to_arrow, of_map)


def _unless_null(change: _Change) -> _Change:
    return lambda value: None if value is None else change(value)


def _same(value: Any) -> Any:
    return value


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=timezone.utc)
