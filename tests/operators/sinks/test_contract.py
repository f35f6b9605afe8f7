"""The shipped contract suite on the sinks that are shipped."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators.sinks import DeltaSink, PostgresSink, Sink, SQLiteSink
from operators.sinks.contract import SinkContract
from tests.operators.sinks.reading import read_delta, read_postgres, read_sqlite


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
