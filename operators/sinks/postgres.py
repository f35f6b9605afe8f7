"""Tables in PostgreSQL."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.types as pat

from operators.sinks.interface import Changes, Sink, SinkError, WrittenBatch
from operators.sinks.nested import json_text
from operators.sinks.tables import (
    BATCHES,
    FINGERPRINT,
    Layout,
    check_layout,
    create_table,
    declared_types,
    listed,
    null_keys,
    quoted,
)

if TYPE_CHECKING:
    from psycopg import Connection

_COPIED_ROWS = 50_000
_NULLS_NOT_DISTINCT = 150_000
"""The first version of PostgreSQL whose unique constraints can take nulls for equal."""

_COLUMNS = """
    SELECT attname, attnotnull FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_UNIQUE = """
    SELECT array_agg(attname::text) FROM pg_index
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey[0:indnkeyatts - 1])
    WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs
    IS NULL GROUP BY indexrelid
"""


@dataclass(frozen=True, slots=True)
class PostgresSink(Sink):
    """A table in PostgreSQL 12 or newer. It needs the extra `postgres` (psycopg).

    A batch is copied into temporary tables with COPY, as text that Arrow writes in one go, and goes from there into
    the table by a DELETE and an INSERT ... ON CONFLICT DO UPDATE, in one transaction with the batch's number. Each
    batch opens a connection.

    Values: numbers, text, booleans, dates, timestamps (with and without zone), decimals and bytes have their own
    types; unsigned 64-bit integers are numeric; nested values are jsonb, with one call of Python per value.

    Args:
        conninfo: how to connect, such as "host=db dbname=flights user=writer" or a postgresql:// URI. Leave the
            password to ~/.pgpass or PGPASSWORD on the driver.
        table: name of the table.
        schema: name of the schema that the table is in; it must exist.
        create: whether the first batch creates the table if it does not exist.
    """

    conninfo: str = field(repr=False)
    table: str
    schema: str = "public"
    create: bool = True

    def write(self, changes: Changes) -> bool:
        types = declared_types(changes.upserts.schema, _declared, "PostgreSQL")
        with self._connect() as db:
            self._ensure(db, changes, types)
            if self._note(db, changes) < 1:
                return False
            _delete(
                db, self._name, pa.concat_tables([changes.deletes, null_keys(changes.upserts, changes.keys)])
            )
            _upsert(db, self._name, changes)
        return True

    def last_batch(self, query: str) -> WrittenBatch | None:
        with self._connect() as db:
            columns = _layout(db, self._batches).required
            if not columns:
                return None
            fingerprint = FINGERPRINT if FINGERPRINT in columns else "NULL"
            asked = f"SELECT batch, {fingerprint} FROM {self._batches} WHERE table_name = %s AND query = %s"
            found = _run(db, asked, (self.table, query))
        return WrittenBatch(*found[0]) if found else None

    @property
    def _name(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    @property
    def _batches(self) -> str:
        return f"{quoted(self.schema)}.{quoted(BATCHES)}"

    def _connect(self) -> "Connection[Any]":
        """Open a connection, which commits when its block ends, rolls back if that fails, and closes."""
        try:
            import psycopg
        except ImportError as missing:
            raise ImportError(
                "PostgresSink needs psycopg: pip install 'spark-stateful-windows[postgres]'"
            ) from missing
        # Poolers such as PgBouncer do not know prepared statements.
        return psycopg.connect(self.conninfo, prepare_threshold=None)

    def _ensure(self, db: "Connection[Any]", changes: Changes, types: dict[str, str]) -> None:
        """Create what is missing, or refuse a table that does not fit."""
        if not (self._exists(db, self._name) and self._exists(db, self._batches)):
            self._create(db, changes, types)
        check_layout(self._name, _layout(db, self._name), changes, types)
        if FINGERPRINT not in _layout(db, self._batches).required:
            self._add_fingerprint(db)

    def _add_fingerprint(self, db: "Connection[Any]") -> None:
        """Add the column that a table of batches of an earlier version lacks."""
        statement = f"ALTER TABLE {self._batches} ADD COLUMN IF NOT EXISTS {FINGERPRINT} bigint"
        if not self.create:
            raise SinkError(
                f"table {self._batches} is one of an earlier version: pass create=True, or run {statement}"
            )
        _run(db, statement)

    def _create(self, db: "Connection[Any]", changes: Changes, types: dict[str, str]) -> None:
        statements = {
            self._name: create_table(self._name, changes, types, _constraint(db, changes)),
            self._batches: f"CREATE TABLE IF NOT EXISTS {self._batches} "
            f"(table_name text, query text, batch bigint NOT NULL, {FINGERPRINT} bigint, "
            "PRIMARY KEY (table_name, query))",
        }
        _run(db, "SELECT pg_advisory_xact_lock(hashtext(%s))", (BATCHES,))  # two queries may start at once
        for name, statement in statements.items():
            if not (self.create or self._exists(db, name)):
                raise SinkError(f"table {name} does not exist: pass create=True, or run {statement}")
            if self.create:
                _run(db, statement)

    @staticmethod
    def _exists(db: "Connection[Any]", name: str) -> bool:
        return _run(db, "SELECT to_regclass(%s) IS NOT NULL", (name,)) == [(True,)]

    def _note(self, db: "Connection[Any]", changes: Changes) -> int:
        """Note the batch, unless it or a later one is noted; other writers of the query wait until this one is done."""
        noted = (
            f"INSERT INTO {self._batches} AS old (table_name, query, batch, {FINGERPRINT}) VALUES (%s, %s, %s, %s) "
            f"ON CONFLICT (table_name, query) DO UPDATE SET batch = excluded.batch, {FINGERPRINT} = "
            f"excluded.{FINGERPRINT} WHERE old.batch < excluded.batch RETURNING batch"
        )
        return len(_run(db, noted, (self.table, changes.query, changes.batch, changes.fingerprint)))


def _run(db: "Connection[Any]", statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run a statement, in which names are quoted, and return its rows, if it has any."""
    done = db.execute(statement.encode(), values or None)
    return done.fetchall() if done.description else []


def _layout(db: "Connection[Any]", name: str) -> Layout:
    """Return the table as it is; without columns if it does not exist."""
    required = {column: bool(needed) for column, needed in _run(db, _COLUMNS, (name,))}
    return Layout(required, [frozenset(columns) for (columns,) in _run(db, _UNIQUE, (name,))])


def _constraint(db: "Connection[Any]", changes: Changes) -> str:
    """Return what the key of a new table is: a primary key refuses null."""
    if not any(changes.upserts.schema.field(key).nullable for key in changes.keys):
        return "PRIMARY KEY"
    return "UNIQUE NULLS NOT DISTINCT" if db.info.server_version >= _NULLS_NOT_DISTINCT else "UNIQUE"


def _delete(db: "Connection[Any]", table: str, keys: pa.Table) -> None:
    """Delete rows by their keys. An index serves `=` and IS NULL, not IS NOT DISTINCT FROM: so nulls go apart."""
    if not keys.num_rows:
        return
    _copy(db, table, "windows_deletes", keys)
    for nulls in sorted(_null_patterns(keys)):
        where = " AND ".join(
            f"old.{quoted(name)} IS NULL AND gone.{quoted(name)} IS NULL"
            if null
            else f"old.{quoted(name)} = gone.{quoted(name)}"
            for name, null in zip(keys.column_names, nulls, strict=True)
        )
        _run(db, f"DELETE FROM {table} AS old USING windows_deletes AS gone WHERE {where}")


def _null_patterns(keys: pa.Table) -> set[tuple[bool, ...]]:
    """Return which columns are null together in some row."""
    flags = pa.table([column.is_null() for column in keys.columns], names=keys.column_names)
    return {tuple(row.values()) for row in flags.group_by(keys.column_names).aggregate([]).to_pylist()}


def _upsert(db: "Connection[Any]", table: str, changes: Changes) -> None:
    if not changes.upserts.num_rows:
        return
    _copy(db, table, "windows_upserts", changes.upserts)
    columns = listed(changes.upserts.column_names)
    values = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in changes.values)
    _run(
        db,
        f"INSERT INTO {table} ({columns}) SELECT {columns} FROM windows_upserts "
        f"ON CONFLICT ({listed(changes.keys)}) DO {f'UPDATE SET {values}' if values else 'NOTHING'}",
    )


def _copy(db: "Connection[Any]", table: str, name: str, rows: pa.Table) -> None:
    """Copy rows into a temporary table whose columns have the types of the table's."""
    columns = listed(rows.column_names)
    _run(db, f"CREATE TEMP TABLE {name} ON COMMIT DROP AS SELECT {columns} FROM {table} WITH NO DATA")
    plain = _plain(rows)
    with db.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN (FORMAT csv)".encode()) as copy:
        for start in range(0, plain.num_rows, _COPIED_ROWS):
            copy.write(_csv(plain.slice(start, _COPIED_ROWS)))


def _csv(rows: pa.Table) -> memoryview:
    """Return rows as CSV: null is nothing, text is quoted."""
    text = io.BytesIO()
    pa.csv.write_csv(rows, text, pa.csv.WriteOptions(include_header=False, quoting_style="needed"))
    return text.getbuffer()


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pat.is_binary(type_) or pat.is_large_binary(type_) or pat.is_fixed_size_binary(type_))


_TYPES: list[tuple[Any, str]] = [
    (pat.is_boolean, "boolean"),
    (pat.is_uint64, "numeric(20)"),
    (lambda type_: pat.is_int64(type_) or pat.is_uint32(type_), "bigint"),
    (lambda type_: pat.is_int32(type_) or pat.is_uint16(type_), "integer"),
    (pat.is_integer, "smallint"),
    (pat.is_float64, "double precision"),
    (pat.is_floating, "real"),
    (lambda type_: pat.is_string(type_) or pat.is_large_string(type_), "text"),
    (_is_bytes, "bytea"),
    (pat.is_date, "date"),
    (lambda type_: pat.is_timestamp(type_) and type_.tz is None, "timestamp"),
    (pat.is_timestamp, "timestamptz"),
    (pat.is_nested, "jsonb"),
]


def _declared(type_: pa.DataType) -> str | None:
    if pat.is_decimal(type_):
        return f"numeric({type_.precision}, {type_.scale})"
    return next((name for is_type, name in _TYPES if is_type(type_)), None)


def _plain(table: pa.Table) -> pa.Table:
    """Return the table in types that Arrow writes as PostgreSQL reads them."""
    for number, column in enumerate(table.schema):
        if pat.is_nested(column.type):
            table = table.set_column(number, column.name, json_text(table.column(number)))
        elif _is_bytes(column.type):
            table = table.set_column(number, column.name, _hex_text(table.column(number)))
    return table


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
