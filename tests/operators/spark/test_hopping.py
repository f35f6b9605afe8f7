"""Hopping and tumbling windows on Spark, with Spark's own `window` as the judge."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import HoppingWindows, TumblingWindows, WindowedAggregation
from operators import aggregates as agg
from tests.effort import slow_but
from tests.operators.spark.frames import rows, run_query, stream, write_source

pytestmark = pytest.mark.spark
RESULTS = {
    "n": agg.count(),
    "total": agg.sum("v"),
    "mean": agg.avg("x"),
    "low": agg.min("v"),
    "high": agg.max("x"),
}
CASES = {
    "hopping": (
        HoppingWindows("5 seconds", "2 seconds", "8 seconds", "1 second"),
        ("5 seconds", "2 seconds", "1 second"),
    ),
    "a hundredth": (
        HoppingWindows("1 second", "10 ms", "8 seconds"),
        ("1 second", "10 milliseconds", "0 seconds"),
    ),
    "tumbling": (TumblingWindows("3 seconds", "8 seconds"), ("3 seconds", "3 seconds", "0 seconds")),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of records."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=4, rows=1_000, seed=2)
    return folder


def operator(kind: str) -> WindowedAggregation:
    """The operator of a case."""
    return CASES[kind][0].group_by("k").aggregate(**RESULTS)


def judged(frame: DataFrame, kind: str) -> DataFrame:
    """The same by Spark itself, in the same columns."""
    grouped = frame.groupBy("k", F.window("at", *CASES[kind][1]))
    aggregates = F.count("*").alias("n"), F.sum("v").alias("total"), F.avg("x").alias("mean")
    return grouped.agg(*aggregates, F.min("v").alias("low"), F.max("x").alias("high"))


@pytest.mark.parametrize("kind", slow_but(["hopping"], CASES))
def test_bounded_frame_gives_sparks_own_windows(spark: SparkSession, source: Path, kind: str) -> None:
    """A bounded frame gives exactly the rows of Spark's `window`."""
    frame = spark.read.parquet(str(source))
    assert rows(judged(frame, kind)) == rows(operator(kind).apply(frame, event_time="at"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_stream_closes_sparks_own_windows(
    spark: SparkSession, source: Path, tmp_path: Path, kind: str
) -> None:
    """A stream emits exactly those of them whose end is not after its close time."""
    windows = operator(kind).apply(stream(spark, source), event_time="at", backend="rocksdb")
    run_query(windows, tmp_path / "out", tmp_path / "cp")
    frame = spark.read.parquet(str(source))
    close = frame.selectExpr("date_trunc('MILLISECOND', max(at)) - interval 8 seconds").first()[0]
    closed = judged(frame, kind).where(F.col("window.end") <= F.lit(close))
    assert rows(closed) == rows(spark.read.parquet(str(tmp_path / "out")))


@pytest.mark.slow
def test_what_crosses_the_shuffle_is_told(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """A stream of few frames sends these in place of its rows, and says how many of either there were, and their bytes."""
    windows = operator("tumbling").apply(stream(spark, source), event_time="at")
    query = run_query(windows, tmp_path / "out", tmp_path / "cp")
    told = [p.observedMetrics["windows_in"]["counts"] for p in query.recentProgress if p.numInputRows]
    assert [1_000] * 4 == [metrics["rows"] for metrics in told]
    assert all(0 < metrics["sent"] < 100 for metrics in told)
    assert all(0 < metrics["sent_bytes"] < metrics["row_bytes"] for metrics in told)
