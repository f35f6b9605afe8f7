"""Sketches that Spark estimates, merges with its own, and reads ranks from."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from operators import TumblingWindows
from operators import aggregates as agg

pytestmark = pytest.mark.spark


def test_spark_estimates_and_merges_sketches(spark: SparkSession) -> None:
    """Of the same values, by windows: a union with Spark's own sketch adds nothing, and unions of windows count once."""
    frame = spark.range(4_000, numPartitions=2).selectExpr(
        "timestamp_millis(id * 10) at",
        "id * 7919 % 3000 l",
        "cast(id % 50 as int) i",
        "if(id % 9 = 0, null, if(id % 10 = 0, '', concat('s', id * 31 % 2500))) s",
        "cast(concat('b', id % 5) as binary) b",
        "id / 4 x",
    )
    sketches = {name: agg.hll_sketch_agg(name) for name in ("l", "i", "s", "b")}
    windows = TumblingWindows("10 seconds").aggregate(**sketches, few=agg.hll_sketch_agg("l", 8))
    found = windows.apply(frame, event_time="at").withColumn("w", F.col("window.start"))
    own = frame.groupBy(F.window("at", "10 seconds").start.alias("w")).agg(
        *(F.hll_sketch_agg(name).alias(f"their_{name}") for name in sketches),
        F.hll_sketch_agg("l", 8).alias("their_few"),
    )
    both = found.join(own, "w").selectExpr(
        "w",
        *(
            f"array(hll_sketch_estimate(hll_union({name}, their_{name})), "
            f"hll_sketch_estimate(hll_union(their_{name}, their_{name})), hll_sketch_estimate({name})) {name}"
            for name in (*sketches, "few")
        ),
    )
    rows = both.collect()
    assert 4 == len(rows)
    for row in rows:
        for name in (*sketches, "few"):
            merged, theirs, ours = row[name]
            assert merged == theirs == ours, name
    (union,) = found.agg(
        *(F.hll_sketch_estimate(F.hll_union_agg(name)).alias(name) for name in sketches)
    ).collect()
    (right,) = frame.agg(
        *(F.count_distinct(F.when(F.length(name) > 0, F.col(name))).alias(name) for name in ("s", "b")),
        *(F.count_distinct(name).alias(name) for name in ("l", "i")),
    ).collect()
    for name in sketches:
        assert union[name] == pytest.approx(right[name], rel=0.06), name


def test_spark_reads_and_merges_samples(spark: SparkSession) -> None:
    """The number of values, ranks, and a merge with its own sketch; a window without values is a sketch without values."""
    frame = spark.range(4_000, numPartitions=2).selectExpr(
        "timestamp_millis(id * 10) at", "if(id < 3000, id * 31 % 1000 / 4, null) x"
    )
    windows = TumblingWindows("10 seconds").aggregate(k=agg.kll_sketch_agg_double("x"))
    found = windows.apply(frame, event_time="at").withColumn("w", F.col("window.start"))
    own = frame.groupBy(F.window("at", "10 seconds").start.alias("w")).agg(
        F.expr("kll_sketch_agg_double(x)").alias("theirs")
    )
    rows = (
        found.join(own, "w")
        .selectExpr(
            "w",
            "kll_sketch_get_n_double(k) n",
            "kll_sketch_get_n_double(kll_sketch_merge_double(k, theirs)) two",
            "if(kll_sketch_get_n_double(k) > 0, kll_sketch_get_quantile_double(k, 0.5D), null) median",
        )
        .orderBy("w")
        .collect()
    )
    assert [(1000, 2000)] * 3 + [(0, 0)] == [(row.n, row.two) for row in rows]
    assert [None] == [row.median for row in rows[3:]]
    for row in rows[:3]:
        assert row.median == pytest.approx(125, abs=250 * 0.03)
