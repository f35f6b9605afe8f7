"""Streams that arrive in any order, since a shuffle lies below: their rows are sorted before they go to buckets."""

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.spark.inputs.chains import incoming

pytestmark = pytest.mark.spark
Made = Callable[[DataFrame, DataFrame], DataFrame]

GIVEN: dict[str, Made] = {
    "files": lambda stream, _: stream,
    "columns": lambda stream, _: stream.withColumn("w", F.col("v") + 1).where("v > 0").drop("w"),
    "several rows of one": lambda stream, _: stream.withColumn("w", F.explode(F.array("v", "v"))),
    "a union": lambda stream, _: stream.union(stream),
    "fewer partitions": lambda stream, _: stream.coalesce(1),
    "a table sent to all": lambda stream, table: stream.join(F.broadcast(table), "k"),
}
SHUFFLED: dict[str, Made] = {
    "repartition": lambda stream, _: stream.repartition(3),
    "repartition by key": lambda stream, _: stream.repartition("k"),
    "a sorted join": lambda stream, table: stream.join(table.hint("merge"), "k"),
    "a table that was shuffled": lambda stream, table: stream.join(F.broadcast(table.repartition(2)), "k"),
    "deduplication": lambda stream, _: stream.withWatermark("at", "0 seconds").dropDuplicatesWithinWatermark(
        ["k"]
    ),
    "a union with a part that was": lambda stream, _: stream.union(stream.repartition(2)),
}


def frames(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """A stream and a table."""
    stream = (
        spark.readStream.format("rate")
        .load()
        .selectExpr("timestamp AS at", "value AS v", "cast(value AS string) AS k")
    )
    return stream, spark.range(5).selectExpr("cast(id AS string) AS k", "id AS x")


@pytest.mark.parametrize("made", [*GIVEN, *SHUFFLED])
def test_shuffles_are_seen_in_the_plan(spark: SparkSession, made: str) -> None:
    """A sort is paid for only where rows may arrive in another order when a task runs again."""
    frame = {**GIVEN, **SHUFFLED}[made](*frames(spark))
    assert incoming(frame, "at", 0, takes_updates=False).shuffled == (made in SHUFFLED)


def test_what_follows_an_operator_is_behind_its_shuffle(spark: SparkSession) -> None:
    """A chain of ours, and one that begins with Spark's windows."""
    stream, _ = frames(spark)
    first = (
        SlidingWindows("10 seconds")
        .group_by("k")
        .aggregate(n=agg.count())
        .apply(stream, event_time="at", name="a")
    )
    assert incoming(first.select("*", "window.end"), "end", 0, takes_updates=False).shuffled
    own = stream.withWatermark("at", "0 seconds").groupBy(F.window("at", "1 second"), "k").count()
    timed = own.select("k", "count", F.window_time("window").alias("end"))
    assert incoming(timed, "end", 0, takes_updates=False).shuffled
    assert (
        TumblingWindows("1 minute")
        .group_by("k")
        .aggregate(n=agg.sum("count"))
        .apply(timed, event_time="end")
        .isStreaming
    )
