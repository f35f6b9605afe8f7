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

from operators import DefinitionError, what_failed
from operators.sinks import Changes, DeltaSink, PostgresSink, Sink, SinkError, SQLiteSink, Upsert, upsert_to
from tests.operators.sinks.postgres_server import programs
from tests.operators.sinks.reading import read_delta, read_postgres, read_sqlite
from tests.operators.spark.frames import SCHEMA, operator, stream, use_up, write_numbered, write_source

FILES = 3
NAMES = ["k", "window_start", "window_end", "n", "total", "mean", "low", "high", "spread"]
Table = tuple[Sink, Callable[[pa.Schema], pa.Table]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of records of which sessions grow together from batch to batch."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, FILES, 120, seed=3, disorder_ms=7_000)
    return folder


@pytest.fixture
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> list[Table]:
    """Every sink, with what reads its table; PostgreSQL only where a server is installed."""
    made: list[Table] = [
        (SQLiteSink(tmp_path / "t.db", "t"), partial(read_sqlite, tmp_path / "t.db", "t")),
        (DeltaSink(str(tmp_path / "t")), partial(read_delta, tmp_path / "t")),
    ]
    if programs() is None:
        return made
    database = request.getfixturevalue("database")
    return [*made, (PostgresSink(database, "t"), partial(read_postgres, database, "t"))]


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


@pytest.mark.slow
def test_tables_of_sessions_end_with_their_last_values(
    spark: SparkSession, source: Path, tables: list[Table], tmp_path: Path
) -> None:
    """Retracted sessions are gone; the batches are those of the query's id, and all come twice."""
    batches = []

    def write(rows: DataFrame, batch: int) -> None:
        rows.persist()
        for sink, _ in tables * 2:
            upsert_to(sink, keys=["k"])(rows, batch)
        batches.append(rows.toArrow())
        rows.unpersist()

    windows = operator("on_update", "session").apply(stream(spark, source), event_time="at")
    query = run(windows, write, tmp_path / "checkpoint")
    wanted = expected(spark, source, "session")
    assert sum("retract" in rows["change"].to_pylist() for rows in batches) > 0
    for sink, read in tables:
        assert lines(wanted) == lines(read(wanted.schema))
        assert FILES - 1 <= sink.last_batch(str(query.id)).number < len(batches)


@pytest.mark.slow
def test_a_name_belongs_to_a_checkpoint(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """A query goes on where it was; batches of a new checkpoint would be taken for repeated ones, and are refused."""
    upsert = upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys=["k"], query="flights")
    windows = operator("on_close").apply(stream(spark, source), event_time="at")
    for _ in range(2):
        run(windows, upsert, tmp_path / "one")
    wanted = expected(spark, source, "sliding")
    found = read_sqlite(tmp_path / "t.db", "t", wanted.schema)
    assert 20 < found.num_rows < wanted.num_rows
    assert set(lines(found)) < set(lines(wanted))
    with pytest.raises(StreamingQueryException, match="batch 0 of query 'flights' comes after batch"):
        run(windows, upsert, tmp_path / "two")


def numbered(folder: Path, *values: int) -> Path:
    """A folder with a file of rows, each of a key of its own."""
    folder.mkdir()
    rows = pa.table({"k": pa.array(range(len(values)), pa.int64()), "v": pa.array(values, pa.int64())})
    write_numbered(rows, folder, 0)
    return folder


def held(path: Path) -> list[tuple[int, int]]:
    """The rows of the table `t`."""
    found = read_sqlite(path, "t", pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.slow
def test_the_first_batch_of_another_checkpoint_is_no_repetition(spark: SparkSession, tmp_path: Path) -> None:
    """It has the number of the last one, if the query before it had a single batch; after a restart, that one is known."""
    upsert = upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys=["k"], query="flights")
    frame = spark.readStream.schema("k bigint, v bigint").parquet(str(numbered(tmp_path / "in", 1, 2)))
    run(frame, upsert, tmp_path / "one")
    (tmp_path / "one" / "commits" / "0").unlink()
    (tmp_path / "one" / "commits" / ".0.crc").unlink(missing_ok=True)
    run(frame.withColumn("v", F.col("v") + 5), upsert, tmp_path / "one")
    assert [(0, 1), (1, 2)] == held(tmp_path / "t.db")
    message = "batch 0 of query 'flights' is in the table already, from another checkpoint"
    with pytest.raises(StreamingQueryException, match=message):
        run(frame, upsert, tmp_path / "two")


@pytest.mark.slow
def test_what_fails_in_a_table_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """The message of the sink's error and nothing else, in whatever way it came about; also of a key that is missing."""

    class Full(SQLiteSink):
        def write(self, changes: Changes) -> bool:
            raise OSError("no space left\n\nat all") from KeyError("cause")

    frame = spark.readStream.schema("k bigint, v bigint").parquet(str(numbered(tmp_path / "in", 1, 2)))
    (tmp_path / "t.db").mkdir()
    path = tmp_path / "t.db"
    told = {}
    for name, (sink, key) in {
        "folder": (lambda: SQLiteSink(path, "t"), "k"),
        "full": (lambda: Full(tmp_path / "full.db", "t"), "k"),
        "key": (lambda: SQLiteSink(tmp_path / "key.db", "t"), "id"),
    }.items():

        def write(rows: DataFrame, batch: int, sink: Any = sink, key: str = key) -> None:
            Upsert(sink(), (key,), "visits")(rows, batch)

        with pytest.raises(StreamingQueryException) as caught:
            run(frame, write, tmp_path / name)
        told[name] = what_failed(caught.value)
    assert {
        "folder": f"{path} is not a file of SQLite: give another path",
        "full": f"batch 0 of query 'visits' was not written by {Full(tmp_path / 'full.db', 't')!r}: OSError: no space left"
        "\n\nat all",
        "key": "key column 'id' does not exist; the rows have the columns k, v",
    } == told


@pytest.mark.slow
def test_a_bounded_frame_with_other_rows_is_no_repetition(spark: SparkSession, tmp_path: Path) -> None:
    """The same rows are one, in whatever order they come; others under the same name and number are refused."""
    upsert = upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys=["k"], query="history")
    frame = spark.createDataFrame([(0, 1), (1, 2), (2, None)], "k bigint, v bigint")
    for again in (frame, frame.orderBy(F.desc("k")), frame.select("v", "k")):
        upsert(again, 0)
    other = frame.withColumn("v", F.coalesce("v", F.lit(3)))
    with pytest.raises(
        SinkError, match="batch 0 of query 'history' is in the table already, with other rows"
    ):
        upsert(other, 0)
    assert [(0, 1), (1, 2), (2, None)] == held(tmp_path / "t.db")
    upsert(other, 1)
    assert [(0, 1), (1, 2), (2, 3)] == held(tmp_path / "t.db")


@pytest.mark.slow
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
    with pytest.raises(DefinitionError, match="query takes a name of at least one character, not ''"):
        upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys=["k"], query="")
