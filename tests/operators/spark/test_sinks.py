"""Streams of windows on update into tables: at the end, a table has the last value of each window."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError
from operators.sinks import Changes, DeltaSink, PostgresSink, Sink, SinkError, SQLiteSink, upsert_to
from tests.effort import slow_but
from tests.operators.sinks.reading import read_delta, read_postgres, read_sqlite
from tests.operators.spark.frames import SCHEMA, operator, stream, use_up, write_source

FILES = 4
NAMES = ["k", "window_start", "window_end", "n", "total", "mean", "low", "high", "spread"]
Table = tuple[Sink, Callable[[pa.Schema], pa.Table]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of records of which sessions grow together from batch to batch."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, FILES, 120, seed=3, disorder_ms=7_000)
    return folder


@pytest.fixture(params=slow_but(["sqlite", "postgres"], ["sqlite", "postgres", "delta"]))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """A sink, and what reads its table."""
    if request.param == "sqlite":
        return SQLiteSink(tmp_path / "t.db", "t"), partial(read_sqlite, tmp_path / "t.db", "t")
    if request.param == "postgres":
        database = request.getfixturevalue("database")
        return PostgresSink(database, "t"), partial(read_postgres, database, "t")
    return DeltaSink(str(tmp_path / "t")), partial(read_delta, tmp_path / "t")


def expected(spark: SparkSession, source: Path, kind: str) -> pa.Table:
    """The windows of the bounded frame, as a table has them."""
    windows = operator(kind=kind).apply(spark.read.schema(SCHEMA).parquet(str(source)), event_time="at")
    bounds = [F.col(f"window.{bound}").alias(f"window_{bound}") for bound in ("start", "end")]
    return windows.select("*", *bounds).drop("window").select(NAMES).toArrow()


def lines(found: pa.Table) -> list[str]:
    """The rows of a table in a fixed order."""
    return sorted(repr(row) for row in found.select(NAMES).to_pylist())


def run(frame: DataFrame, write: Callable[[DataFrame, int], None], checkpoint: Path) -> Any:
    """Write a stream to the end of its input."""
    return use_up(frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint)).start)


def test_a_table_of_sessions_ends_with_their_last_values(
    spark: SparkSession, source: Path, table: Table, tmp_path: Path
) -> None:
    """Retracted sessions are gone; the batches are those of the query's id, and some come twice."""
    sink, read = table
    upsert, batches = upsert_to(sink, keys=["k"]), []

    def twice(rows: DataFrame, batch: int) -> None:
        upsert(rows, batch)
        upsert(rows, batch)
        batches.append(rows.toArrow())

    windows = operator("on_update", "session").apply(stream(spark, source), event_time="at")
    query = run(windows, twice, tmp_path / "checkpoint")
    wanted = expected(spark, source, "session")
    assert lines(wanted) == lines(read(wanted.schema))
    assert sum("retract" in rows["change"].to_pylist() for rows in batches) > 1
    assert FILES - 1 <= sink.last_batch(str(query.id)) < len(batches)


def test_windows_on_close_are_inserted_as_they_close(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """There is no `change`; a query that starts again goes on in the same table, under the same id."""
    sink = SQLiteSink(tmp_path / "t.db", "t")
    windows = operator("on_close").apply(stream(spark, source), event_time="at")
    ids = {str(run(windows, upsert_to(sink, keys=["k"]), tmp_path / "checkpoint").id) for _ in range(2)}
    wanted = expected(spark, source, "sliding")
    found = read_sqlite(tmp_path / "t.db", "t", wanted.schema)
    assert 1 == len(ids)
    assert 50 < found.num_rows < wanted.num_rows
    assert set(lines(found)) < set(lines(wanted))


def test_a_new_checkpoint_under_an_old_name_is_refused(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Its batches would be taken for repeated ones, and never be written."""
    upsert = upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys=["k"], query="flights")
    windows = operator("on_update").apply(stream(spark, source), event_time="at")
    run(windows, upsert, tmp_path / "one")
    with pytest.raises(StreamingQueryException, match="batch 0 of query 'flights' comes after batch"):
        run(windows, upsert, tmp_path / "two")


def test_a_bounded_frame_needs_a_name(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """There is no query; with a name, history goes into a table in one batch."""
    sink = SQLiteSink(tmp_path / "t.db", "t")
    frame = operator().apply(spark.read.schema(SCHEMA).parquet(str(source)), event_time="at")
    with pytest.raises(DefinitionError, match="give the query a name with query="):
        upsert_to(sink, keys=["k"])(frame, 0)
    upsert_to(sink, keys=["k"], query="history")(frame, 0)
    wanted = expected(spark, source, "sliding")
    assert lines(wanted) == lines(read_sqlite(tmp_path / "t.db", "t", wanted.schema))


def test_mistakes_are_refused_where_they_are_made(tmp_path: Path) -> None:
    """Before a query starts."""
    with pytest.raises(DefinitionError, match="upsert_to takes a sink, such as SQLiteSink"):
        upsert_to("results.db", keys=["k"])  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match=r"write keys=\['k'\]"):
        upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys="k")
    with pytest.raises(DefinitionError, match="keys takes column names, not 1"):
        upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys=[1])  # type: ignore[list-item]


def test_a_sink_that_fails_ends_the_query(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """The batch is not done, and comes again."""

    class Full(SQLiteSink):
        def write(self, changes: Changes) -> bool:
            if changes.batch == 1:
                raise SinkError("the disk is full")
            return super().write(changes)

    windows = operator("on_update", "session").apply(stream(spark, source), event_time="at")
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        run(windows, upsert_to(Full(tmp_path / "t.db", "t"), keys=["k"]), tmp_path / "checkpoint")
    run(windows, upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys=["k"]), tmp_path / "checkpoint")
    wanted = expected(spark, source, "session")
    assert lines(wanted) == lines(read_sqlite(tmp_path / "t.db", "t", wanted.schema))
