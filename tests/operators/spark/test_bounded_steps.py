"""Bounded frames on Spark in steps of a few rows, with few groups of keys: the windows of one batch of the local runner."""

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.spark.batch import bounded_input
from operators.spark.batch.bounded import Slicing
from tests.effort import slow, slow_but

pytestmark = pytest.mark.spark
FAR = 10**15
IN_ORDER = agg.fold("", lambda text, v: f"{text},{v}", "v", type="string")
BY_SPARK = {"n": agg.count(), "total": agg.sum("v"), "low": agg.min("v"), "mean": agg.avg("x")}
NOT_BY_SPARK = {
    **BY_SPARK,
    "last": agg.last("v"),
    "spread": agg.variance("x"),
    "values": agg.collect_list("v"),
}
CASES = {
    "sliding": (SlidingWindows("20 ms"), NOT_BY_SPARK),
    "sliding, fold": (SlidingWindows("900 us", tick="1 us"), {"values": IN_ORDER}),
    "hopping by Spark": (HoppingWindows("30 ms", "20 ms"), BY_SPARK),
    "hopping": (HoppingWindows("300 us", "200 us", tick="1 us"), NOT_BY_SPARK),
    "hopping, fold": (HoppingWindows("300 us", "200 us", tick="1 us"), {"values": IN_ORDER}),
    "tumbling by Spark": (TumblingWindows("100 us", tick="1 us"), BY_SPARK),
    "tumbling": (TumblingWindows("100 us", tick="1 us"), NOT_BY_SPARK),
    "session": (SessionWindows("5 ms"), NOT_BY_SPARK),
    "session up to a length": (SessionWindows("700 us", max_length="2 ms", tick="1 us"), NOT_BY_SPARK),
}


@pytest.fixture(autouse=True, scope="module")
def small_steps(spark: SparkSession) -> Iterator[None]:
    """Steps of 7 rows from batches of 5, and four groups of keys."""
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_input, "SLICING", Slicing(rows=7, group_bits=2))
        spark.conf.set(key, 5)
        yield
        spark.conf.set(key, before)


def frame(spark: SparkSession, seed: int) -> DataFrame:
    """A large key and a hundred small ones, from three tasks, without ties of key and time."""
    key = F.when(F.col("id") % 3 == 0, -1).otherwise(F.pmod(F.xxhash64("id", F.lit(seed)), F.lit(100)))
    micros = F.col("id") * 7 + F.pmod(F.xxhash64(F.lit(seed), "id"), F.lit(7))
    rows = spark.range(900).select(
        key.alias("k"), F.timestamp_micros(micros - 3_000).alias("at"), F.pmod("id", F.lit(50)).alias("v")
    )
    return rows.withColumn("x", F.col("v") / 8).repartition(3)


@pytest.mark.slow
@pytest.mark.parametrize("case", slow_but(["sliding, fold"], CASES))
def test_rows_are_those_of_one_batch(spark: SparkSession, case: str) -> None:
    """Whichever stage accumulates them, with and without late records asked for."""
    windows, results = CASES[case]
    operator = windows.group_by("k").aggregate(**results)
    rows = frame(spark, seed=len(case))
    with operator.local_runner(event_time="at") as runner:
        expected = runner.process(rows.toArrow(), stream_time=FAR)
    found = operator.apply(rows, event_time="at").toArrow().cast(expected.schema)
    assert sorted(map(repr, expected.to_pylist())) == sorted(map(repr, found.to_pylist()))
    both = operator.apply_with_late(rows, event_time="at")
    assert sorted(map(repr, expected.to_pylist())) == sorted(
        map(repr, both.windows.toArrow().cast(expected.schema).to_pylist())
    )
    assert 0 == both.late.count()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sliding", slow("tumbling"), slow("session")])
def test_cogrouped_frames(spark: SparkSession, kind: str) -> None:
    """Each frame's rows come from tasks of their own."""
    joint = CASES[kind][0].group_by("k").cogroup(a=NOT_BY_SPARK, b={"other": agg.max("v"), "m": agg.count()})
    a, b = frame(spark, 1), frame(spark, 2)
    with joint.local_runner("at") as runner:
        expected = runner.process({"a": a.toArrow(), "b": b.toArrow()}, stream_time=FAR)
    found = joint.apply({"a": a, "b": b}, "at").toArrow().cast(expected.schema)
    assert sorted(map(repr, expected.to_pylist())) == sorted(map(repr, found.to_pylist()))
