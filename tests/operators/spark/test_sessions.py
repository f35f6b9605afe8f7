"""Session windows on Spark, with Spark's own `session_window` as the judge, or a walk where it has nothing alike."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError, SessionWindows, WindowedAggregation
from operators import aggregates as agg
from tests.effort import slow, slow_but, soak
from tests.operators.spark.frames import rows, run_query, stream, use_up, write_source

pytestmark = pytest.mark.spark
GRACE = "8 seconds"
RESULTS = {
    "n": agg.count(),
    "total": agg.sum("v"),
    "mean": agg.avg("x"),
    "low": agg.min("v"),
    "high": agg.max("x"),
}
OWN_MS = "case v % 10 when 0 then null when 1 then 0 when 2 then -40 else (abs(v) % 40) * 5 end"
OWN_TEXT = f"concat({OWN_MS}, ' milliseconds')"


def own_gap() -> Column:
    """Two gaps, picked by row."""
    return F.when(F.col("x") > 60, "40 milliseconds").when(F.col("v") > 0, "0.2 seconds").otherwise("soon")


GAPS: dict[str, tuple[Callable[[], SessionWindows], Callable[[], Any]]] = {
    "fixed": (lambda: SessionWindows("150 ms", grace=GRACE), lambda: "150 milliseconds"),
    "text": (lambda: SessionWindows(gap_column="text", grace=GRACE), lambda: F.col("text")),
    "milliseconds": (lambda: SessionWindows(gap_column="a gap.ms", grace=GRACE), lambda: F.col("text")),
    "interval": (lambda: SessionWindows(gap_column="interval", grace=GRACE), lambda: F.col("text")),
    "expression": (
        lambda: SessionWindows(own_gap(), grace=GRACE),
        lambda: F.when(own_gap() != "soon", own_gap()),
    ),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of records."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=4, rows=1_000, seed=4)
    return folder


def with_gaps(frame: DataFrame) -> DataFrame:
    """The frame with a gap per row in every form: some are null, zero or negative."""
    frame = frame.withColumns({"a gap.ms": F.expr(OWN_MS).cast("bigint"), "text": F.expr(OWN_TEXT)})
    return frame.withColumn("interval", F.expr(f"({OWN_MS}) * interval '0.001' second"))


def operator(kind: str, policy: str = "on_close") -> WindowedAggregation:
    """The operator of a case."""
    return GAPS[kind][0]().group_by("k").aggregate(**RESULTS).emit(policy)


def judged(frame: DataFrame, gap: Any, time: str = "at") -> DataFrame:
    """The same by Spark itself, in the same columns."""
    grouped = frame.groupBy("k", F.session_window(time, gap).alias("window"))
    aggregates = F.count("*").alias("n"), F.sum("v").alias("total"), F.avg("x").alias("mean")
    results = grouped.agg(*aggregates, F.min("v").alias("low"), F.max("x").alias("high"))
    return results.select("k", "window", *RESULTS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(["fixed", "expression"], GAPS))
def test_bounded_frame_gives_sparks_own_sessions(spark: SparkSession, source: Path, kind: str) -> None:
    """A bounded frame gives exactly the rows of Spark's `session_window`, which drops rows whose gap is none."""
    frame = with_gaps(spark.read.parquet(str(source)))
    expected = rows(judged(frame, GAPS[kind][1]()))
    assert 100 < len(expected)
    assert expected == rows(operator(kind).apply(frame, event_time="at"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "backend"), [soak("fixed", "rocksdb"), ("milliseconds", "memory"), slow("text", "rocksdb")]
)
def test_stream_closes_sparks_own_sessions(
    spark: SparkSession, source: Path, tmp_path: Path, kind: str, backend: str
) -> None:
    """A stream emits exactly those of them that end before its close time, and counts rows whose gap is none as bad."""
    windows = operator(kind).apply(with_gaps(stream(spark, source)), event_time="at", backend=backend)
    query = run_query(windows, tmp_path / "out", tmp_path / "cp")
    frame = with_gaps(spark.read.parquet(str(source)))
    close = frame.selectExpr("date_trunc('MILLISECOND', max(at)) - interval 8 seconds").first()[0]
    # Not by `where`: Spark moves a filter on the end to before its merging of sessions, which then end too soon.
    closed = [row for row in rows(judged(frame, GAPS[kind][1]())) if row[1] < close]
    assert closed == rows(spark.read.parquet(str(tmp_path / "out")))
    metrics = [p["observedMetrics"] for p in query.recentProgress if p["observedMetrics"]]
    none = 0 if kind == "fixed" else frame.where(f"coalesce({OWN_MS}, 0) <= 0").count()
    assert none == sum(m["windows_in"]["counts"]["bad"] for m in metrics)
    assert 0 == sum(m["windows_out"]["counts"]["late"] for m in metrics)


