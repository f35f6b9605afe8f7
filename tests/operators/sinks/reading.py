"""The rows of each sink's tables, in given types."""

import base64
import json
import sqlite3
from contextlib import closing
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.types as pat
from deltalake import DeltaTable
from psycopg import sql


def read_sqlite(path: Any, table: str, schema: pa.Schema) -> pa.Table:
    """Return the rows of a table in a SQLite file."""
    with closing(sqlite3.connect(path)) as db:
        found = db.execute(f"SELECT {', '.join(map(_quoted, schema.names))} FROM {_quoted(table)}").fetchall()  # noqa: S608
    columns = list(zip(*found, strict=True)) or [()] * len(schema)
    return pa.table(
        [_from_text(values, f.type) for values, f in zip(columns, schema, strict=True)], schema.names
    )


def read_postgres(conninfo: str, table: str, schema: pa.Schema) -> pa.Table:
    """Return the rows of a table in PostgreSQL; times as text, since Python has no year 0 that a time zone may lead to."""
    columns = [
        sql.SQL("({} AT TIME ZONE 'UTC')::text" if pat.is_timestamp(f.type) and f.type.tz else "{}").format(
            sql.Identifier(f.name)
        )
        for f in schema
    ]
    with psycopg.connect(conninfo) as db:
        asked = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(columns), sql.Identifier(table))
        found = db.execute(asked).fetchall()
    values = list(zip(*found, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(v, pa.string()).cast(pa.timestamp("us")).cast(f.type)
        if pat.is_timestamp(f.type) and f.type.tz
        else pa.array(v, f.type)
        for v, f in zip(values, schema, strict=True)
    ]
    return pa.table(arrays, schema.names)


def read_delta(path: Any, schema: pa.Schema) -> pa.Table:
    """Return the rows of a Delta table."""
    return DeltaTable(str(path)).to_pyarrow_table().select(schema.names).cast(schema)


def from_json(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Return values that were parsed from JSON as those of a type, as the guide's table of forms says."""
    if pat.is_nested(type_) or pat.is_boolean(type_) or pat.is_integer(type_):
        return pa.array(values, type_)
    if pat.is_floating(type_):
        return pa.array([None if value is None else float(value) for value in values], type_)
    if pat.is_decimal(type_):
        return pa.array([None if value is None else Decimal(value) for value in values], type_)
    if pat.is_binary(type_):
        return pa.array([None if value is None else base64.b64decode(value) for value in values], type_)
    return pa.array(values, pa.string()).cast(type_)


def _from_text(values: Any, type_: pa.DataType) -> pa.Array:
    """Return what SQLite holds for values of a type as these values."""
    if pat.is_nested(type_):
        return pa.array([None if value is None else json.loads(value) for value in values], type_)
    if pat.is_boolean(type_):
        return pa.array([None if value is None else bool(value) for value in values], type_)
    if pat.is_decimal(type_):
        return pa.array([None if value is None else Decimal(value) for value in values], type_)
    if pat.is_temporal(type_):
        return pa.array(values, pa.string()).cast(type_)
    return pa.array(values, type_)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
