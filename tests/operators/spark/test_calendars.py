"""Windows of calendars on Spark, with the local runner's oracle as the judge, and `date_trunc` where it means the same."""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError, HoppingWindows, RollingWindows, TumblingWindows
from operators import aggregates as agg
from operators.testing import expected_rows
from tests.operators.spark.frames import rows, run_query, write_numbered

pytestmark = pytest.mark.spark
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
HOURS = [datetime(2026, 3, 27, tzinfo=timezone.utc) + timedelta(hours=7 * n) for n in range(240)]
RECORDS = pa.table(
    {
        "k": pa.array(["a" if n % 3 else None for n in range(240)], pa.string()),
        "at": pa.array(HOURS, pa.timestamp("us", "UTC")),
        "v": pa.array([n * n % 17 for n in range(240)], pa.int64()),
    }
)
"""From the end of March to June, over a change of the clock in Berlin."""


def frame(spark: SparkSession) -> DataFrame:
    """The records."""
    listed = [(row["k"], row["at"], row["v"]) for row in RECORDS.to_pylist()]
    return spark.createDataFrame(listed, "k string, at timestamp, v bigint")


def wanted(windows: Any) -> list[tuple[Any, ...]]:
    """All windows by brute force, those that are still open among them."""
    results = {"n": len, "total": lambda rows: sum(row["v"] for row in rows)}
    batches = [(RECORDS, 2**50)]
    return sorted(
        (
            (row["k"], row["window"]["start"], row["window"]["end"], row["n"], row["total"])
            for row in expected_rows(windows, batches, "at", results, ["k"])[0]
        ),
        key=repr,
    )


def found(emitted: DataFrame) -> list[tuple[Any, ...]]:
    """Rows of Spark in the form of `wanted`."""
    columns = "k", "unix_millis(window.start)", "unix_millis(window.end)", "n", "total"
    return sorted((tuple(row) for row in emitted.selectExpr(*columns).collect()), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "spark"])
def test_frames_and_streams_have_the_windows_of_the_calendar(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    """A bounded frame all of them; a stream those that it closes. A day of 23 hours is among them."""
    windows = TumblingWindows("1 day", zone="Europe/Berlin", offset="6 hours")
    operator = windows.group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    judged = wanted(windows)
    assert 23 * 3_600_000 in {end - start for _, start, end, _, _ in judged}
    assert judged == found(operator.apply(frame(spark), event_time="at", backend=backend))
    (tmp_path / "in").mkdir()
    for number in range(3):
        write_numbered(RECORDS.slice(80 * number, 80), tmp_path / "in", number)
    source = spark.readStream.schema("k string, at timestamp, v bigint").parquet(str(tmp_path / "in"))
    emitted = operator.apply(source.withWatermark("at", "0 seconds"), event_time="at", backend=backend)
    run_query(emitted, tmp_path / "out", tmp_path / "cp")
    close = round((max(HOURS) - EPOCH).total_seconds() * 1_000)
    closed = [row for row in judged if row[2] <= close]
    assert closed == found(spark.read.parquet(str(tmp_path / "out")))


@pytest.mark.slow
def test_records_have_their_day_and_month_so_far_beside_them(spark: SparkSession, tmp_path: Path) -> None:
    """The same in a bounded frame, in a stream that closes all, and by Spark's own windows over a key of the local date."""
    windows = RollingWindows({"today": "day to date", "mtd": "month to date"}, zone="America/New_York")
    operator = windows.group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    columns = "k", "unix_micros(at)", "n_today", "total_today", "n_mtd", "total_mtd"
    ours = rows(operator.apply(frame(spark), event_time="at").selectExpr(*columns))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        judged = frame(spark)
        for name, unit in (("today", "day"), ("mtd", "month")):
            over = f"OVER (PARTITION BY k, date_trunc('{unit}', at) ORDER BY at)"
            judged = judged.selectExpr("*", f"count(*) {over} n_{name}", f"sum(v) {over} total_{name}")
        assert rows(judged.selectExpr(*columns)) == ours
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    (tmp_path / "in").mkdir()
    for number in range(3):
        write_numbered(RECORDS.slice(80 * number, 80), tmp_path / "in", number)
    source = spark.readStream.schema("k string, at timestamp, v bigint").parquet(str(tmp_path / "in"))
    arrived = operator.emit("on_arrival").apply(source.withWatermark("at", "0 seconds"), event_time="at")
    run_query(arrived, tmp_path / "out", tmp_path / "cp")
    assert rows(spark.read.parquet(str(tmp_path / "out")).selectExpr(*columns)) == ours


@pytest.mark.slow
def test_months_are_those_of_date_trunc(spark: SparkSession) -> None:
    """Spark truncates in the session's zone: the same months, quarters, weeks and days where no date comes twice."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for unit in ("month", "quarter", "week", "day"):
            windows = (
                TumblingWindows(f"1 {unit}", zone="America/New_York").group_by("k").aggregate(n=agg.count())
            )
            ours = windows.apply(frame(spark), event_time="at").select("k", "window.start", "n")
            theirs = frame(spark).groupBy("k", F.date_trunc(unit, "at").alias("start")).count()
            assert rows(theirs) == rows(ours)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_what_spark_cannot_group_by_is_said(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """The first stage runs in Python, since months differ in length; local times are refused by Spark's name for them."""
    operator = HoppingWindows("3 months", "1 month", zone="UTC").aggregate(n=agg.count())
    operator.explain(frame(spark), event_time="at")
    text = " ".join(capsys.readouterr().out.split())
    assert "hopping windows of 3 months every 1 month" in text
    assert "a start every 1 month since 1970-01-01 in UTC" in text
    assert "panes of one length only" in text
    local = frame(spark).withColumn("at", F.col("at").cast("timestamp_ntz"))
    with pytest.raises(DefinitionError, match="event time 'at' is of type timestamp_ntz"):
        operator.apply(local, event_time="at")