@pytest.mark.parametrize(("kind", "backend"), [slow("fixed", "memory"), slow("expression", "rocksdb")])
def test_updates_and_retractions_leave_the_table_of_the_bounded_frame(
    spark: SparkSession, source: Path, tmp_path: Path, kind: str, backend: str
) -> None:
    """Applied to a table in the order of batches, retractions first, they leave exactly Spark's sessions."""
    frame = operator(kind, "on_update").apply(stream(spark, source), event_time="at", backend=backend)
    table: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    retracted = []

    def upsert(batch: DataFrame, _: int) -> None:
        found = rows(batch.drop("sequence"))
        for row in found:
            if row[-1] == "retract":
                assert (None,) * len(RESULTS) == row[3:-1]
                del table[row[2], row[0], row[1]]
                retracted.append(row)
        for row in found:
            if row[-1] == "update":
                table[row[2], row[0], row[1]] = row[:-1]

    use_up(frame.writeStream.foreachBatch(upsert).option("checkpointLocation", str(tmp_path / "cp")).start)
    assert retracted
    expected = rows(judged(spark.read.parquet(str(source)), GAPS[kind][1]()))
    assert expected == sorted(table.values(), key=repr)


@pytest.mark.slow
def test_bounded_frame_on_update_has_only_updates(spark: SparkSession, source: Path) -> None:
    """After the last record both policies say the same: a bounded frame takes nothing back."""
    frame = spark.read.parquet(str(source))
    windows = operator("fixed", "on_update").apply(frame, event_time="at")
    assert ["update"] == [row.change for row in windows.select("change").distinct().collect()]
    assert rows(windows.drop("change", "sequence")) == rows(operator("fixed").apply(frame, event_time="at"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [slow("fixed"), "milliseconds"])
@pytest.mark.parametrize("longest", [slow(0), 200, slow(1_000)])
def test_sessions_of_a_greatest_length_are_those_of_a_walk(
    spark: SparkSession, source: Path, kind: str, longest: int
) -> None:
    """With `max_length`, a bounded frame gives what a walk through its rows in order of time cuts."""
    fixed = kind == "fixed"
    gap = {"gap": 150} if fixed else {"gap_column": "a gap.ms"}
    frame = with_gaps(spark.read.parquet(str(source)))
    given = frame.select(
        "k", F.unix_millis("at").alias("at"), F.lit(150) if fixed else F.col("`a gap.ms`"), "v"
    )
    windows = (
        SessionWindows(**gap, max_length=longest).group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    )
    got = windows.apply(frame, event_time="at")
    flat = got.select("k", F.unix_millis("window.start"), F.unix_millis("window.end"), "n", "total")
    expected = walk([tuple(row) for row in given.collect()], longest)
    assert sorted(expected, key=repr) == sorted(map(tuple, flat.collect()), key=repr)


def walk(records: list[tuple[Any, ...]], longest: int) -> list[tuple[Any, ...]]:
    """Sessions of (key, time, gap, value): key, start, end, number of records and sum of values."""
    sessions: list[list[Any]] = []
    sound = [record for record in records if record[2] is not None and record[2] > 0]
    for key, time, gap, value in sorted(sound, key=lambda record: (str(record[0]), record[1])):
        last = sessions[-1] if sessions else None
        if last is None or last[0] != key or time > last[2] or time - last[1] > longest:
            sessions.append([key, time, time + gap, 1, value])
        else:
            last[2:] = [max(last[2], time + gap), last[3] + 1, last[4] + value]
    return list(map(tuple, sessions))


@pytest.mark.slow
def test_one_key_with_more_rows_than_a_step(spark: SparkSession) -> None:
    """A key that is taken in several steps gives the sessions that it would give in one."""
    number = F.col("id")
    frame = spark.range(600_000).select(
        F.lit("big").alias("k"),
        F.timestamp_millis(number * 50 + F.when(number % 1_000 > 500, 30_000).otherwise(0)).alias("at"),
        (number % 97).alias("v"),
        (number % 8 / 8).alias("x"),
        F.concat(number % 300, F.lit(" milliseconds")).alias("gap"),
    )
    op = SessionWindows(gap_column="gap").group_by("k").aggregate(**RESULTS)
    expected = rows(judged(frame, F.col("gap")))
    assert 100 < len(expected)
    assert expected == rows(op.apply(frame.coalesce(2), event_time="at"))


@pytest.mark.slow
@pytest.mark.parametrize("time", ["timestamp", slow("timestamp_ntz")])
@pytest.mark.parametrize("zone", [slow("UTC"), "America/New_York"])
def test_text_gaps_are_sparks_own_in_every_zone(spark: SparkSession, time: str, zone: str) -> None:
    """Days and months are as long as Spark has them from the record's time on, across changes of the clock too."""
    moments = [datetime(2024, 3, 8) + timedelta(hours=7 * n) for n in range(12)]
    texts = [
        "5 hours",
        "8 hours",
        "1 day",
        "1 month",
        "1 day 90 minutes",
        None,
        "-1 day",
        "0 seconds",
        "1 week",
    ]
    records = [(f"k{n % 3}", at, texts[n * 5 % len(texts)], n, n / 8) for n, at in enumerate(moments)]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.createDataFrame(records, f"k string, `the.time` {time}, gap string, v bigint, x double")
        op = SessionWindows(gap_column="gap").group_by("k").aggregate(**RESULTS)
        expected = rows(judged(frame, F.col("gap"), "`the.time`"))
        assert expected == rows(op.apply(frame, event_time="the.time"))
        assert expected == rows(
            SessionWindows(F.col("gap"))
            .group_by("k")
            .aggregate(**RESULTS)
            .apply(frame, event_time="the.time")
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert 3 < len(expected)


@pytest.mark.slow
def test_stream_of_times_without_zone(spark: SparkSession, tmp_path: Path) -> None:
    """A stream of timestamps without zone with a gap per row gives the sessions of the bounded frame."""
    folder = str(tmp_path / "in")
    times = [datetime(2024, 3, 10, 1) + timedelta(minutes=20 * n) for n in range(9)]
    records = [("a", at, f"{10 + n * 3} minutes") for n, at in enumerate(times)]
    spark.createDataFrame(records, "k string, `the.time` timestamp_ntz, gap string").coalesce(
        1
    ).write.parquet(folder)
    op = SessionWindows(F.col("gap")).group_by("k").aggregate(n=agg.count())
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.readStream.schema("k string, `the.time` timestamp_ntz, gap string").parquet(folder)
        run_query(op.apply(frame, event_time="the.time"), tmp_path / "out", tmp_path / "cp")
        got = rows(spark.read.parquet(str(tmp_path / "out")))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    bounded = op.apply(spark.read.parquet(folder), event_time="the.time")
    expected = rows(bounded.where(bounded["window"]["end"] < times[-1]))
    assert 4 == len(got)
    assert expected == got


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sound", "gap"),
    [
        ("1000", "9223372036854775807"),
        ("'1 second'", "'soon'"),
        *[slow("'1 second'", f"'{gap}'") for gap in ("300000 years", "9999999999 weeks", "-1 month", "")],
    ],
)
def test_absurd_gaps_are_bad_rows_and_no_errors(spark: SparkSession, sound: str, gap: str) -> None:
    """One row with an absurd gap does not stop a query."""
    at = datetime(2024, 1, 1)
    frame = spark.createDataFrame([("a", at), ("b", at)], "k string, at timestamp")
    length = F.expr(f"if(k = 'a', {sound}, {gap})")
    windows = SessionWindows(length).group_by("k").aggregate(n=agg.count()).apply(frame, event_time="at")
    assert [("a", 1)] == [(row.k, row.n) for row in windows.select("k", "n").collect()]


@pytest.mark.parametrize(
    ("windows", "time", "message"),
    [
        (
            lambda: SessionWindows(gap_column="gpa"),
            "at",
            "gap column 'gpa' does not exist; the frame has the columns k, at, v",
        ),
        (
            lambda: SessionWindows(gap_column="x"),
            "at",
            "the gap is of type double; it must be an interval, its text, or whole milliseconds",
        ),
        (lambda: SessionWindows(F.col("v") > 3), "at", "the gap is of type boolean; .*: cast it first"),
        (lambda: SessionWindows(F.col("at")), "at", "the gap is of type timestamp; .*: cast it first"),
        (
            lambda: SessionWindows(F.lit("5 seconds")),
            "ta",
            "event time column 'ta' does not exist; the frame has the columns k, at, v",
        ),
        (
            lambda: SessionWindows(5),
            "ta",
            "event time column 'ta' does not exist; the frame has the columns k, at, v",
        ),
    ],
)
def test_wrong_gaps_are_refused_on_the_driver(
    spark: SparkSession, windows: Callable[[], SessionWindows], time: str, message: str
) -> None:
    """What cannot be a gap is refused by apply, before any row is read."""
    frame = spark.createDataFrame([], "k string, at timestamp, v bigint, x double")
    with pytest.raises(DefinitionError, match=message):
        windows().aggregate(n=agg.count()).apply(frame, event_time=time)


def test_gap_column_takes_a_name(spark: SparkSession) -> None:
    """An expression goes into `gap`; and the local runner has no Spark to work one out."""
    with pytest.raises(DefinitionError, match="a Spark expression goes into gap"):
        SessionWindows(gap_column=F.col("v"))  # type: ignore[arg-type]
    operator = SessionWindows(F.lit("5 seconds")).aggregate(n=agg.count())
    empty = spark.createDataFrame([], "at timestamp").toArrow()
    with (
        operator.local_runner("at") as running,
        pytest.raises(
            DefinitionError,
            match="is a Spark expression, which cannot be evaluated without Spark: name a gap_column instead",
        ),
    ):
        running.process(empty)
