"""Tables of Delta and Iceberg that go back, whose commits expire, that have other partitions, or are read elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, QueryBuilder, Schema
from deltalake.schema import PrimitiveType
from pyspark.sql import DataFrame, SparkSession

from operators.sinks import SinkError, append_to, merge_to
from operators.sinks.lake import Batch, merge, write_once
from operators.sinks.lake_rows import pinned
from operators.sinks.lake_tables import lake_table
from tests.lake.conftest import Place
from tests.lake.test_merge import NINE, SIMPLE, commits, merged, window

pytestmark = pytest.mark.usefixtures("spark")
FLAT = "user string, window_start timestamp, window_end timestamp, n bigint"


@pytest.fixture
def in_zone(spark: SparkSession) -> Iterator[Any]:
    """Sets the session's zone until the test ends."""
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_table_that_goes_back(spark: SparkSession, table: Place) -> None:
    """The last batch comes again: Iceberg gets its rows, Delta keeps the number; the next batch is written in both."""
    for batch in range(2):
        merged(table, [("ann", window(0), batch)], batch)
    if table.format == "delta":
        spark.sql(f"RESTORE TABLE {table.name} TO VERSION AS OF 1").collect()
    else:
        name = table.name.removeprefix("lake.")
        first = spark.sql(f"SELECT snapshot_id FROM {table.name}.snapshots WHERE parent_id IS NULL").first()
        assert first is not None
        spark.sql(f"CALL lake.system.rollback_to_snapshot('{name}', {first[0]})").collect()
    assert [(0,)] == table.rows("n")
    merged(table, [("ann", window(0), 1)], 1)
    assert [(0,) if table.format == "delta" else (1,)] == table.rows("n")
    merged(table, [("ann", window(0), 2)], 2)
    assert [(2,)] == table.rows("n")


def test_a_merge_whose_number_has_expired(spark: SparkSession, table: Place) -> None:
    """Iceberg merges the batch again, to the same rows; Delta's history has the number when its transaction is gone."""
    if table.format == "delta":
        properties = "'delta.setTransactionRetentionDuration' = 'interval 0 seconds'"
        spark.sql(f"CREATE TABLE {table.name} ({FLAT}) USING delta TBLPROPERTIES ({properties})")
    rows = [("ann", window(0), 1), ("bob", window(0), 1)]
    merged(table, rows)
    merged(table, [("eve", window(0), 1)], query="other")
    if table.format == "iceberg":
        expire(spark, table)
    before = table.rows(), commits(table)
    merged(table, rows)
    assert before[0] == table.rows()
    assert before[1] + (table.format == "iceberg") == commits(table)


def expire(spark: SparkSession, table: Place) -> None:
    """Remove what is not of the newest version."""
    if table.format == "iceberg":
        options = f"table => '{table.name.removeprefix('lake.')}', older_than => now(), retain_last => 1"
        spark.sql(f"CALL lake.system.expire_snapshots({options})").collect()
        return
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM {table.name} RETAIN 0 HOURS").collect()
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")


def test_a_batch_that_finds_nothing_to_change(table: Place) -> None:
    """Retracts of windows that are not there: whether the format commits it or not, it may come again, and others follow."""
    schema = SIMPLE + ", change string"
    merged(table, [("ann", window(0), 0, "update")], 0, schema)
    for _ in range(2):
        merged(table, [("bob", window(0), 0, "retract")], 1, schema)
    merged(table, [("ann", window(0), 2, "update")], 2, schema)
    assert [("ann", 2)] == table.rows("user", "n")


def test_a_driver_that_stood_still_before_its_statement(spark: SparkSession, table: Place) -> None:
    """Another driver of the query has gone on meanwhile: the older batch is refused, and changes nothing."""
    merged(table, [("ann", window(0), 0)])
    place = lake_table(spark, table.name, None)[0]
    rows = pinned(spark.createDataFrame([("ann", window(0), 1)], SIMPLE), ["user"])
    other = spark.newSession()

    def write() -> Any:
        for batch in (1, 2):
            newer = other.createDataFrame([("ann", window(0), batch)], SIMPLE)
            merge_to(table.name, keys=["user"], query="visits")(newer, batch)
        return merge(place, rows, with_day=table.format == "delta")

    with pytest.raises(
        SinkError, match=r"batch 1 of query 'visits' comes after batch 2|'visits' wrote batch 2 into"
    ):
        write_once(place, Batch("visits", 1, None), rows.fingerprint, write)
    rows.unpin()
    assert [(2,)] == table.rows("n")


