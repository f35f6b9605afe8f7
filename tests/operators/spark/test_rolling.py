"""Rolling windows on Spark, with Spark's own `rangeBetween` as the judge."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from operators import RollingAggregation, RollingWindows, TumblingWindows
from operators import aggregates as agg
from tests.effort import slow, slow_but, soak
from tests.operators.spark.frames import (
    BASE_US,
    rows,
    run_query,
    stream,
    use_up,
    write_numbered,
    write_source,
)

pytestmark = pytest.mark.spark
MS = {"100ms": 100, "1s": 1_000, "ever": None}
EDGES = {"both": (0, 0), "left": (0, -1), "right": (1, 0), "none": (1, -1)}
"""How many milliseconds the bounds of Spark's range are further in."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of records."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=4, rows=600, seed=5)
    return folder


def operator(closed: Any = "both", emit: Any = "on_close") -> RollingAggregation:
    """Several aggregates over three lookbacks."""
    windows = RollingWindows(
        {"100ms": "100 ms", "1s": "1 second", "ever": "lifetime"}, grace="8 seconds", closed=closed
    )
    results = {"n": agg.count(), "total": agg.sum("v"), "mean": agg.avg("x"), "high": agg.max("x")}
    return windows.group_by("k").aggregate(**results).emit(emit)


def whole(frame: DataFrame) -> DataFrame:
    """The records with a nested column."""
    return frame.withColumn("tags", F.struct(F.col("v").alias("v"), F.array("x", F.lit(None)).alias("xs")))


def judged(frame: DataFrame, closed: str = "both") -> DataFrame:
    """The same by Spark itself."""
    first, last = EDGES[closed]
    by_time = Window.partitionBy("k").orderBy(F.unix_millis("at"))
    columns = []
    for name, length in MS.items():
        begin = Window.unboundedPreceding if length is None else first - length
        over = by_time.rangeBetween(begin, last)
        columns += [
            F.count("*").over(over).alias(f"n_{name}"),
            F.sum("v").over(over).alias(f"total_{name}"),
            F.avg("x").over(over).alias(f"mean_{name}"),
            F.max("x").over(over).alias(f"high_{name}"),
        ]
    return frame.select("*", *columns)


