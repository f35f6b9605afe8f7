"""Sketches that Spark estimates, merges with its own, and reads ranks from."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from operators import TumblingWindows
from operators import aggregates as agg

pytestmark = pytest.mark.spark


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_sketches_of_spark_are_united(spark: SparkSession) -> None:
    """A column of Spark's own, of few values and of many: Spark finds in the union what it finds in its own."""
    frame = spark.range(12_000, numPartitions=2).selectExpr(
        "id % 3 part", "id % 4000 * if(id % 3 = 0, 1, 2) v", "cast(id % 3000 / 4 as double) x"
    )
    made = frame.groupBy((F.col("v") % 40).alias("few"), "part").agg(
        F.hll_sketch_agg("v").alias("h"),
        F.hll_sketch_agg("v", 14).alias("finer"),
        F.expr("kll_sketch_agg_double(x)").alias("d"),
        F.expr("kll_sketch_agg_float(cast(x as float))").alias("f"),
        F.expr("kll_sketch_agg_bigint(v)").alias("l"),
    )
    one = frame.agg(
        F.lit(0).alias("few"),
        F.lit(9).alias("part"),
        *(F.lit(None).cast("binary").alias(name) for name in ("h", "finer", "d", "f", "l")),
    )
    column = made.unionByName(one).withColumn("at", F.timestamp_millis(F.col("part") * 1_000)).cache()
    windows = TumblingWindows("1 second").aggregate(
        h=agg.hll_union_agg("h"),
        finer=agg.hll_union_agg("finer"),
        d=agg.kll_merge_agg_double("d"),
        f=agg.kll_merge_agg_float("f"),
        l=agg.kll_merge_agg_bigint("l"),
    )
    ours = windows.apply(column, event_time="at").withColumn("w", F.col("window.start"))
    theirs = column.groupBy(F.window("at", "1 second").start.alias("w")).agg(
        F.hll_union_agg("h").alias("their_h")
    )
    rows = (
        ours.join(theirs, "w")
        .selectExpr(
            "hll_sketch_estimate(h) n",
            "hll_sketch_estimate(hll_union(h, their_h)) both",
            "hll_sketch_estimate(finer) finer",
            "kll_sketch_get_n_double(d) n_double",
            "kll_sketch_get_n_float(f) n_float",
            "kll_sketch_get_n_bigint(l) n_bigint",
            "if(kll_sketch_get_n_bigint(l) > 0, kll_sketch_get_quantile_bigint(l, 0.5D), null) middle",
        )
        .orderBy("w")
        .collect()
    )
    assert 4 == len(rows)
    assert (0, 0, 0, 0) == (rows[3].n, rows[3].n_double, rows[3].n_float, rows[3].n_bigint)
    for row in rows[:3]:
        assert row.n == row.both == pytest.approx(4_000, rel=0.05)
        assert row.finer == pytest.approx(row.n, rel=0.05)
        assert (4_000,) * 3 == (row.n_double, row.n_float, row.n_bigint)
    assert [2_000, 4_000, 4_000] == [pytest.approx(row.middle, rel=0.06) for row in rows[:3]]


def test_spark_reads_samples_of_floats_and_of_whole_numbers(spark: SparkSession) -> None:
    """Numbers of 64 bits that no double has are in them."""
    frame = spark.range(3_000, numPartitions=2).selectExpr(
        "timestamp_millis(id) at", "4611686018427387904 + id * 2 + 1 v", "cast(id as float) f"
    )
    windows = TumblingWindows("10 seconds").aggregate(
        l=agg.kll_sketch_agg_bigint("v"), f=agg.kll_sketch_agg_float("f")
    )
    row = (
        windows.apply(frame, event_time="at")
        .selectExpr(
            "kll_sketch_get_n_bigint(l) n",
            "kll_sketch_get_quantile_bigint(l, 0.5D) - 4611686018427387904 middle",
            "kll_sketch_get_n_float(f) m",
            "kll_sketch_get_quantile_float(f, 0.5D) half",
        )
        .collect()[0]
    )
    assert (3_000, 3_000, 1) == (row.n, row.m, row.middle % 2)
    assert row.middle == pytest.approx(3_000, abs=180)
    assert row.half == pytest.approx(1_500, abs=90)