@pytest.mark.parametrize("column", ["day", "window_day"])
@pytest.mark.parametrize("table", ["delta"], indirect=True)
def test_days_that_delta_generates(spark: SparkSession, table: Place, in_zone: Any, column: str) -> None:
    """From casts in the session's zone: a window is found again, wherever the session is."""
    create_generated(table, column)
    for batch, zone in enumerate(("America/Los_Angeles", "Australia/Melbourne", "UTC")):
        in_zone(zone)
        merged(table, [("ann", window(-0.2), batch), ("ann", window(0.5), batch)], batch)
        assert zone == spark.conf.get("spark.sql.session.timeZone")
    assert [("2026-01-05", 2), ("2026-01-05", 2)] == [(str(day), n) for day, n in table.rows(column, "n")]


def create_generated(table: Place, column: str) -> None:
    """Create a table that is partitioned by a generated day, for which Spark's SQL has no words."""
    day = {"delta.generationExpression": "CAST(window_start AS DATE)"}
    types = {"user": "string", "window_start": "timestamp", "window_end": "timestamp", "n": "long"}
    fields = [Field(name, PrimitiveType(type_)) for name, type_ in types.items()]
    fields.append(Field(column, PrimitiveType("date"), metadata=day))
    DeltaTable.create(table.path, schema=Schema(fields), partition_by=[column])


@pytest.mark.parametrize(
    ("table", "properties"),
    [
        ("delta", "'delta.enableDeletionVectors' = 'true'"),
        ("iceberg", "'format-version' = '2', 'write.merge.mode' = 'merge-on-read'"),
        ("iceberg", "'format-version' = '3', 'write.merge.mode' = 'merge-on-read'"),
    ],
    indirect=["table"],
    ids=["delta", "iceberg-2", "iceberg-3"],
)
def test_rows_that_are_only_marked_as_deleted(spark: SparkSession, table: Place, properties: str) -> None:
    """Deletion vectors and deletes that are merged on read: another engine reads what the changes say."""
    spark.sql(f"CREATE TABLE {table.name} ({FLAT}) USING {table.format} TBLPROPERTIES ({properties})")
    schema = SIMPLE + ", change string"
    merged(table, [(f"u{n}", window(0), n, "update") for n in range(50)], 0, schema)
    merged(table, [("u1", window(0), 100, "update"), ("u2", window(0), 2, "retract")], 1, schema)
    marked = [
        path
        for path in table.path.rglob("*")
        if path.name.startswith("deletion_vector") or "-deletes" in path.name
    ]
    assert marked
    found = {(row["user"], row["n"]) for row in read(table)}
    assert {(f"u{n}", n) for n in range(50)} - {("u1", 1), ("u2", 2)} | {("u1", 100)} == found


def read(table: Place) -> list[dict[str, Any]]:
    """The rows as another engine reads them that knows deletion vectors."""
    if table.format == "iceberg":
        return table.table().to_pylist()
    reader = QueryBuilder().register("read", DeltaTable(table.path)).execute('SELECT "user", n FROM read')
    return pa.RecordBatchReader.from_stream(reader).read_all().to_pylist()


def test_what_is_left_of_a_forgotten_key(spark: SparkSession, table: Place) -> None:
    """Its rows until VACUUM or the expiry of snapshots; the query goes on."""
    merged(table, [("SECRET", window(0), 0), ("ann", window(0), 0)])
    spark.sql(f"DELETE FROM {table.name} WHERE user = 'SECRET'").collect()
    assert [("ann",)] == table.rows("user")
    assert "SECRET" in users(table)
    expire(spark, table)
    assert ["ann"] == users(table)
    merged(table, [("ann", window(0), 1)], 1)
    assert [("ann", 1)] == table.rows("user", "n")
    log = [path for path in table.path.rglob("*") if path.is_file() and b"SECRET" in path.read_bytes()]
    assert (table.format == "delta") == bool(log), log


