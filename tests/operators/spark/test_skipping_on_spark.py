"""Functions of a keyed operator that raise for some records: streams and bounded frames go on, and report them."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from operators import Declaration, KeyedOperator, TumblingWindows, WindowedAggregation, what_failed
from operators import aggregates as agg
from tests.operators.spark.frames import run_query, stream, use_up, write_source

pytestmark = pytest.mark.spark
IS_WRONG = "v % 10 = 0"


@dataclass(frozen=True, kw_only=True)
class Sums(KeyedOperator):
    """The running sum of a key, and what it was before a record that it cannot take has changed it."""

    def schema(self, types):
        return Declaration(["v"], results={"at": "timestamp", "total": "bigint"}, event_time="at")

    def process(self, time, record, context):
        context.value = (context.value or 0) + record["v"]
        if record["v"] % 10 == 0:
            raise ValueError(f"cannot take {record['v']}")
        yield {"at": time, "total": context.value}


SUMS = Sums(grace="8 seconds", on_error="skip")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=4, rows=150, seed=5)
    return folder


def expected(spark: SparkSession, source: Path) -> Counter[Any]:
    """The sums by Spark itself, without the records that raise."""
    frame = spark.read.parquet(str(source)).where(f"not ({IS_WRONG})")
    # Records of one time come in any order: only the sum after the last of them is known.
    sums = frame.withColumn("total", F.sum("v").over(Window.partitionBy("k").orderBy("at")))
    return Counter(map(tuple, sums.select("k", "at", "total").distinct().collect()))


def agrees(found: DataFrame, expected: Counter[Any]) -> None:
    rows = Counter(tuple(row) for row in found.select("k", "at", "total").collect())
    assert expected.keys() <= rows.keys()
    assert {(k, at) for k, at, _ in rows} == {(k, at) for k, at, _ in expected}


def reported(late: DataFrame) -> Counter[Any]:
    return Counter(tuple(row.record) for row in late.where("reason like '%failed%'").collect())


def wrong(frame: DataFrame) -> Counter[Any]:
    return Counter((*row, None) for row in frame.where(IS_WRONG).select("k", "at", "v").collect())


@pytest.mark.slow
def test_a_bounded_frame_has_the_rows_without_what_raised(spark: SparkSession, source: Path) -> None:
    """And reports the records, of which it knows key, time and declared inputs."""
    frame = spark.read.parquet(str(source))
    both = SUMS.group_by("k").apply_with_late(frame, event_time="at")
    agrees(both.windows, expected(spark, source))
    assert wrong(frame) == reported(both.late) != Counter()
    agrees(SUMS.group_by("k").apply(frame, event_time="at"), expected(spark, source))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "files"), [("memory", 2), pytest.param("rocksdb", 1, marks=pytest.mark.soak)]
)
def test_a_stream_goes_on_and_counts_them(
    spark: SparkSession, source: Path, tmp_path: Path, backend: str, files: int
) -> None:
    """A query that has ended because of a record goes on without it, once the switch is set."""
    frame = stream(spark, source, files)
    failing = Sums(grace="8 seconds").group_by("k").apply_with_late(frame, event_time="at", backend=backend)

    def write(windows: DataFrame, late: DataFrame, number: int) -> None:
        windows.write.parquet(str(tmp_path / "windows" / f"{number}"), mode="overwrite")
        late.write.parquet(str(tmp_path / "late" / f"{number}"), mode="overwrite")

    def started(both: Any) -> Any:
        return lambda: both.foreach_batch(write).option("checkpointLocation", str(tmp_path / "cp")).start()

    with pytest.raises(StreamingQueryException) as caught:
        use_up(started(failing))
    assert "Sums.process at event time " in str(what_failed(caught.value))
    both = SUMS.group_by("k").apply_with_late(frame, event_time="at", backend=backend)
    query = use_up(started(both))
    read = spark.read.option("recursiveFileLookup", True)
    late, rows = read.parquet(str(tmp_path / "late")), read.parquet(str(tmp_path / "windows"))
    due = "at < (select max(at) - interval 8 seconds from source)"
    spark.read.parquet(str(source)).createOrReplaceTempView("source")
    assert wrong(spark.table("source").where(due)) == reported(late) != Counter()
    last = rows.agg(F.max("at")).first()[0]
    agrees(rows, Counter(row for row in expected(spark, source) if row[1] <= last))
    counts = [
        p["observedMetrics"]["windows_out"]["counts"] for p in query.recentProgress if p["observedMetrics"]
    ]
    assert sum(count["failed"] for count in counts) == reported(late).total()


@pytest.mark.slow
def test_without_a_late_side_they_are_counted(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """`apply` has the rows of `apply_with_late`, and the metric says how many there were."""
    out = SUMS.group_by("k").apply(stream(spark, source, 2), event_time="at")
    query = run_query(out, tmp_path / "out", tmp_path / "cp")
    counts = [
        p["observedMetrics"]["windows_out"]["counts"] for p in query.recentProgress if p["observedMetrics"]
    ]
    spark.read.parquet(str(source)).createOrReplaceTempView("source")
    due = spark.table("source").where("at < (select max(at) - interval 8 seconds from source)")
    assert sum(count["failed"] for count in counts) == wrong(due).total() > 0


def added(total: int, v: int) -> int:
    if v % 10 == 0:
        raise ValueError(f"cannot take {v}")
    return total + v


def windows(**skip: str) -> WindowedAggregation:
    total = agg.fold(0, added, "v", type="bigint", merge=lambda a, b: a + b, **skip)
    return TumblingWindows("5 seconds", grace="8 seconds").group_by("k").aggregate(total=total, n=agg.count())


def judged(frame: DataFrame) -> Counter[Any]:
    """The windows by Spark itself."""
    keyed = frame.groupBy("k", F.window("at", "5 seconds"))
    total = F.coalesce(F.sum(F.expr(f"if({IS_WRONG}, 0, v)")), F.lit(0))
    return Counter(map(tuple, keyed.agg(total, F.count("*")).collect()))


@pytest.mark.slow
def test_a_fold_leaves_out_what_it_cannot_add(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """In a bounded frame and in a stream that has ended because of a record; all columns are reported."""
    frame, operator = spark.read.parquet(str(source)), windows(on_error="skip")
    both = operator.apply_with_late(frame, event_time="at")
    columns = ["k", "window", "total", "n"]
    assert judged(frame) == Counter(map(tuple, both.windows.select(columns).collect()))
    refused = Counter(map(tuple, frame.where(IS_WRONG).collect()))
    assert refused == Counter(tuple(row.record) for row in both.late.collect()) != Counter()
    assert judged(frame) == Counter(
        map(tuple, operator.apply(frame, event_time="at").select(columns).collect())
    )

    rows = stream(spark, source, 2)
    with pytest.raises(StreamingQueryException):
        run_query(windows().apply(rows, event_time="at"), tmp_path / "out", tmp_path / "cp")
    query = run_query(operator.apply(rows, event_time="at"), tmp_path / "out", tmp_path / "cp")
    found = spark.read.parquet(str(tmp_path / "out")).select(columns)
    assert Counter(map(tuple, found.collect())) <= judged(frame)
    counts = [
        p["observedMetrics"]["windows_out"]["counts"] for p in query.recentProgress if p["observedMetrics"]
    ]
    assert sum(count["failed"] for count in counts) == refused.total()
