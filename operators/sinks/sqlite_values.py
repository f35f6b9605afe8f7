"""Values as SQLite holds them, and the names of types by which its tables say what they are."""

import re
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from operators.sinks.nested import json_text

_MOST_DIGITS = 38
_DECIMAL = re.compile(r"DECIMAL_TEXT\((\d+), (-?\d+)\)")
_KINDS: dict[str, pa.DataType] = {
    "BIGINT": pa.int64(),  # a key that is called INTEGER would get a number of SQLite's own for null
    "BOOLEAN": pa.bool_(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BLOB": pa.binary(),
    "TEXT": pa.string(),
    "DATE_TEXT": pa.date32(),
    "TIMESTAMP_TEXT": pa.timestamp("us"),
    "TIMESTAMPTZ_TEXT": pa.timestamp("us", "UTC"),
}
"""Type names of new tables. SQLite stores values by parts of these names, such as TEXT, and keeps the whole."""
_OWN: dict[str, pa.DataType] = {
    "INT": pa.int64(),
    "INTEGER": pa.int64(),
    "REAL": pa.float64(),
    "VARCHAR": pa.string(),
}
"""Further names in tables that users made, of which only one kind of key can be."""


_DECLARED: list[tuple[Any, str]] = [
    (pat.is_nested, "TEXT"),
    (lambda type_: pat.is_integer(type_) and not pat.is_uint64(type_), "BIGINT"),
    (pat.is_float64, "DOUBLE"),
    (pat.is_floating, "FLOAT"),
    (pat.is_boolean, "BOOLEAN"),
    (lambda type_: pat.is_string(type_) or pat.is_large_string(type_), "TEXT"),
    (lambda type_: pat.is_binary(type_) or pat.is_large_binary(type_), "BLOB"),
    (pat.is_fixed_size_binary, "BLOB"),
    (pat.is_date, "DATE_TEXT"),
    (lambda type_: pat.is_timestamp(type_) and type_.tz is None, "TIMESTAMP_TEXT"),
    (pat.is_timestamp, "TIMESTAMPTZ_TEXT"),
]


def declared_type(type_: pa.DataType) -> str | None:
    """Return the name that a new table has for an Arrow type, or None if SQLite cannot hold it."""
    if pat.is_decimal(type_):
        return f"DECIMAL_TEXT({type_.precision}, {type_.scale})"
    return next((name for is_type, name in _DECLARED if is_type(type_)), None)


def arrow_type(declared: str) -> pa.DataType | None:
    """Return the Arrow type of which the values in a column of such a type are; None if its name does not say."""
    match = _DECIMAL.fullmatch(declared.upper())
    if match and 0 < int(match[1]) <= _MOST_DIGITS:
        return pa.decimal128(int(match[1]), int(match[2]))
    return (_KINDS | _OWN).get(declared.upper().partition("(")[0].strip())


def plain(table: pa.Table) -> pa.Table:
    """Return the table in types that SQLite has."""
    for number, field in enumerate(table.schema):
        if pat.is_timestamp(field.type) or pat.is_date(field.type) or pat.is_decimal(field.type):
            table = table.set_column(number, field.name, table.column(number).cast(pa.string()))
        elif pat.is_nested(field.type):
            table = table.set_column(number, field.name, json_text(table.column(number)))
    return table
