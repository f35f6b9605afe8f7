"""Several frames in one window on Spark, with Spark's own windows of each frame, joined, as the judge."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError, RollingWindows, SessionWindows, TumblingWindows
from operators import aggregates as agg
from operators.definitions.aggregation import CoGroupedAggregation
from tests.operators.spark.frames import rows, run_query, stream, write_source

pytestmark = pytest.mark.spark
GRACE = "8 seconds"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two sets of files of records."""
    folder = tmp_path_factory.mktemp("sources")
    for seed, name in enumerate(("left", "right")):
        write_source(folder / name, files=3, rows=600, seed=seed)
    return {name: folder / name for name in ("left", "right")}


def operator(windows: TumblingWindows | SessionWindows, key: str = "k") -> CoGroupedAggregation:
    """Results of both frames, of columns with the same names."""
    return windows.group_by(key).cogroup(
        left={"n": agg.count(), "total": agg.sum("v")}, right={"m": agg.count(), "high": agg.max("v")}
    )


def renamed(frame: DataFrame) -> DataFrame:
    """A frame whose event time has another name."""
    return frame.withColumnRenamed("at", "seen")


def judged(left: DataFrame, right: DataFrame) -> DataFrame:
    """The same by Spark itself."""
    window = F.window("at", "3 seconds").alias("window")
    ours = left.groupBy("k", window).agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    theirs = right.groupBy("k", window).agg(F.count("*").alias("m"), F.max("v").alias("high"))
    same = (ours["k"].eqNullSafe(theirs["k"])) & (ours["window"] == theirs["window"])
    both = ours.join(theirs, same, "full")
    here = ours["window"].isNotNull()
    return both.select(
        F.when(here, ours["k"]).otherwise(theirs["k"]).alias("k"),
        F.coalesce(ours["window"], theirs["window"]).alias("window"),
        F.coalesce("n", F.lit(0)).alias("n"),
        "total",
        F.coalesce("m", F.lit(0)).alias("m"),
        "high",
    )


@pytest.mark.slow
def test_bounded_frames_give_sparks_own_windows_joined(spark: SparkSession, sources: dict[str, Path]) -> None:
    """Bounded frames, one with another name for its event time, give the rows of two aggregations joined."""
    left, right = (spark.read.parquet(str(path)) for path in sources.values())
    op = operator(TumblingWindows("3 seconds", GRACE))
    found = op.apply({"left": left, "right": renamed(right)}, {"left": "at", "right": "seen"})
    assert rows(judged(left, right)) == rows(found)


@pytest.mark.slow
def test_streams_give_what_bounded_frames_give(
    spark: SparkSession, sources: dict[str, Path], tmp_path: Path
) -> None:
    """Two streams, each with a watermark, emit the windows that the slower one's has closed, and no other."""
    op = operator(TumblingWindows("3 seconds", GRACE))
    left, right = (stream(spark, path) for path in sources.values())
    found = op.apply({"left": left, "right": renamed(right)}, {"left": "at", "right": "seen"})
    run_query(found, tmp_path / "out", tmp_path / "cp")
    bounded = [spark.read.parquet(str(path)) for path in sources.values()]
    latest = min(frame.selectExpr("max(at)").first()[0] for frame in bounded)
    close = spark.range(1).select(F.date_trunc("MILLISECOND", F.lit(latest)) - F.expr(f"interval {GRACE}"))
    closed = judged(*bounded).where(F.col("window.end") <= F.lit(close.first()[0]))
    assert rows(closed) == rows(spark.read.parquet(str(tmp_path / "out")))


@pytest.mark.slow
def test_sessions_of_both_frames(spark: SparkSession, sources: dict[str, Path]) -> None:
    """Records of both frames make the sessions, with a gap per record that both frames have."""
    left, right = (spark.read.parquet(str(path)) for path in sources.values())
    gap = F.when(F.col("v") > 0, F.lit("20 milliseconds")).otherwise(F.lit("60 milliseconds"))
    found = operator(SessionWindows(gap)).apply({"left": left, "right": right}, "at")
    both = left.withColumn("own", F.lit(1)).unionByName(right.withColumn("own", F.lit(0)))
    sessions = both.groupBy("k", F.session_window("at", gap).alias("window")).agg(
        F.sum("own").alias("n"),
        F.sum(F.expr("if(own = 1, v, null)")).alias("total"),
        F.sum(1 - F.col("own")).alias("m"),
        F.max(F.expr("if(own = 0, v, null)")).alias("high"),
    )
    assert rows(sessions) == rows(found)


def test_streams_and_bounded_frames_do_not_mix(spark: SparkSession, sources: dict[str, Path]) -> None:
    """One stream among bounded frames is refused by name."""
    frames = {"left": stream(spark, sources["left"]), "right": spark.read.parquet(str(sources["right"]))}
    with pytest.raises(
        DefinitionError, match="either all frames must be streams or none: left are, right are not"
    ):
        operator(TumblingWindows("3 seconds")).apply(frames, "at")


@pytest.mark.parametrize("key", ["event time", "Left.V", "right.*"])
def test_keys_with_names_of_columns_of_the_united_frames_are_refused(spark: SparkSession, key: str) -> None:
    """As in the local runner."""
    frame = spark.createDataFrame([], f"k string, at timestamp, v bigint, `{key}` string")
    keyed = operator(TumblingWindows("3 seconds"), key)
    with pytest.raises(
        DefinitionError, match=r"the frames have a column '.*' in common, which is the name of an"
    ):
        keyed.apply({"left": frame, "right": frame}, "at")
    labelled = RollingWindows("3 seconds").group_by(key).aggregate(total=agg.sum("v"))
    if key == "event time":
        with pytest.raises(DefinitionError, match="the frames have a column 'event time' in common"):
            labelled.apply_as_of(frame, frame, "at", "at")
    else:
        assert key in labelled.apply_as_of(frame, frame, "at", "at").columns