@pytest.mark.parametrize("closed", slow_but(["both"], EDGES))
def test_bounded_frame_gives_sparks_own_ranges(spark: SparkSession, source: Path, closed: str) -> None:
    """A bounded frame gives exactly what `rangeBetween` gives for each lookback, beside all columns."""
    frame = whole(spark.read.parquet(str(source)))
    assert rows(judged(frame, closed)) == rows(operator(closed).apply(frame, event_time="at"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["rocksdb", soak("memory"), soak("spark")])
def test_stream_emits_the_closed_rows_of_the_bounded_frame(
    spark: SparkSession, source: Path, tmp_path: Path, backend: str
) -> None:
    """A stream emits exactly the rows whose time is before its close time, each once."""
    frame = operator().apply(whole(stream(spark, source)), event_time="at", backend=backend)
    query = run_query(frame, tmp_path / "out", tmp_path / "cp")
    bounded = whole(spark.read.parquet(str(source)))
    close = bounded.selectExpr("date_trunc('MILLISECOND', max(at)) - interval 8 seconds").first()[0]
    closed = judged(bounded).where(F.col("at") < F.lit(close))
    assert rows(closed) == rows(spark.read.parquet(str(tmp_path / "out")))
    metrics = [p["observedMetrics"] for p in query.recentProgress if p["observedMetrics"]]
    assert 0 == sum(m["windows_out"]["counts"]["late"] + m["windows_in"]["counts"]["bad"] for m in metrics)


@pytest.mark.slow
def test_lifetimes_end_with_pauses(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """A stream and a bounded frame count since the last pause that is too long, as Spark's own windows find it."""
    windows = RollingWindows(
        {"100ms": "100 ms", "ever": "lifetime"}, grace="8 seconds", forget_after="300 ms"
    )
    op = windows.group_by("k").aggregate(n=agg.count(), high=agg.max("x"))
    frame = spark.read.parquet(str(source))
    at, by_time = F.unix_millis("at"), Window.partitionBy("k").orderBy(F.unix_millis("at"))
    paused = frame.withColumn(
        "paused", F.coalesce((at - F.lag(at).over(by_time) > 300).cast("int"), F.lit(0))
    )
    lives = paused.withColumn(
        "life", F.sum("paused").over(by_time.rangeBetween(Window.unboundedPreceding, 0))
    )
    ever = Window.partitionBy("k", "life").orderBy(at).rangeBetween(Window.unboundedPreceding, 0)
    short = by_time.rangeBetween(-100, 0)
    expected = lives.select(
        *frame.columns,
        F.count("*").over(short).alias("n_100ms"),
        F.max("x").over(short).alias("high_100ms"),
        F.count("*").over(ever).alias("n_ever"),
        F.max("x").over(ever).alias("high_ever"),
    )
    assert 1 < lives.agg(F.max("life")).first()[0]
    assert rows(expected) == rows(op.apply(frame, event_time="at"))
    streamed = op.apply(stream(spark, source), event_time="at", backend="rocksdb")
    run_query(streamed, tmp_path / "out", tmp_path / "cp")
    close = frame.selectExpr("date_trunc('MILLISECOND', max(at)) - interval 8 seconds").first()[0]
    assert rows(expected.where(F.col("at") < F.lit(close))) == rows(spark.read.parquet(str(tmp_path / "out")))


@pytest.mark.slow
def test_forget_after_is_added_to_a_running_query(spark: SparkSession, tmp_path: Path) -> None:
    """On arrival, too: what was stored before counts until a pause that is too long, and then no more."""
    source, second = tmp_path / "in", 1_000_000
    source.mkdir()
    seconds = [("a", 0), ("b", 0)], [("a", 20), ("b", 20)], [("a", 40), ("b", 40)]
    later = [("b", 100)], [("b", 150)], [("b", 200)], [("a", 3_600), ("b", 3_600)]

    def put(number: int, given: list[tuple[str, int]]) -> None:
        at = pa.array([BASE_US + time * second for _, time in given], pa.timestamp("us", "UTC"))
        table = {"k": [key for key, _ in given], "at": at, "v": [1] * len(given), "x": [0.5] * len(given)}
        write_numbered(pa.table(table), source, number)

    def run(forget_after: str | None) -> None:
        windows = RollingWindows(
            {"100ms": "100 ms", "ever": "lifetime"}, grace="8 seconds", forget_after=forget_after
        )
        op = windows.group_by("k").aggregate(n=agg.count()).emit("on_arrival")
        run_query(op.apply(stream(spark, source), event_time="at"), tmp_path / "out", tmp_path / "cp")

    for number, given in enumerate(seconds):
        put(number, given)
    run(None)
    for number, given in enumerate(later, len(seconds)):
        put(number, given)
    run("60 seconds")
    found = spark.read.parquet(str(tmp_path / "out")).selectExpr(
        "k", f"unix_seconds(at) - {BASE_US // second} AS second", "n_ever"
    )
    counted = {("a", 0): 1, ("b", 0): 1, ("a", 20): 2, ("b", 20): 2, ("a", 40): 3, ("b", 40): 3}
    counted |= {("b", 100): 4, ("b", 150): 5, ("b", 200): 6, ("a", 3_600): 1, ("b", 3_600): 1}
    assert counted == {(row["k"], row["second"]): row["n_ever"] for row in found.collect()}


@pytest.mark.slow
def test_other_lookbacks_after_a_restart(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """Within the longest, they are accepted as they are, and exact from the first row on."""
    changing, files = tmp_path / "in", sorted(source.iterdir())
    changing.mkdir()
    lookbacks = {
        "before": {"100ms": "100 ms", "1s": "1 second"},
        "after": {"20ms": "20 ms", "500ms": "500 ms", "1s": "1 second"},
    }
    results = {"n": agg.count(), "total": agg.sum("v"), "high": agg.max("x")}
    ops = {
        name: RollingWindows(asked, grace="8 seconds").group_by("k").aggregate(**results)
        for name, asked in lookbacks.items()
    }
    out = {}
    for (name, op), some in zip(ops.items(), (files[:2], files[2:]), strict=True):
        for file in some:
            shutil.copy2(file, changing)
        frame = op.apply(stream(spark, changing), event_time="at", backend="rocksdb")
        run_query(frame, tmp_path / name, tmp_path / "cp")
        # Not the folder: the file sink's list of files begins with batch 0, and the second query with a later one.
        out[name] = spark.read.schema(frame.schema).parquet(*map(str, (tmp_path / name).glob("*.parquet")))
    bounded = ops["after"].apply(spark.read.parquet(str(source)), event_time="at")
    first, last = (frame.agg(F.max("at")).first()[0] for frame in out.values())
    expected = bounded.where((F.col("at") > F.lit(first)) & (F.col("at") <= F.lit(last)))
    assert rows(out["after"]) == rows(expected)
    assert out["before"].count() > 0 < out["after"].count()


@pytest.mark.slow
def test_on_arrival_each_batch_emits_its_own_rows(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """On arrival, a batch's rows are what the bounded frame of all batches so far gives them."""
    batches: list[list[tuple[Any, ...]]] = []
    frame = operator(emit="on_arrival").apply(stream(spark, source), event_time="at", backend="memory")

    def keep(batch: DataFrame, _: int) -> None:
        if found := rows(batch):  # the last batch only moves the watermark
            batches.append(found)

    use_up(frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "cp")).start)
    files = sorted(source.glob("*.parquet"))
    for number, (path, found) in enumerate(zip(files, batches, strict=True)):
        so_far = spark.read.parquet(*map(str, files[: number + 1]))
        assert len(found) == spark.read.parquet(str(path)).count()
        assert set(found) <= set(rows(judged(so_far)))


@pytest.mark.slow
def test_late_records_are_handed_over(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """`apply_with_late` reports the records that get no row, whole."""
    windows = RollingWindows("1 second").group_by("k").aggregate(n=agg.count())
    both = windows.apply_with_late(whole(stream(spark, source)), event_time="at")
    counted = {"rows": 0, "late": 0}

    def keep(batch: DataFrame, late: DataFrame, _: int) -> None:
        counted["rows"] += batch.count()
        counted["late"] += late.count()
        assert late.where("reason != 'late' or record.tags is null").count() == 0

    use_up(both.foreach_batch(keep).option("checkpointLocation", str(tmp_path / "cp")).start)
    assert counted["late"] > 0


AS_OF = {"100ms": "100 ms", "1s": "1 second", "ever": "lifetime"}


def labels_of(frame: DataFrame) -> DataFrame:
    """Labels at other times than the records, some of keys that have none, some without a time."""
    key = F.when(F.col("v") % 7 == 0, F.lit("none")).otherwise(F.col("k"))
    later = F.col("at") + F.expr("make_interval(0,0,0,0,0,0,0.007)")
    asked = F.when(F.col("v") % 27 != 3, later).alias("asked_at")
    return frame.where("v % 3 = 0").select(key.alias("k"), asked, F.col("v").alias("label"), "x")


def as_of(labels: DataFrame, records: DataFrame, **given: Any) -> DataFrame:
    """The operator of this test, as of labels."""
    windows = RollingWindows(AS_OF, grace="8 seconds", closed="left")
    operator = windows.group_by("k").aggregate(n=agg.count(), total=agg.sum("v"), high=agg.max("x"))
    return operator.apply_as_of(labels, records, label_time="asked_at", event_time="at", **given)


def joined(labels: DataFrame, records: DataFrame) -> DataFrame:
    """The same by a join and Spark's own aggregates."""
    numbered = labels.withColumn("id", F.monotonically_increasing_id()).cache()
    records = records.select(F.col("k").alias("rk"), "at", F.col("v").alias("rv"), F.col("x").alias("rx"))
    pairs = numbered.join(
        records, F.col("k").eqNullSafe(F.col("rk")) & (F.col("at") < F.col("asked_at")), "left"
    )
    age = F.unix_millis("asked_at") - F.unix_millis("at")
    columns = []
    for name, length in MS.items():
        inside = F.col("at").isNotNull() if length is None else age <= length
        columns += [
            F.when(F.col("asked_at").isNotNull(), F.count(F.when(inside, 1))).alias(f"n_{name}"),
            F.sum(F.when(inside, F.col("rv"))).alias(f"total_{name}"),
            F.max(F.when(inside, F.col("rx"))).alias(f"high_{name}"),
        ]
    return pairs.groupBy("id", "k", "asked_at", "label", "x").agg(*columns).drop("id")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bounded", slow("stream")])
def test_labels_as_of_their_time(spark: SparkSession, source: Path, tmp_path: Path, kind: str) -> None:
    """Each label has the aggregates of the records before it, or nulls if it has no time; in a stream once it is closed."""
    records = spark.read.parquet(str(source))
    expected = joined(labels_of(records), records)
    assert expected.where("asked_at IS NULL").count()
    if kind == "bounded":
        assert rows(expected) == rows(as_of(labels_of(records), records))
        return
    frames = stream(spark, source), stream(spark, source)
    run_query(as_of(labels_of(frames[0]), frames[1], backend="rocksdb"), tmp_path / "out", tmp_path / "cp")
    close = records.selectExpr("date_trunc('MILLISECOND', max(at)) - interval 8 seconds").first()[0]
    found = rows(spark.read.parquet(str(tmp_path / "out")))
    assert rows(expected.where((F.col("asked_at") < F.lit(close)) | F.col("asked_at").isNull())) == found


@pytest.mark.slow
def test_windows_over_rolling_rows(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """The rows' own time is an event time for what follows in the same query."""
    features = operator().apply(stream(spark, source), event_time="at", name="features")
    counts = TumblingWindows("1 second").group_by("k").aggregate(most=agg.max("n_1s"), rows=agg.count())
    query = counts.apply(features, event_time="at", name="counts")
    run_query(query, tmp_path / "out", tmp_path / "cp")
    bounded = operator().apply(spark.read.parquet(str(source)), event_time="at")
    found = rows(spark.read.parquet(str(tmp_path / "out")))
    assert found
    assert set(found) <= set(rows(counts.apply(bounded, event_time="at")))
