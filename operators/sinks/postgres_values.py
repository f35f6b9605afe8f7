"""Rows as PostgreSQL reads them, and the values that it has no place for."""

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.types as pat

from operators.sinks.interface import SinkError
from operators.sinks.nested import json_text

_COPIED_ROWS = 50_000
_NUL_IN_JSON = r"(^|[^\\])(\\\\)*\\u0000"
"""The escape of NUL, whose backslash is not itself escaped."""


def sql_type(type_: pa.DataType) -> str | None:
    """Return the SQL type of an Arrow type, or None if there is none."""
    if pat.is_decimal(type_):
        return f"numeric({type_.precision}, {type_.scale})"
    return next((name for is_type, name in _TYPES if is_type(type_)), None)


def arrow_type(sql: str, key: pa.DataType) -> pa.DataType | None:
    """Return the Arrow type as which keys are compared with a column, or None if that is not known.

    Args:
        sql: the column's type, as PostgreSQL writes it.
        key: the keys' type. PostgreSQL compares numbers of any type with `numeric` by value.
    """
    name, _, digits = sql.partition("(")
    if name == "numeric":
        exact = not digits or int(digits.rstrip(")").rpartition(",")[2]) == 0
        if (exact and pat.is_integer(key)) or (not digits and pat.is_decimal(key)):
            return key
        precision, _, scale = digits.rstrip(")").partition(",")
        return (
            pa.decimal128(int(precision), int(scale)) if digits and int(precision) <= _MOST_DIGITS else None
        )
    return _ARROW.get(name)


def as_csv(rows: pa.Table) -> Iterator[memoryview]:
    """Return rows as COPY takes them: CSV, some thousand rows at a time; null is nothing, text is quoted.

    Raises:
        SinkError: text has the character NUL, which PostgreSQL cannot hold; names the column.
    """
    plain = _plain(rows)
    for start in range(0, plain.num_rows, _COPIED_ROWS):
        text = io.BytesIO()
        options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
        pa.csv.write_csv(plain.slice(start, _COPIED_ROWS), text, options)
        yield text.getbuffer()


_MOST_DIGITS = 38
"""Of an Arrow decimal in 128 bits, which is also the most that Spark has."""
_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "integer": pa.int32(),
    "smallint": pa.int16(),
    "double precision": pa.float64(),
    "real": pa.float32(),
    "text": pa.string(),
    "character varying": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp without time zone": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
}


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pat.is_binary(type_) or pat.is_large_binary(type_) or pat.is_fixed_size_binary(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pat.is_string(type_) or pat.is_large_string(type_))


_TYPES: list[tuple[Any, str]] = [
    (pat.is_boolean, "boolean"),
    (pat.is_uint64, "numeric(20)"),
    (lambda type_: pat.is_int64(type_) or pat.is_uint32(type_), "bigint"),
    (lambda type_: pat.is_int32(type_) or pat.is_uint16(type_), "integer"),
    (pat.is_integer, "smallint"),
    (pat.is_float64, "double precision"),
    (pat.is_floating, "real"),
    (_is_text, "text"),
    (_is_bytes, "bytea"),
    (pat.is_date, "date"),
    (lambda type_: pat.is_timestamp(type_) and type_.tz is None, "timestamp"),
    (pat.is_timestamp, "timestamptz"),
    (pat.is_nested, "jsonb"),
]


def _plain(table: pa.Table) -> pa.Table:
    """Return the table in types that Arrow writes as PostgreSQL reads them."""
    for number, (field, column) in enumerate(zip(table.schema, table.columns, strict=True)):
        if pat.is_nested(field.type):
            texts = json_text(column)
            _refuse_nul(field.name, pc.match_substring_regex(texts, _NUL_IN_JSON))
            table = table.set_column(number, field.name, texts)
        elif _is_bytes(field.type):
            table = table.set_column(number, field.name, _hex_text(column))
        elif _is_text(field.type):
            _refuse_nul(field.name, pc.match_substring(column, "\0"))
    return table


def _refuse_nul(name: str, found: pa.Array) -> None:
    if rows := pc.sum(found).as_py():
        raise SinkError(
            f"column {name!r} has the character NUL in {rows} rows, which PostgreSQL's text cannot hold: remove it, as "
            "with F.translate(column, chr(0), ''), or cast the column to binary"
        )


def _hex_text(column: pa.ChunkedArray) -> pa.Array:
    """Return bytes as the text of bytea, all values in one go: a byte has two digits, so the offsets double."""
    values = column.cast(pa.large_binary()).combine_chunks()
    _, offsets, data = values.buffers()
    ends = pa.Array.from_buffers(pa.int64(), len(values) + 1, [None, offsets], offset=values.offset)
    digits = pa.py_buffer(b"" if data is None else data.to_pybytes().hex().encode())
    doubled = pc.multiply(ends, 2).buffers()[1]
    texts = pa.Array.from_buffers(pa.large_string(), len(values), [None, doubled, digits])
    prefixed = pc.binary_join_element_wise(pa.scalar("\\x", texts.type), texts, pa.scalar("", texts.type))
    return pc.if_else(values.is_null(), None, prefixed)
