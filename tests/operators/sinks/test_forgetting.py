"""All rows of keys go from a table of windows, those of closed windows, too."""

import datetime as dt
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from operators import DefinitionError
from operators.sinks import Changes, DeltaSink, PostgresSink, Sink, SinkError, SQLiteSink, upsert_to
from operators.sinks.changes import changes_of, forgotten_keys
from tests.key_bytes import holding
from tests.operators.sinks.reading import read_delta, read_sqlite

UTC = dt.timezone.utc
BERLIN = pa.timestamp("us", "Europe/Berlin")
TYPES = {"text": pa.string(), "number": pa.int64(), "float": pa.float64(), "at": pa.timestamp("us", "UTC")}
NOON = dt.datetime(2026, 1, 5, 12, tzinfo=UTC)
KEYS = {
    "text": ["a", "b"],
    "number": [7, 8],
    "float": [0.0, 1.5],
    "at": [NOON, NOON + dt.timedelta(hours=1)],
}


@pytest.mark.parametrize("of", KEYS)
@pytest.mark.parametrize("sink", ["sqlite", "delta"])
@pytest.mark.parametrize("null", [False, True])
def test_rows_of_a_key_go(of: str, sink: str, null: bool, tmp_path: Path) -> None:
    """With keys of each type and null, given as Python has them."""
    gone, other = [None, KEYS[of][1]] if null else KEYS[of]
    schema = pa.schema({"k": TYPES[of], "n": pa.int64()})
    written = pa.table({"k": [gone, other], "n": [1, 2]}, schema=schema)
    table: Sink = SQLiteSink(tmp_path / "t.db", "t") if sink == "sqlite" else DeltaSink(str(tmp_path / "t"))
    upsert = upsert_to(table, keys=["k"], query="q")
    assert table.write(changes_of(written, ["k"], "q", 0))
    upsert.forget([{"k": gone}, {"k": gone}])
    left = (
        read_sqlite(tmp_path / "t.db", "t", schema)
        if sink == "sqlite"
        else read_delta(tmp_path / "t", schema)
    )
    assert [{"k": other, "n": 2}] == left.to_pylist()


@pytest.mark.parametrize("by", ["forget", "a retraction"])
@pytest.mark.parametrize("read", [False, True], ids=["alone", "beside a reader"])
def test_nothing_of_the_rows_is_left_in_the_file(by: str, read: bool, tmp_path: Path) -> None:
    """Nor in SQLite's log, which a reader that stays connected keeps: rows that are deleted leave free space, not bytes."""
    sink = SQLiteSink(tmp_path / "t.db", "t")
    upsert = upsert_to(sink, keys=["k"], query="q")
    keys = [f"SECRET-{n:04d}" for n in range(400)]
    rows = pa.table({"k": keys, "note": [key * 20 for key in keys]})
    sink.write(changes_of(rows, ["k"], "q", 0))
    with closing(sqlite3.connect(tmp_path / "t.db")) as reader:
        if read:
            assert [(400,)] == reader.execute("SELECT count(*) FROM t").fetchall()
        assert holding(tmp_path, "SECRET-0007")
        gone = [key for key in keys if key != "SECRET-0200"]
        if by == "forget":
            assert 399 == upsert.forget([{"k": key} for key in gone])
        else:
            retracted = rows.filter(pc.is_in(rows["k"], pa.array(gone))).append_column(
                "change", pa.array(["retract"] * 399)
            )
            sink.write(changes_of(retracted, ["k"], "q", 1))
        assert [] == [key for key in gone if holding(tmp_path, key)]
        assert holding(tmp_path, "SECRET-0200")


