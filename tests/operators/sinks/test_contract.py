"""The shipped contract suite on the sinks that are shipped."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators.sinks import Changes, DeltaSink, PostgresSink, Sink, SQLiteSink, WrittenBatch
from operators.sinks.contract import SinkContract
from tests.docs.blocks import blocks
from tests.operators.sinks.reading import read_delta, read_postgres, read_sqlite

ROOT = Path(__file__).parents[3]


class TestSQLite(SinkContract):
    """A SQLite file."""

    not_finite = False
    refused = (pa.duration("us"), pa.uint64(), pa.time64("us"))

    def sink(self, place: Any, table: str) -> Sink:
        return SQLiteSink(place / "results.db", table)

    def read(self, place: Any, table: str, schema: pa.Schema) -> pa.Table:
        return read_sqlite(place / "results.db", table, schema)


class TestPostgres(SinkContract):
    """A PostgreSQL database."""

    refused = (pa.duration("us"), pa.time64("us"))

    @pytest.fixture
    def place(self, database: str) -> str:
        return database

    def sink(self, place: Any, table: str) -> Sink:
        return PostgresSink(place, table)

    def read(self, place: Any, table: str, schema: pa.Schema) -> pa.Table:
        return read_postgres(place, table, schema)


class TestDelta(SinkContract):
    """A Delta table in a local directory."""

    refused = (pa.duration("us"), pa.uint32(), pa.list_(pa.uint64()), pa.time64("us"))

    def sink(self, place: Any, table: str) -> Sink:
        return DeltaSink(str(place / table))

    def read(self, place: Any, table: str, schema: pa.Schema) -> pa.Table:
        return read_delta(Path(place / table), schema)


def documented() -> dict[str, Any]:
    """The sink that the guide shows, and its tests."""
    names: dict[str, Any] = {"__name__": __name__}
    for block in blocks(ROOT / "docs" / "sinks.md"):
        if "Parquet" in block.code:
            exec(block.compiled(), names)  # noqa: S102 - the documentation's own code
    return names


DOCUMENTED = documented()
ParquetSink = DOCUMENTED["ParquetSink"]


class TestDocumented(DOCUMENTED["TestParquet"]):
    """The sink of the guide keeps the contract."""

    kills = 0  # another process would not find the class


def broken(**methods: Callable[..., Any]) -> SinkContract:
    """The tests of the guide's sink, of which some methods are replaced."""
    tests, sink = TestDocumented(), type("Broken", (ParquetSink,), methods)
    tests.sink = lambda place, table: sink(place / table)
    return tests


def write_again(self: Any, changes: Changes) -> bool:
    """Takes every batch for a new one."""
    table, batches, keys = self.load(changes)
    rows = {
        tuple(row[key] for key in keys): row for row in [*table.to_pylist(), *changes.upserts.to_pylist()]
    }
    self.save(
        list(rows.values()),
        table.schema,
        {**batches, changes.query: (changes.batch, changes.fingerprint)},
        keys,
    )
    return True


def load_without_nulls(self: Any, changes: Changes | None) -> Any:
    """Finds no rows whose key has a null, as SQL's `=`."""
    table, batches, keys = super(type(self), self).load(changes)
    return table and table.filter(table.column(keys[0]).is_valid()), batches, keys


def forget(self: Any, query: str) -> None:
    """Knows no batch."""


def without_fingerprint(self: Any, query: str) -> WrittenBatch | None:
    """Knows the number only."""
    last = super(type(self), self).last_batch(query)
    return last and replace(last, fingerprint=None)


def save_one_query(self: Any, rows: Any, schema: pa.Schema, batches: dict[str, int], keys: list[str]) -> None:
    """Forgets the batches of other queries."""
    newest = dict(list(batches.items())[-1:])
    super(type(self), self).save(rows, schema, newest, keys)


@pytest.mark.parametrize(
    ("methods", "test", "promise"),
    [
        (
            {"write": write_again},
            "test_a_repeated_batch_changes_nothing",
            "a batch that was written is not written again",
        ),
        (
            {"write": write_again},
            "test_rows_are_inserted_replaced_and_deleted",
            "rows are replaced, inserted and deleted",
        ),
        ({"load": load_without_nulls}, "test_null_is_a_key_like_others", "null is equal to null"),
        (
            {"keeps_latest": True},
            "test_a_newer_row_is_not_replaced",
            "an older row of a later batch does not replace a newer one",
        ),
        ({"save": save_one_query}, "test_queries_are_counted_apart", "each query has its last batch"),
        (
            {"last_batch": forget},
            "test_the_last_batch_is_known",
            "the last batch and its fingerprint are known",
        ),
        (
            {"last_batch": without_fingerprint},
            "test_the_last_batch_is_known",
            "the last batch and its fingerprint are known",
        ),
    ],
)
def test_broken_promises_are_named(methods: dict[str, Any], test: str, promise: str, tmp_path: Path) -> None:
    """A sink that breaks a promise fails the test of it, and is told which."""
    with pytest.raises(AssertionError, match=f"a promise of Sink is broken: {promise}"):
        getattr(broken(**methods), test)(tmp_path)
