"""Late and bad records as data on Spark: one pass over the source makes the windows and tells of what is in none."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError, SlidingWindows
from operators import aggregates as agg
from tests.operators.spark.frames import rows, run_query, stream, use_up, write_source

pytestmark = pytest.mark.spark
OPERATOR = (
    SlidingWindows("2 seconds", grace="1 second").group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five files of records, each as much out of order as it is long."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=5, rows=400, seed=3, disorder_ms=15_000)
    return folder


def with_extras(frame: DataFrame) -> DataFrame:
    """The records with a nested column, their time without zone, and some without a time."""
    frame = frame.withColumn("tags", F.struct(F.col("v").alias("v"), F.array("x").alias("xs")))
    return frame.withColumn("at", F.when(F.col("v") != 13, F.col("at")).cast("timestamp_ntz"))


@pytest.mark.slow
def test_a_stream_hands_over_windows_and_late_records(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """The windows are those of `apply`; windows and late records together have each record that came."""
    plain = OPERATOR.apply(with_extras(stream(spark, source)), event_time="at")
    query = run_query(plain, tmp_path / "out", tmp_path / "cp")
    counted = [p["observedMetrics"] for p in query.recentProgress if p["observedMetrics"]]
    both = OPERATOR.apply_with_late(with_extras(stream(spark, source)), event_time="at")

    def write(windows: DataFrame, late: DataFrame, number: int) -> None:
        windows.write.parquet(str(tmp_path / "windows" / f"{number}"))
        late.write.parquet(str(tmp_path / "late" / f"{number}"))

    writer = both.foreach_batch(write).option("checkpointLocation", str(tmp_path / "cp-late"))
    query = use_up(writer.start)
    told = [p["observedMetrics"] for p in query.recentProgress if p["observedMetrics"]]

    windows = spark.read.option("recursiveFileLookup", True).parquet(str(tmp_path / "windows"))
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == rows(windows)
    late = spark.read.option("recursiveFileLookup", True).parquet(str(tmp_path / "late"))
    assert [f.name for f in late.schema["record"].dataType] == ["k", "at", "v", "x", "tags"]
    reasons = {row.reason: row["count"] for row in late.groupBy("reason").count().collect()}
    assert reasons == {
        "late": total(counted, "windows_out", "late"),
        "event time is null": total(counted, "windows_in", "bad"),
    }
    assert min(reasons.values()) > 5
    assert [total(told, *which) for which in (("windows_out", "late"), ("windows_in", "bad"))] == list(
        map(reasons.get, ("late", "event time is null"))
    )
    missed = late.where("reason = 'late'")
    wrong = "window.start <> record.at or window.end <> record.at + interval 2 seconds or late_by_ms < 1"
    assert missed.where(f"{wrong} or record.tags.v <> record.v").count() == 0
    assert missed.exceptAll(missed.dropDuplicates()).count() == 0


def total(progress: list[dict[str, Any]], of: str, name: str) -> int:
    """The sum of one observed count over all batches."""
    return sum(batch[of]["counts"][name] for batch in progress)


@pytest.mark.slow
def test_a_bounded_frame_tells_of_bad_records(spark: SparkSession, source: Path) -> None:
    """Nothing is late where all is there; what has no time is told."""
    frame = with_extras(spark.read.parquet(str(source)))
    both = OPERATOR.apply_with_late(frame, event_time="at")
    assert rows(OPERATOR.apply(frame, event_time="at")) == rows(both.windows)
    bad = frame.where("at is null")
    assert bad.count() > 0
    assert sorted(map(str, bad.collect())) == sorted(map(str, both.late.select("record.*").collect()))
    assert {"event time is null"} == {row.reason for row in both.late.select("reason").collect()}


def test_what_cannot_be_told_is_refused(spark: SparkSession, source: Path) -> None:
    """A column that does not go through Arrow is named, with the way out; so is a result of the name that is taken."""
    frame = spark.read.parquet(str(source)).withColumn("months", F.expr("interval '3' month"))
    with pytest.raises(DefinitionError, match=r"'months' is of type interval month.*df\.drop"):
        OPERATOR.apply_with_late(frame, event_time="at")
    taken = SlidingWindows("2 seconds").group_by("k").aggregate(late=agg.count())
    with pytest.raises(DefinitionError, match="output column 'late' occurs twice"):
        taken.apply_with_late(spark.read.parquet(str(source)), event_time="at")