def test_keys_are_as_rows_have_them() -> None:
    """Times in UTC, one zero, each once, and in the order of the table's key."""
    given = pa.table({"at": pa.array([NOON, NOON], BERLIN), "x": [-0.0, 0.0]})
    found = forgotten_keys(given, ["x", "at"])
    assert pa.schema({"x": pa.float64(), "at": pa.timestamp("us", "UTC")}).types == found.schema.types
    assert [{"x": 0.0, "at": NOON}] == found.to_pylist()
    assert "-" not in str(found["x"][0])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([{"user": "a"}], "the keys lack the key column 'k'; they have the columns user"),
        ([{"k": "a", "site": "x"}, {"k": "b"}], "a key lacks the column 'site': .* for null, give None"),
        (pa.table({"k": ["a"]}), "the keys lack the key column 'site'"),
        (
            pa.table({"k": ["a"], "site": ["x"], "n": [1]}),
            "'n', which is not a key column: give only k, site",
        ),
        ([{"k": "a", "site": 1}, {"k": "b", "site": "x"}], "key column 'site' is 1: "),
        ([{"k": "a", "site": ["x"]}], "key column 'site' is of type list.*keys must be atomic"),
        ([], "forget needs at least one key"),
        ({"k": "a", "site": "x"}, "give a pyarrow.Table or a list of dictionaries, not"),
        ("a", "give a pyarrow.Table or a list of dictionaries, not 'a'"),
    ],
)
def test_other_keys_are_refused(keys: Any, message: str) -> None:
    """A column that is missing is no null."""
    with pytest.raises(DefinitionError, match=message):
        forgotten_keys(keys, ["k", "site"])


def test_keys_without_rows_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The number of deleted rows comes back; none at all may be a mistake."""
    sink = SQLiteSink(tmp_path / "t.db", "t")
    upsert = upsert_to(sink, keys=["k"], query="q")
    written = pa.table({"k": ["a", "a", "b"], "at": [1, 2, 1]})
    sink.write(changes_of(written, ["k", "at"], "q", 0))
    with caplog.at_level("WARNING"):
        assert 2 == upsert.forget([{"k": "a"}, {"k": "nobody"}])
        assert "" == caplog.text
        assert 0 == upsert.forget([{"k": "A"}])
    assert "no row was deleted: the table has none of the 1 keys to forget" in caplog.text


def test_a_column_of_unknown_values_is_refused(tmp_path: Path) -> None:
    """A table that a user made may not say how a key is stored."""
    with closing(sqlite3.connect(tmp_path / "t.db")) as db:
        db.execute("CREATE TABLE t (k timestamptz PRIMARY KEY, n)")
    with pytest.raises(SinkError, match=r"has not chosen the type of column 'k'.*delete the rows yourself"):
        upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys=["k"], query="q").forget([{"k": NOON}])


@pytest.mark.slow
def test_numbers_of_any_type_are_keys_of_numeric(database: str) -> None:
    """PostgreSQL compares them by value: also those of unsigned numbers, and of a table that a user made."""
    with psycopg.connect(database) as db:
        db.execute("CREATE TABLE own (k numeric PRIMARY KEY, n bigint)")
        db.execute("INSERT INTO own VALUES (1.50, 1), (2.00, 2), (3, 3)")
    own = PostgresSink(database, "own")
    assert 1 == own.forget(pa.table({"k": pa.array([Decimal("1.5")])}))
    assert 1 == own.forget(pa.table({"k": [2]}))
    with pytest.raises(SinkError, match="has not chosen the type of column 'k'"):
        own.forget(pa.table({"k": [3.0]}))
    unsigned = pa.table({"k": pa.array([2**64 - 1, 7], pa.uint64()), "n": [1, 2]})
    sink = PostgresSink(database, "t")
    sink.write(changes_of(unsigned, ["k"], "q", 0))
    assert 2 == sink.forget(pa.table({"k": pa.array([2**64 - 1, 7], pa.uint64())}))


def test_without_key_columns_there_is_no_key() -> None:
    """The window alone is none."""
    with pytest.raises(DefinitionError, match="no key columns but the window"):
        forgotten_keys([{"k": 1}], [])


def test_a_sink_that_cannot_forget_says_so() -> None:
    """And what to do."""

    class Own(Sink):
        def write(self, changes: Changes) -> bool:
            return True

        def last_batch(self, query: str) -> None:
            return None

    with pytest.raises(
        SinkError, match="Own has no method forget: delete the rows of 1 keys in the table yourself"
    ):
        upsert_to(Own(), keys=["k"]).forget([{"k": 1}])
