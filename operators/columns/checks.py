"""Checks of what users name: columns of a frame, and the types that they have."""

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.types as pat

from operators.columns.arrow import plain_type
from operators.errors import DefinitionError

Types = Mapping[str, pa.DataType]
_EXPRESSION = re.compile(r"[()+*/%<>=!]| - | (?:and|or|is|in|like) ", re.IGNORECASE)


def listed_names(wanted: str, there: Iterable[str]) -> str:
    """Return the names that there are, and the one that was probably meant, for the message about one that is missing."""
    from state_backends.config import nearest

    names = list(there)
    close = nearest(wanted, names)
    return ", ".join(names) + ("" if close is None else f": did you mean {close!r}?")


def listed_columns(wanted: str, there: Iterable[str]) -> str:
    """Return the columns that there are, and how the missing one is meant: a field, an expression, or another name."""
    names = list(there)
    struct = wanted.partition(".")[0]
    if struct in names:
        made = f"df.withColumn({wanted.replace('.', '_')!r}, F.col({wanted!r}))"
        hint = f": it is a field, make it a column before, such as with {made}"
    elif _EXPRESSION.search(wanted):
        made = f"df.withColumn('made', F.expr({wanted!r}))"
        hint = f": it is an expression, make it a column before, such as with {made}"
    else:
        return listed_names(wanted, names)
    return ", ".join(names) + hint


def check_column_name(what: str, given: object) -> None:
    """Refuse what is no name of a column, such as a Spark expression.

    Args:
        what: begins the message.
        given: what should be a name.

    Raises:
        DefinitionError: says what was given and how an expression becomes a column.
    """
    if isinstance(given, list | tuple):
        raise DefinitionError(
            f"{what} takes names of columns, not {given!r}: give them one by one, as 'a', 'b'"
        )
    if not isinstance(given, str):
        raise DefinitionError(
            f"{what} takes names of columns, not {given!r}: make an expression a column before, with df.withColumn"
        )


def column_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return a frame's columns with the types that they are taken as."""
    return {name: plain_type(type_) for name, type_ in zip(schema.names, schema.types, strict=True)}


def check_columns(
    types: Types, event_time: str, keys: tuple[str, ...], others: Mapping[str, str | None]
) -> None:
    """Refuse a frame that lacks a column, or whose event time or keys are of a wrong type.

    Args:
        types: the frame's columns.
        event_time: name of the event-time column.
        keys: names of the key columns.
        others: further columns that are wanted, with what each is; None is none.

    Raises:
        DefinitionError: names the column, and those that there are.
    """
    check_column_name("event_time", event_time)
    named = [("event time", event_time), *others.items(), *(("key", key) for key in keys)]
    for what, name in named:
        if name is not None and name not in types:
            raise DefinitionError(
                f"there is no {what} column {name!r}; the frame has {listed_columns(name, types)}"
            )
    check_event_time(types[event_time], event_time)
    for key in keys:
        if (
            pat.is_nested(types[key])
            or pat.is_time(types[key])
            or pat.is_interval(types[key])
            or getattr(types[key], "unit", "us") == "ns"
        ):
            raise DefinitionError(
                f"key column {key!r} is {types[key]}; an atomic type of Spark is wanted: cast it, or group by its fields"
            )


def refuse_twice(what: str, names: tuple[str, ...]) -> None:
    """Refuse names of which one is there twice.

    Raises:
        DefinitionError: names it.
    """
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(f"{what} {name!r} is there twice; give each a name of its own")


def check_gap(type_: pa.DataType, name: str) -> None:
    """Refuse a column of session gaps of a type that is no length of time.

    Raises:
        DefinitionError: the type is neither a duration nor whole numbers.
    """
    if not (pat.is_duration(type_) or pat.is_signed_integer(type_)):
        raise DefinitionError(
            f"gap column {name!r} is {type_}; a duration is wanted, or whole milliseconds: cast it before"
        )


def check_event_time(type_: pa.DataType, name: str) -> None:
    """Refuse an event-time column of a type that is no time.

    Raises:
        DefinitionError: the type is neither a timestamp nor int64.
    """
    if not (pat.is_timestamp(type_) or pat.is_int64(type_)):
        raise DefinitionError(
            f"event time column {name!r} is {type_}; a timestamp is wanted: cast it, for example with to_timestamp"
        )
