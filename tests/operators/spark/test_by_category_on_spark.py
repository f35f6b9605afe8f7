"""Aggregates for each value of a column on Spark: what Spark's own grouping makes of the records, in batch and on a stream."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import RollingWindows, TumblingWindows, WindowedAggregation
from operators import aggregates as agg

pytestmark = pytest.mark.spark


def payments(spark: SparkSession) -> DataFrame:
    """Records of two keys and five categories, some of them null, in some minutes."""
    return spark.range(600, numPartitions=3).selectExpr(
        "if(id % 3 = 0, 'a', 'b') k",
        "timestamp_millis(1767600000000 + id * 250) at",
        "if(id % 7 = 0, null, concat('c', id % 5)) c",
        "if(id % 4 = 1, null, cast(id % 11 as int)) v",
        "id % 2 = 0 ok",
    )


def wanted(frame: DataFrame) -> dict[Any, Any]:
    """The maps of each window, by Spark."""
    window = F.window("at", "30 seconds")
    each = frame.where("c is not null").groupBy("k", window.alias("w"), F.upper("c").alias("c"))
    sums = each.agg(F.sum("v").alias("s"), F.max("v").alias("m"), F.count_if("ok").alias("n")).collect()
    found: dict[Any, Any] = {}
    for row in sorted(sums, key=lambda row: row.c):
        maps = found.setdefault((row.k, row.w.start), {"s": {}, "m": {}, "n": {}})
        maps["s"][row.c], maps["m"][row.c] = row.s, row.m
        if row.n:
            maps["n"][row.c] = row.n
    return found


def windows_by_category() -> WindowedAggregation:
    """With an expression as category, which needs a session."""
    category = F.upper("c")
    return (
        TumblingWindows("30 seconds")
        .group_by("k")
        .aggregate(
            s=agg.sum("v").by(category), m=agg.max("v").by(category), n=agg.count(where="ok").by(category)
        )
    )


@pytest.mark.slow
def test_windows_in_batch_and_on_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """With an expression as category: types of Spark, keys in order, and the same rows on a stream."""
    frame = payments(spark)
    right = wanted(frame)
    found = windows_by_category().apply(frame, event_time="at")
    assert "map<string,bigint>" == found.schema["s"].dataType.simpleString()
    assert "map<string,int>" == found.schema["m"].dataType.simpleString()
    # A map that Python gets from the JVM is in no order.
    ordered = found.select("*", *(F.map_keys(name).alias(f"{name}_keys") for name in "smn"))
    rows = {(row.k, row.window.start): row for row in ordered.collect()}
    assert 10 == len(right) == len(rows)
    for key, maps in right.items():
        for name, expected in maps.items():
            assert expected == rows[key][name]
            assert list(expected) == rows[key][f"{name}_keys"]

    for third in range(3):
        source = frame.where(f"pmod(unix_seconds(at), 3) = {third}").coalesce(1)
        source.write.parquet(str(tmp_path / "in"), mode="append")
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
    windows = (
        windows_by_category().emit("on_update").apply(stream.parquet(str(tmp_path / "in")), event_time="at")
    )
    last: dict[Any, Any] = {}

    def note(batch: DataFrame, _: int) -> None:
        for row in batch.collect():
            last[row.k, row.window.start] = {name: row[name] for name in "smn"}

    writer = windows.writeStream.foreachBatch(note).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert right.keys() >= last.keys()
    closed = {key: maps for key, maps in last.items() if key[1] == max(start for _, start in last)}
    assert closed == {key: right[key] for key in closed}
    assert closed


@pytest.mark.slow
def test_labels_have_maps(spark: SparkSession) -> None:
    """As of a time before all records, an empty map; beside records what was there by then."""
    frame = payments(spark)
    op = RollingWindows({"ever": "lifetime"}).group_by("k").aggregate(n=agg.count().by("c"))
    labels = spark.sql(
        "select 'a' k, timestamp'2020-01-01' asked union all select 'a', timestamp'2030-01-01'"
    )
    rows = op.apply_as_of(labels, frame, "asked", "at").orderBy("asked").collect()
    counts = frame.where("k = 'a' and c is not null").groupBy("c").count().collect()
    assert [{}, {row.c: row["count"] for row in counts}] == [row.n_ever for row in rows]
