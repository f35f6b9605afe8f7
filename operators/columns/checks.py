"""Checks of what users name: columns of a frame, and the types that they have."""

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.types as pat

from operators.columns.arrow import plain_type
from operators.errors import DefinitionError
from serializers.shapes import short
from state_backends.registry import nearest

_LONGEST_NAME = 100
Types = Mapping[str, pa.DataType]
_WHOLE_NUMBERS = ("bigint", "int", "int32", "uint32", "uint64")
"""Names of types, of Spark and of Arrow, that are often milliseconds since the epoch."""
_TIME_OF_DAY = re.compile(r"time(?:32|64)?[(\[]")
"""How the names of types of times of day begin, of Spark and of Arrow."""
NO_TIMES_OF_DAY = "times of day are not supported: cast it before apply, for example to a string"
"""What is said of a column of times of day where there is no operation on them."""
_EXPRESSION = re.compile(r"[()+*/%<>=!]| - | (?:and|or|is|in|like) ", re.IGNORECASE)


def list_names(missing: str, available: Iterable[str]) -> str:
    """Return the available names, and the one that was probably meant, for the message about a missing one."""
    names = list(available)
    close = nearest(missing, names)
    return ", ".join(names) + ("" if close is None else f": did you mean {close!r}?")


def list_columns(missing: str, available: Iterable[str]) -> str:
    """Return the available columns, and what the missing one probably is: a field, an expression, or another name."""
    names = list(available)
    struct = missing.partition(".")[0]
    if struct in names:
        hint = f". It is a field of a struct: on Spark, give F.col({missing!r})"
    elif _EXPRESSION.search(missing):
        hint = f". It is an expression: on Spark, give F.expr({missing!r})"
    else:
        return list_names(missing, names)
    return ", ".join(names) + hint


def check_column_name(what: str, column: object) -> None:
    """Refuse what is neither the name of a column nor an `Expression`, which is text as well.

    Args:
        what: begins the message.
        column: what should be a name.

    Raises:
        DefinitionError: says what was given.
    """
    if isinstance(column, list | tuple):
        raise DefinitionError(
            f"{what} takes column names, not {column!r}: pass them one by one, as in ('a', 'b')"
        )
    if not isinstance(column, str):
        raise DefinitionError(
            f"{what} takes column names, not {column!r}; on Spark, it takes expressions such as F.col('v') * 2 as well"
        )


def column_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return a frame's columns with the types that they are read as."""
    return {name: plain_type(type_) for name, type_ in zip(schema.names, schema.types, strict=True)}


def check_columns(
    types: Types, event_time: str, keys: tuple[str, ...], others: Mapping[str, str | None]
) -> None:
    """Refuse a frame that lacks a column, or whose event time or keys are of a wrong type.

    Args:
        types: the frame's columns.
        event_time: name of the event-time column.
        keys: names of the key columns.
        others: further required columns, with what each is; a None is ignored.

    Raises:
        DefinitionError: names the column, and the available ones.
    """
    check_column_name("event_time", event_time)
    named = [("event time", event_time), *others.items(), *(("key", key) for key in keys)]
    for what, name in named:
        if name is not None and name not in types:
            raise DefinitionError(
                f"{what} column {name!r} does not exist; the frame has the columns {list_columns(name, types)}"
            )
    check_event_time(types[event_time], event_time)
    for key in keys:
        if pat.is_time(types[key]):
            raise DefinitionError(f"key column {key!r} is of type {types[key]}; {NO_TIMES_OF_DAY}")
        if (
            pat.is_nested(types[key])
            or pat.is_interval(types[key])
            or getattr(types[key], "unit", "us") == "ns"
        ):
            raise DefinitionError(
                f"key column {key!r} is of type {types[key]}; keys must be atomic: {_atomic(key, types[key])}"
            )


def _atomic(key: str, type_: pa.DataType) -> str:
    """Return how a key becomes atomic, for the message about one that is not."""
    if not pat.is_struct(type_) or not type_.num_fields:
        return "cast it"
    first = f"{key}.{type_.field(0).name}"
    return f"group by its fields; on Spark, as in group_by(F.col({first!r}).alias({first!r}))"


def refuse_twice(what: str, names: tuple[str, ...]) -> None:
    """Refuse names of which one occurs twice.

    Raises:
        DefinitionError: names it.
    """
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(f"{what} {name!r} occurs twice: give each its own name")


def check_name(name: object) -> None:
    """Refuse what is no name of an operator: it is in lines of logs, in names of metrics, and on terminals.

    Raises:
        DefinitionError: says what a name is.
    """
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise DefinitionError(
            f"name is {short(name)}: the name of an operator is a text of 1 to {_LONGEST_NAME} characters that can be printed"
        )


def refuse_alike(what: str, names: Iterable[str]) -> None:
    """Refuse names of which two are equal, or differ in case only.

    With spark.sql.caseSensitive, Spark tells such names apart. Sinks, and readers of their tables, do not.

    Raises:
        DefinitionError: names them.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.lower())
        if other is not None:
            how = (
                "occurs twice"
                if other == name
                else f"differs from {other!r} in case only; without spark.sql.caseSensitive Spark takes these as one name, and "
                "most tables always do"
            )
            raise DefinitionError(f"{what} {name!r} {how}: give each its own name")
        seen[name.lower()] = name


def check_gap(type_: pa.DataType, name: str) -> None:
    """Refuse a column of session gaps whose type is not a length of time.

    Raises:
        DefinitionError: the type is neither a duration nor whole numbers.
    """
    if not (pat.is_duration(type_) or pat.is_signed_integer(type_)):
        raise DefinitionError(
            f"gap column {name!r} is of type {type_}; gaps must be durations or whole milliseconds: cast it first"
        )


def check_event_time(type_: pa.DataType, name: str, frame: str = "") -> None:
    """Refuse an event-time column whose type is not a time.

    Args:
        type_: the type of the column.
        name: the name of the column.
        frame: that it is of, where there are several.

    Raises:
        DefinitionError: the type is neither a timestamp nor int64.
    """
    if not (pat.is_timestamp(type_) or pat.is_int64(type_)):
        raise DefinitionError(not_a_time(type_, name, frame))


def not_a_time(type_: object, name: str, frame: str = "") -> str:
    """Return the message for an event-time column of another type; arguments as of `check_event_time`."""
    where = f"frame {frame}: " if frame else ""
    by = "for example with to_timestamp"
    if _TIME_OF_DAY.match(str(type_)):
        return (
            f"{where}event time column {name!r} is of type {type_}, which has no date: make a timestamp of a date and it, on "
            f"Spark with make_timestamp(date, {name})"
        )
    if str(type_) in _WHOLE_NUMBERS:
        by = "by its unit with timestamp_millis, timestamp_micros or timestamp_seconds (to_timestamp takes seconds)"
    return f"{where}event time column {name!r} is of type {type_}, not a timestamp: cast it, {by}"