def users(table: Place) -> list[str]:
    """What files of the table have, current or not."""
    files = [path for path in table.path.rglob("*.parquet") if "_delta_log" not in path.parts]
    return sorted(user for path in files for user in pq.ParquetFile(path).read()["user"].to_pylist())


@pytest.fixture
def ran(spark: SparkSession, tmp_path: Path) -> Any:
    """Runs a query that writes with Spark's own sink."""

    def run(table: Place) -> None:
        frame: DataFrame = spark.readStream.schema(FLAT).parquet(str(tmp_path / "in"))
        writer = frame.writeStream.format(table.format).option("checkpointLocation", str(tmp_path / "c"))
        writer = writer.trigger(availableNow=True)
        query = writer.toTable(table.name) if table.format == "iceberg" else writer.start(str(table.path))
        query.awaitTermination()

    return run


def test_sparks_own_sinks_write_a_batch_once(
    spark: SparkSession, table: Place, ran: Any, tmp_path: Path
) -> None:
    """Where nothing has to be merged, and the query writes nothing else: a batch whose end Spark did not note comes again."""
    if table.format == "iceberg":
        spark.sql(f"CREATE TABLE {table.name} ({FLAT}) USING iceberg")
    for batch in range(2):
        rows = spark.createDataFrame([("ann", NINE, NINE, batch)], FLAT)
        rows.write.mode("append").parquet(str(tmp_path / "in"))
        ran(table)
    for path in (tmp_path / "c/commits").glob("*1*"):
        path.unlink()
    ran(table)
    assert [(0,), (1,)] == table.rows("n")


@pytest.mark.parametrize("table", ["delta"], indirect=True)
def test_changes_of_a_delta_table_as_a_stream(spark: SparkSession, table: Place) -> None:
    """Its feed has updates and deletes as rows, which are no records: the page keeps what was inserted."""
    feed = "'delta.enableChangeDataFeed' = 'true'"
    spark.sql(f"CREATE TABLE {table.name} (card string, n bigint) USING delta TBLPROPERTIES ({feed})")
    append_to(table.name, query="q")(spark.createDataFrame([("a", 1), ("b", 2)], "card string, n bigint"), 0)
    spark.sql(f"UPDATE {table.name} SET n = 3 WHERE card = 'a'").collect()
    spark.sql(f"DELETE FROM {table.name} WHERE card = 'b'").collect()
    options = {"readChangeFeed": "true", "startingVersion": "0"}
    stream = spark.readStream.format("delta").options(**options).load(str(table.path))
    for name, frame in (("all", stream), ("new", stream.where("_change_type = 'insert'"))):
        query = (
            frame.writeStream.format("memory").queryName(f"feed_{name}").trigger(availableNow=True).start()
        )
        query.awaitTermination()
    kinds = {row[0] for row in spark.sql("SELECT _change_type FROM feed_all").collect()}
    assert {"insert", "update_preimage", "update_postimage", "delete"} == kinds
    assert {("a", 1), ("b", 2)} == {tuple(row) for row in spark.sql("SELECT card, n FROM feed_new").collect()}


def test_a_batch_that_two_drivers_append(spark: SparkSession, table: Place) -> None:
    """Iceberg's appends do not conflict: who comes second says so. Delta skips it."""
    append_to(table.name, query="q")(spark.createDataFrame([("ann", window(0), 0)], SIMPLE), 0)
    place = lake_table(spark, table.name, None)[0]
    other = spark.newSession()

    def write() -> Any:
        append_to(table.name, query="q")(other.createDataFrame([("bob", window(0), 1)], SIMPLE), 1)
        return spark.sql(f"INSERT INTO {table.name} SELECT * FROM {table.name}").collect()

    with pytest.raises(SinkError, match="another run of query 'q' wrote batch 1 into"):
        write_once(place, Batch("q", 1, None), lambda: 7, write, appends=True)
    assert (2 if table.format == "delta" else 3) == len(table.rows("n"))
