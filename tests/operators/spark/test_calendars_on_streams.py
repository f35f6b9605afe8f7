"""Windows of calendars on streams over a change of the clock: after history, in chains, of several inputs into a table."""

from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import HoppingWindows, TumblingWindows, read_windows
from operators import aggregates as agg
from operators.sinks import SQLiteSink, upsert_to
from tests.effort import slow
from tests.operators.sinks.reading import read_sqlite
from tests.operators.spark.frames import rows, run_query, use_up, write_numbered
from tests.operators.spark.test_calendars import RECORDS

pytestmark = pytest.mark.spark
BERLIN = "Europe/Berlin"
SCHEMA = "k string, at timestamp, v bigint"
RESULTS = {"n": agg.count(), "total": agg.sum("v")}
CUT = datetime(2026, 4, 20, tzinfo=timezone.utc)
FAR = datetime(2028, 1, 1, tzinfo=timezone.utc)


def files(folder: Path, *more: pa.Table) -> Path:
    """The records as three files, and others after them."""
    folder.mkdir()
    for number, table in enumerate([*(RECORDS.slice(80 * n, 80) for n in range(3)), *more]):
        write_numbered(table, folder, number)
    return folder


def frame(spark: SparkSession, folder: Path) -> DataFrame:
    """The files as a bounded frame."""
    return spark.read.schema(SCHEMA).parquet(str(folder))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """The files as a stream, one a batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


@pytest.mark.slow
@pytest.mark.parametrize(
    "windows",
    [
        pytest.param(TumblingWindows("1 month", zone=BERLIN), id="months"),
        slow(HoppingWindows("2 weeks", "1 week", zone=BERLIN, offset="-1 day"), id="weeks"),
    ],
)
def test_history_and_stream_are_one_long_stream(spark: SparkSession, tmp_path: Path, windows: Any) -> None:
    """What was final, what the stream emitted and what is open at its end are the rows of one frame: none twice, none lost."""
    operator = windows.group_by("k").aggregate(**RESULTS)
    every = frame(spark, files(tmp_path / "in"))
    past = every.where(F.col("at") < F.lit(CUT))
    operator.apply(past, "at", close_time=CUT).write.parquet(str(tmp_path / "final"))
    saved = operator.savepoint(past, "at", tmp_path / "savepoint", CUT, options={"state.buckets": 2})
    rest = stream(spark, tmp_path / "in").where(F.col("at") >= F.lit(CUT))
    out = operator.apply(rest, "at", backend="rocksdb", options={"state.savepoint": saved.uri})
    run_query(out, tmp_path / "out", tmp_path / "checkpoint")
    still = read_windows(tmp_path / "checkpoint", operator, past, "at")
    parts = [spark.read.schema(out.schema).parquet(str(tmp_path / name)) for name in ("final", "out")]
    assert all(part.count() for part in [*parts, still])
    found = [row for part in [*parts, still.select(out.columns)] for row in rows(part)]
    assert rows(operator.apply(every, "at")) == sorted(found, key=repr)


@pytest.mark.slow
def test_months_of_days_are_the_months_of_records(spark: SparkSession, tmp_path: Path) -> None:
    """In a chain, a day counts in the month in which it ends, at its last instant, as on a bounded frame."""
    last = pa.table({"k": ["z"], "at": pa.array([FAR], RECORDS.schema.field("at").type), "v": [0]})
    folder = files(tmp_path / "in", last)
    days = TumblingWindows("1 day", zone=BERLIN, offset="6 hours").group_by("k").aggregate(**RESULTS)
    months = (
        TumblingWindows("1 month", zone=BERLIN, offset="6 hours")
        .group_by("k")
        .aggregate(n=agg.sum("n"), total=agg.sum("total"), days=agg.count())
    )

    def chain(df: DataFrame) -> DataFrame:
        first = days.apply(df, "at", name="days").withColumn("ended", F.window_time("window"))
        return months.apply(first, "ended", name="months")

    run_query(chain(stream(spark, folder)), tmp_path / "out", tmp_path / "checkpoint")
    found = spark.read.parquet(str(tmp_path / "out"))
    others = "k IS NULL OR k != 'z'"
    assert rows(found) == rows(chain(frame(spark, folder)).where(others))
    whole = TumblingWindows("1 month", zone=BERLIN, offset="6 hours").group_by("k").aggregate(**RESULTS)
    assert rows(whole.apply(frame(spark, folder), "at").where(others)) == rows(found.drop("days"))


@pytest.mark.slow
def test_days_of_several_inputs_are_kept_in_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """The table has, for each local date, how many records each input had: those that Python's own zones count."""
    folder = files(tmp_path / "in")
    both = (
        TumblingWindows("1 day", zone=BERLIN)
        .group_by("k")
        .cogroup(left={"n": agg.count()}, right={"large": agg.count(where="large")})
        .emit("on_update")
    )
    other = stream(spark, folder).withColumn("large", F.col("v") > 8)
    out = both.apply({"left": stream(spark, folder), "right": other}, "at")
    upsert = upsert_to(SQLiteSink(tmp_path / "t.db", "t"), keys=["k"])
    use_up(out.writeStream.foreachBatch(upsert).option("checkpointLocation", str(tmp_path / "cp")).start)
    time = pa.timestamp("us", "UTC")
    columns = [
        ("k", pa.string()),
        ("window_start", time),
        ("window_end", time),
        ("n", pa.int64()),
        ("large", pa.int64()),
    ]
    found = read_sqlite(tmp_path / "t.db", "t", pa.schema(columns)).to_pylist()
    zone = ZoneInfo(BERLIN)
    local = [(row["k"], row["at"].astimezone(zone).date(), row["v"]) for row in RECORDS.to_pylist()]
    n, large = Counter(row[:2] for row in local), Counter(row[:2] for row in local if row[2] > 8)
    assert {
        (row["k"], row["window_start"].astimezone(zone).date()): (row["n"], row["large"]) for row in found
    } == {day: (n[day], large[day]) for day in n}
    assert pc.sum(pa.array([row["n"] for row in found])).as_py() == RECORDS.num_rows
    assert {23, 24} == {(row["window_end"] - row["window_start"]).seconds // 3600 or 24 for row in found}
