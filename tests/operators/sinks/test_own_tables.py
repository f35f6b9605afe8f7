"""Tables that users make, and what each database adds to the contract."""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from operators.sinks import DeltaSink, PostgresSink, Sink, SinkError, SQLiteSink
from operators.sinks.contract.base import changes, number_of, row
from operators.sinks.interface import Changes, WrittenBatch

OWN = (
    "CREATE TABLE t (k {text}, window_start {time}, n {number}, x {number}, note {text} DEFAULT 'new', {key})"
)
PRIMARY = "PRIMARY KEY (window_start, k)"
TYPES = {"text": "text", "time": "timestamptz", "number": "numeric"}


def null_key(sink: Sink) -> None:
    """Write two rows whose key has a null."""
    sink.write(changes(0, [row(None, 1), row(None, 2), row("a", 1)]))


def test_postgres_takes_own_tables(database: str) -> None:
    """Other types and more columns are fine; a primary key refuses null, with the number of rows."""
    sink = PostgresSink(database, "t")
    with psycopg.connect(database) as db:
        db.execute(OWN.format(**TYPES, key=PRIMARY).encode())
    with pytest.raises(SinkError, match=r"key column 'k' is null in 2 rows, and table .* refuses null there"):
        null_key(sink)
    sink.write(changes(0, [row("a", 1, 5)]))
    with psycopg.connect(database) as db:
        db.execute("UPDATE t SET note = 'mine'")
    sink.write(changes(1, [row("a", 1, 6), row("b", 1, 7)]))
    with psycopg.connect(database) as db:
        assert [("a", 6, "mine"), ("b", 7, "new")] == db.execute(
            "SELECT k, n, note FROM t ORDER BY k"
        ).fetchall()


def test_batches_without_fingerprint_stay_known_in_delta(tmp_path: Path) -> None:
    """Another program may have removed it from the table's log."""
    sink = DeltaSink(str(tmp_path / "t"))
    noted = CommitProperties(app_transactions=[Transaction("one", 3)])
    write_deltalake(tmp_path / "t", changes(3, [row("a")]).upserts, commit_properties=noted)
    assert WrittenBatch(3, None) == sink.last_batch("one")
    assert not sink.write(changes(3, [row("a", n=1)], fingerprint=7))
    assert sink.write(changes(4, [row("a", n=2)], fingerprint=7))
    assert WrittenBatch(4, 7) == sink.last_batch("one")


def test_postgres_keys_are_primary_where_they_can_be(database: str) -> None:
    """Spark knows of some columns that they are never null; of the others, the database keeps nulls apart, too."""
    null_key(PostgresSink(database, "nulls"))
    schema = pa.schema([pa.field("k", pa.string(), nullable=False), pa.field("n", pa.int64())])
    rows = pa.table({"k": ["a"], "n": [1]}, schema=schema)
    PostgresSink(database, "keys").write(Changes("one", 0, rows.select(["k"]).slice(0, 0), rows))
    with psycopg.connect(database) as db:
        kinds = dict(
            db.execute(
                "SELECT conrelid::regclass::text, contype::text FROM pg_constraint WHERE connamespace = 'public'::regnamespace"
            ).fetchall()
        )
        assert {"nulls": "u", "keys": "p", "windows_batches": "p"} == kinds
        with pytest.raises(psycopg.errors.UniqueViolation):
            db.execute("INSERT INTO nulls SELECT * FROM nulls WHERE k IS NULL")


def test_postgres_tables_are_in_their_schema(database: str) -> None:
    """With the batches; tables of one name in two schemas are two."""
    for schema in ("one", "Two words"):
        with psycopg.connect(database) as db:
            db.execute(f'CREATE SCHEMA "{schema}"'.encode())
        sink = PostgresSink(database, "t", schema=schema)
        assert sink.write(changes(0, [row("a")]))
        assert 0 == number_of(sink.last_batch("one"))


def test_postgres_passwords_are_not_shown() -> None:
    """Where a sink is printed, as in a log."""
    assert "PostgresSink(table='t', schema='public', create=True)" == repr(
        PostgresSink("password=secret", "t")
    )


def test_writers_of_one_batch_wait_for_each_other(database: str) -> None:
    """Of drivers that write the same batch at once, to a table that does not exist, one writes."""
    with ThreadPoolExecutor(4) as threads:
        written = threads.map(
            lambda n: PostgresSink(database, "t").write(changes(0, [row("a", n=n)])), range(4)
        )
        assert [False, False, False, True] == sorted(written)


def test_sqlite_takes_own_tables(tmp_path: Path) -> None:
    """A primary key with NOT NULL refuses null; a number that SQLite would make up for null counts as such."""
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(OWN.format(**{**TYPES, "text": "text NOT NULL"}, key=PRIMARY))
        db.execute("CREATE TABLE numbered (id INTEGER PRIMARY KEY, n)")
    with pytest.raises(SinkError, match="key column 'k' is null in 2 rows"):
        null_key(SQLiteSink(path, "t"))
    rows = pa.table({"id": pa.array([None, 1], pa.int64()), "n": pa.array([1, 2], pa.int64())})
    with pytest.raises(SinkError, match="key column 'id' is null in 1 rows"):
        SQLiteSink(path, "numbered").write(Changes("one", 0, rows.select(["id"]).slice(0, 0), rows))


def test_sqlite_refuses_nan_in_keys(tmp_path: Path) -> None:
    """It would be null."""
    rows = pa.table({"k": [float("nan"), 1.0], "n": [1, 2]})
    with pytest.raises(SinkError, match="key column 'k' is NaN in 1 rows"):
        SQLiteSink(tmp_path / "t.db", "t").write(Changes("one", 0, rows.select(["k"]).slice(0, 0), rows))


def test_delta_takes_own_tables(tmp_path: Path) -> None:
    """A table of other columns and no known key; batches without rows are no versions of it."""
    one = changes(0, [row("a", n=1)])
    write_deltalake(tmp_path / "t", one.upserts.append_column("note", pa.array(["mine"])))
    sink = DeltaSink(str(tmp_path / "t"))
    for batch in (0, 1, 2):
        assert sink.write(changes(batch, [row("a", n=2)] if batch == 1 else []))
    table = DeltaTable(tmp_path / "t")
    assert 1 == table.version() == table.transaction_version("one")
    assert [("a", 2, "mine")] == [(r["k"], r["n"], r["note"]) for r in table.to_pyarrow_table().to_pylist()]


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        (
            lambda path, _: SQLiteSink(path / "t.db", "t", create=False),
            "table 't' does not exist in .*CREATE TABLE",
        ),
        (
            lambda _, database: PostgresSink(database, "t", create=False),
            "does not exist: .*CREATE TABLE .*UNIQUE",
        ),
        (
            lambda path, _: DeltaSink(str(path / "t"), create=False),
            "there is no Delta table at .*: pass create=True",
        ),
    ],
)
def test_a_missing_table_is_refused_if_so_asked(
    sink: Callable[[Any, str], Sink], message: str, tmp_path: Path, database: str
) -> None:
    """With the statement that creates it."""
    with pytest.raises(SinkError, match=message):
        sink(tmp_path, database).write(changes(0, [row("a")]))
    assert sink(tmp_path, database).last_batch("one") is None
