"""Keys to forget: rows of key columns, as users give them, become keys as the store has them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from operators.columns.arrow import plain_table
from operators.columns.checks import list_columns
from operators.columns.records import number_keys
from operators.errors import DefinitionError
from serializers.keys import encode_keys
from serializers.shapes import short

Keys: TypeAlias = pa.Table | Sequence[Mapping[str, object]]
"""Rows of key columns: a table, or a dictionary for each row."""


def encoded_keys(keys: Keys, columns: pa.Schema) -> list[bytes]:
    """Return the distinct keys of rows as the store has them.

    Args:
        keys: rows with all key columns of an operator. Other columns are refused, since a key may have been meant by them.
        columns: the operator's key columns.

    Raises:
        DefinitionError: the operator has no key columns, there is no row, or a column is missing, too many, or of a type whose
            values are not those of the key column; names it.
    """
    if not columns.names:
        raise DefinitionError(
            "the operator has no key columns, so that all records are of one key: to forget them all, start the query with a "
            "new checkpoint"
        )
    table = rows_of_keys(keys, columns.names, dict(zip(columns.names, columns.types, strict=True)))
    cast = [cast_key(table, field.name, field.type, "operator") for field in columns]
    return encode_keys(number_keys(cast, table.num_rows)[1])


def rows_of_keys(keys: Keys, names: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return keys as a table of plain types that has at least one row, and exactly the key columns.

    Args:
        keys: as users give them.
        names: the names of the key columns.
        types: the types of the columns whose type is known, for the values of dictionaries.

    Raises:
        DefinitionError: there is no row, a column is missing or too many, or values have no common type; names it.
    """
    table = _table(keys, names, types)
    if not table.num_rows:
        raise DefinitionError("forget needs at least one key: the keys have no rows")
    for name in names:
        if name not in table.column_names:
            raise DefinitionError(
                f"the keys lack the key column {name!r}; they have the columns {list_columns(name, table.column_names)}"
            )
    for name in table.column_names:
        if name not in names:
            raise DefinitionError(
                f"the keys have a column {name!r}, which is not a key column: give only {', '.join(names)}"
            )
    return table.select(list(names))


def _table(keys: Any, columns: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    if isinstance(keys, pa.RecordBatch):
        return plain_table(pa.Table.from_batches([keys]))
    if isinstance(keys, pa.Table):
        return plain_table(keys)
    if isinstance(keys, Mapping | str) or not all(isinstance(row, Mapping) for row in keys):
        raise DefinitionError(
            f"keys are rows of the key columns {', '.join(columns)}: give a pyarrow.Table or a list of dictionaries, not "
            f"{short(keys)}"
        )
    names = list(dict.fromkeys(name for row in keys for name in row))
    arrays = []
    for name in names:
        missing = next((row for row in keys if name not in row), None)
        if missing is not None:
            raise DefinitionError(
                f"a key lacks the column {name!r}: {short(dict(missing))}; for null, give None"
            )
        values = [row[name] for row in keys]
        arrays.append(_array(name, values, types.get(name)))
    return pa.table(arrays, names=names)


def _array(name: str, values: Sequence[object], type_: pa.DataType | None) -> pa.Array:
    """The values as a column; of the given type, if they are values of it."""
    try:
        found = pa.array(values)
        if type_ in (None, found.type) or not _alike(found.type, type_):
            return found
        return pa.array(values, type_)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise DefinitionError(f"key column {name!r} is {short(values[0])}: {error}") from error


def cast_key(table: pa.Table, name: str, type_: pa.DataType, whose: str) -> pa.ChunkedArray:
    """Return a key column as the type that keys have where they are to be forgotten.

    Args:
        table: has the column.
        name: the name of the column.
        type_: the type of the stored keys.
        whose: key it is, for messages: the operator's, or a table's.

    Raises:
        DefinitionError: a value of the column may mean another key, or is none of the type.
    """
    column = table.column(name)
    if column.type == type_:
        return column
    if not _alike(column.type, type_):
        raise DefinitionError(
            f"key column {name!r} is of type {column.type}, but the {whose}'s is {type_}: cast it"
        )
    try:
        return column.cast(type_)
    except pa.ArrowException as error:
        raise DefinitionError(
            f"key column {name!r} has a value that is none of the {whose}'s type {type_}: {error}"
        ) from error


def _alike(other: pa.DataType, type_: pa.DataType) -> bool:
    """Whether values of one type can be those of the other, so that no other key can be meant."""
    if pat.is_null(other):
        return True
    if pat.is_timestamp(other) and pat.is_timestamp(type_):
        return (other.tz is None) == (type_.tz is None)
    kinds = (
        pat.is_integer,
        pat.is_floating,
        pat.is_decimal,
        lambda each: pat.is_string(each) or pat.is_large_string(each),
        lambda each: pat.is_binary(each) or pat.is_large_binary(each) or pat.is_fixed_size_binary(each),
        pat.is_date,
        pat.is_boolean,
    )
    return any(kind(other) and kind(type_) for kind in kinds)
