"""Streams of which only some have a `withWatermark`, united, joined or co-grouped: Spark's watermark alone counts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError, TumblingWindows
from operators import aggregates as agg
from operators.spark.inputs.chains import incoming
from tests.operators.spark.frames import BASE_US, run_query, stream, write_numbered

pytestmark = pytest.mark.spark
Plan = Callable[[DataFrame, DataFrame], DataFrame]
WINDOWS = TumblingWindows("1 second").group_by("k")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two files a source, each a batch; the times of the fast one are an hour ahead."""
    folder = tmp_path_factory.mktemp("united")
    for name, ahead_s in (("slow", 0), ("fast", 3_600)):
        (folder / name).mkdir()
        for number in range(2):
            at = pa.array([BASE_US + (ahead_s + number) * 1_000_000], pa.timestamp("us", "UTC"))
            write_numbered(pa.table({"k": ["a"], "at": at, "v": [1], "x": [1.0]}), folder / name, number)
    return {name: folder / name for name in ("slow", "fast")}


def both(spark: SparkSession, sources: dict[str, Path]) -> tuple[DataFrame, DataFrame]:
    """The slow and the fast stream."""
    slow, fast = (stream(spark, path) for path in sources.values())
    return slow, fast


def timed(frame: DataFrame) -> DataFrame:
    """A stream with a watermark that fits windows without grace."""
    return frame.withWatermark("at", "0 seconds")


def late(query: Any) -> int:
    return sum(batch.observedMetrics["windows_out"]["counts"]["late"] for batch in query.recentProgress)


@pytest.mark.slow
def test_records_of_the_stream_with_the_watermark_are_not_late(
    spark: SparkSession, sources: dict[str, Path], tmp_path: Path
) -> None:
    """The other stream is an hour ahead, and its times close nothing; at the end the slow one's first window is closed."""
    slow, fast = both(spark, sources)
    out = WINDOWS.aggregate(n=agg.count()).apply(timed(slow).union(fast), "at")
    query = run_query(out, tmp_path / "out", tmp_path / "checkpoint")
    assert 0 == late(query)
    assert [1] == [row.n for row in spark.read.parquet(str(tmp_path / "out")).collect()]


@pytest.mark.slow
def test_nor_where_such_a_union_is_a_side_of_a_cogroup(
    spark: SparkSession, sources: dict[str, Path], tmp_path: Path
) -> None:
    slow, fast = both(spark, sources)
    op = WINDOWS.cogroup(united={"n": agg.count()}, other={"m": agg.count()})
    out = op.apply({"united": timed(slow).union(fast), "other": stream(spark, sources["fast"])}, "at")
    query = run_query(out, tmp_path / "out", tmp_path / "checkpoint")
    assert 0 == late(query)
    assert [(1, 0)] == [(row.n, row.m) for row in spark.read.parquet(str(tmp_path / "out")).collect()]


PLANS: dict[str, tuple[Plan, bool]] = {
    "on the left of a union": (lambda slow, fast: timed(slow).union(fast), False),
    "before a filter": (lambda slow, fast: timed(slow).union(fast).where("v > 0"), False),
    "two levels": (lambda slow, fast: timed(slow).union(fast).union(fast), False),
    "two levels, on the right": (lambda slow, fast: timed(slow).union(fast.union(fast)), False),
    "below a join": (lambda slow, _: timed(slow).join(bounded(slow), "k"), False),
    "on both": (lambda slow, fast: timed(slow).union(timed(fast)), False),
    "on a union": (lambda slow, fast: timed(slow.union(fast)), True),
    "on a join": (lambda slow, _: timed(slow.join(bounded(slow), "k")).repartition(2), True),
    "on a stream": (lambda slow, _: timed(slow).where("v > 0"), True),
}
REFUSED: dict[str, Plan] = {
    "on the right of a union": lambda slow, fast: fast.union(timed(slow)),
    "on the right, two levels": lambda slow, fast: fast.union(timed(slow).union(fast)),
    "in the middle": lambda slow, fast: fast.union(timed(slow)).union(fast),
    "on another column": lambda slow, _: slow.withColumn("b", F.col("at")).withWatermark("b", "1 second"),
    "before an expression": lambda slow, _: timed(slow).withColumn("at", F.expr("at + interval 1 hour")),
}


def bounded(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.createDataFrame([("a", 1)], "k string, w int")


@pytest.mark.parametrize("name", PLANS)
def test_only_a_watermark_on_all_rows_tells_what_the_next_one_will_be(
    spark: SparkSession, sources: dict[str, Path], name: str
) -> None:
    plan, tells = PLANS[name]
    known = incoming(plan(*both(spark, sources)), "at", 0, takes_updates=False)
    assert tells == bool(known.watermark_rule.delays_us)


@pytest.mark.parametrize("name", REFUSED)
def test_a_watermark_that_the_event_time_lacks_is_refused(
    spark: SparkSession, sources: dict[str, Path], name: str
) -> None:
    """Spark would refuse it when the query starts, since apply sets another watermark."""
    frame = REFUSED[name](*both(spark, sources))
    with pytest.raises(DefinitionError, match=r"'at' has none.*leave withWatermark out"):
        WINDOWS.aggregate(n=agg.count()).apply(frame, "at")
    op = WINDOWS.cogroup(one={"n": agg.count()}, other={"m": agg.count()})
    with pytest.raises(DefinitionError, match="'at' has none"):
        op.apply({"one": frame, "other": stream(spark, sources["fast"])}, "at")
