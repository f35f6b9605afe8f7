"""append_to and history_and_stream on both formats."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from operators import DefinitionError, TumblingWindows
from operators import aggregates as agg
from operators.sinks import SinkError, append_to, history_and_stream, merge_to
from operators.sinks.lake import Batch, write_once
from operators.sinks.lake_tables import lake_table
from tests.lake.conftest import Place
from tests.lake.test_merge import NINE, SIMPLE, commits, window

pytestmark = pytest.mark.usefixtures("spark")
ROLLING = "card string, at timestamp, n_1h bigint"


def test_each_batch_is_appended_once(spark: SparkSession, table: Place) -> None:
    """Rows of windows with equal keys stay side by side; a repetition makes no commit, what is none is refused."""
    append = append_to(table.name, query="q")
    rows = spark.createDataFrame(
        [("ann", window(0), 1), ("ann", window(0), 1), (None, (None, None), 2)], SIMPLE
    )
    append(rows, 0)
    append(rows.limit(0), 1)
    append(rows, 2)
    before = commits(table)
    append(rows, 2)
    assert before == commits(table)
    assert [("ann", 1)] * 4 + [(None, 2)] * 2 == table.rows("user", "n")
    with pytest.raises(SinkError, match="batch 2 of query 'q' is in the table already, with other rows"):
        append(rows.limit(1), 2)
    with pytest.raises(SinkError, match="batch 1 of query 'q' comes after batch 2"):
        append(rows, 1)
    with pytest.raises(SinkError, match="has no columns more"):
        append(rows.selectExpr("*", "1 as more"), 3)
    with pytest.raises(DefinitionError, match="the rows have the column 'change'"):
        append(rows.selectExpr("*", "'update' as change"), 3)


def test_a_number_that_is_gone(spark: SparkSession, table: Place) -> None:
    """Iceberg loses it with its snapshots: the batch is refused. Delta keeps it, and says so where its history does not."""
    append = append_to(table.name, query="q")
    rows = spark.createDataFrame([("a", NINE, 1)], ROLLING)
    append(rows, 0)
    if table.format == "iceberg":
        other = spark.createDataFrame([("b", NINE, 1)], ROLLING)
        append_to(table.name, query="other")(other, 0)
        name = table.name.removeprefix("lake.")
        expired = f"table => '{name}', older_than => now(), retain_last => 1"
        spark.sql(f"CALL lake.system.expire_snapshots({expired})").collect()
        with pytest.raises(SinkError, match="that had the batches of query 'q' have expired"):
            append(rows, 0)
        assert 2 == len(table.rows())
        return
    place = lake_table(spark, table.name, None)[0]
    again = f"INSERT INTO {table.name} SELECT * FROM {table.name}"
    with place.noted(place.notes("q")[0]):
        spark.sql(again).collect()
    assert 1 == len(table.rows())
    for log in (table.path / "_delta_log").glob("0*1.json"):
        log.write_text(log.read_text().replace("attempt", "nothing"))
        (log.parent / f".{log.name}.crc").unlink(missing_ok=True)
    assert [] == place.notes("q")
    with pytest.raises(SinkError, match="its history does not say"):
        write_once(place, Batch("q", 0, None), lambda: 7, lambda: spark.sql(again).collect(), appends=True)


def test_history_and_the_stream_after_it(spark: SparkSession, table: Place, tmp_path: Path) -> None:
    """No record is missed or counted twice, wherever the table is cut, and after a restart."""
    append = append_to(table.name, query="q")

    def commit(batch: int) -> None:
        at = [NINE + timedelta(seconds=7 * (batch * 5 + number)) for number in range(5)]
        append(
            spark.createDataFrame([(f"k{number % 2}", at[number], number) for number in range(5)], ROLLING),
            batch,
        )

    commit(0)
    newest = lake_versions(spark, table)[-1]
    with pytest.raises(DefinitionError, match="nothing was committed to table"):
        history_and_stream(spark, table.name, newest)
    for batch in range(1, 4):
        commit(batch)
    op = (
        TumblingWindows("10 seconds")
        .group_by("card")
        .aggregate(n=agg.count(), total=agg.sum("n_1h"))
        .emit("on_close")
    )
    versions = lake_versions(spark, table)
    everything = counted(op.apply(spark.table(table.name), "at"))
    for name, version in (("early", versions[-3]), ("default", None)):
        cut = history_and_stream(spark, table.name, version)
        assert cut.version == versions[-3 if version else -2]
        assert (10 if version else 15) == cut.history.count()
        close = NINE + timedelta(seconds=30)
        final = counted(op.apply(cut.history, "at", close_time=close))
        saved = op.savepoint(cut.history, "at", tmp_path / f"{name}-saved", close)
        out = op.apply(cut.stream, "at", options={"state.savepoint": saved.uri})
        if name == "default":
            ran(out, tmp_path / name)
            commit(4)
            everything = counted(op.apply(spark.table(table.name), "at"))
            out = op.apply(
                history_and_stream(spark, table.name).stream, "at", options={"state.savepoint": saved.uri}
            )
        ran(out, tmp_path / name)
        emitted = counted(spark.read.parquet(str(tmp_path / name / "out")))
        seen = final + emitted
        assert len(seen) == len({*seen})
        assert {*seen} <= {*everything}
        last = max(start for _, start, *_ in seen)
        assert {row for row in everything if row[1] <= last} == {*seen}
        assert last > NINE.replace(tzinfo=None) + timedelta(seconds=90)


def lake_versions(spark: SparkSession, table: Place) -> list[int]:
    """Versions or snapshots, the oldest first."""
    if table.format == "delta":
        return sorted(
            row[0] for row in spark.sql(f"DESCRIBE HISTORY {table.name}").select("version").collect()
        )
    rows = spark.sql(f"SELECT snapshot_id FROM {table.name}.snapshots ORDER BY committed_at").collect()
    return [row[0] for row in rows]


@pytest.mark.parametrize("table", ["iceberg"], indirect=True)
def test_snapshots_of_one_time_are_no_cut(spark: SparkSession, table: Place) -> None:
    """Iceberg would start the stream after both of them: the records of the second one would be missed."""
    for batch in range(3):
        append_to(table.name, query="q")(spark.createDataFrame([("a", NINE, batch)], ROLLING), batch)
    path = table.path / "metadata" / table.newest()
    metadata = json.loads(path.read_text())
    first, second, _ = metadata["snapshots"]
    second["timestamp-ms"] = first["timestamp-ms"]
    path.write_text(json.dumps(metadata))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    spark.sql(f"REFRESH TABLE {table.name}")
    with pytest.raises(DefinitionError, match="have the same time, or go back in time"):
        history_and_stream(spark, table.name, first["snapshot-id"])
    assert second["snapshot-id"] == history_and_stream(spark, table.name).version


def counted(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((row["card"], row["window"]["start"], row["n"], row["total"]) for row in frame.collect())


def ran(out: DataFrame, folder: Path) -> None:
    query = (
        out.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()


def test_tables_whose_rows_are_replaced_are_refused(spark: SparkSession, table: Place) -> None:
    """By name: those of merge_to, and those that somebody has changed after the cut."""
    rows = spark.createDataFrame([("ann", window(0), 1)], SIMPLE)
    merge_to(table.name, keys=["user"], query="q")(rows, 0)
    with pytest.raises(DefinitionError, match="is kept by merge_to or upsert_to"):
        history_and_stream(spark, table.name)
    if table.format == "iceberg":
        name = f"{table.name}_2"
        append = append_to(name, query="q")
        for batch in range(3):
            append(rows, batch)
        spark.sql(f"DELETE FROM {name} WHERE n = 1")
        with pytest.raises(
            DefinitionError, match=r"is of the kind '(delete|overwrite)': a stream has appended rows only"
        ):
            history_and_stream(spark, name)
