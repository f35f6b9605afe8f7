"""Streaming queries on a real session, against the bounded result of the same records."""

import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from operators import SlidingWindows, TumblingWindows, read_windows
from operators import aggregates as agg
from state_backends import StateError
from state_backends.backends.memory import MemoryBackend
from state_backends.durability.durable import Durable
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.journal import MemoryJournal
from tests.effort import soak
from tests.operators.spark.frames import (
    BASE_US,
    can_read_state,
    closed_rows,
    operator,
    rows,
    run_query,
    stream,
    use_up,
    write_numbered,
    write_source,
)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six files of records."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=6, rows=2_000, seed=1)
    return folder


@pytest.mark.parametrize("backend", ["rocksdb", soak("memory"), soak("spark")])
def test_stream_closes_what_the_bounded_frame_says(
    spark: SparkSession, source: Path, tmp_path: Path, backend: str
) -> None:
    """On close, a stream emits exactly the bounded frame's windows that end before its close time; the others are open."""
    query = run_query(
        operator().apply(stream(spark, source), event_time="at", backend=backend),
        tmp_path / "out",
        tmp_path / "cp",
    )
    closed = rows(spark.read.parquet(str(tmp_path / "out")))
    assert closed_rows(spark, source) == closed
    metrics = [p["observedMetrics"] for p in query.recentProgress if p["observedMetrics"]]
    assert 12_000 == sum(m["windows_in"]["counts"]["rows"] for m in metrics)
    assert 0 == sum(m["windows_out"]["counts"]["late"] + m["windows_in"]["counts"]["bad"] for m in metrics)
    if can_read_state(spark):
        bounded = spark.read.parquet(str(source))
        still_open = rows(read_windows(tmp_path / "cp", operator(), bounded, "at"))
        assert still_open
        assert sorted([*closed, *still_open], key=repr) == rows(operator().apply(bounded, event_time="at"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["spark", soak("memory"), soak("rocksdb")])
def test_updates_end_at_the_bounded_values(
    spark: SparkSession, source: Path, tmp_path: Path, backend: str
) -> None:
    """On update, the last row of every window is the bounded frame's row."""
    frame = operator("on_update").apply(stream(spark, source), event_time="at", backend=backend)
    seen: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def keep(batch: Any, _: int) -> None:
        for row in rows(batch.drop("sequence")):
            seen[row[:3]] = row

    use_up(frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "cp")).start)
    bounded = operator("on_update").apply(spark.read.parquet(str(source)), event_time="at")
    assert rows(bounded.drop("sequence")) == sorted(seen.values(), key=repr)


@pytest.mark.slow
def test_a_query_goes_on_with_another_backend(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """A query that is stopped and started again with another backend ends with the same rows."""
    for files, backend in ((2, "memory"), (4, "rocksdb"), (6, "memory")):
        partial = tmp_path / "in"
        partial.mkdir(exist_ok=True)
        for path in sorted(source.glob("*.parquet"))[:files]:
            shutil.copy2(path, partial / path.name)
        frame = operator().apply(stream(spark, partial), event_time="at", backend=backend)
        run_query(frame, tmp_path / "out", tmp_path / "cp")
    assert closed_rows(spark, source) == rows(spark.read.parquet(str(tmp_path / "out")))


@pytest.mark.slow
def test_backend_is_chosen_by_conf(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """The conf `spark.windows.state.backend` and its options choose the backend; the argument goes before it."""
    before = spark.conf.get("spark.windows.state.directory")
    spark.conf.set("spark.windows.state.backend", "rocksdb")
    spark.conf.set("spark.windows.state.rocksdb.writeBufferMb", "8")
    spark.conf.set("spark.windows.state.directory", str(tmp_path / "here"))
    try:
        frame = operator().apply(stream(spark, source, 6), event_time="at")
        run_query(frame, tmp_path / "out", tmp_path / "cp")
    finally:
        spark.conf.unset("spark.windows.state.backend")
        spark.conf.unset("spark.windows.state.rocksdb.writeBufferMb")
        spark.conf.set("spark.windows.state.directory", before)
    assert list((tmp_path / "here").glob("*/*-rocksdb/CURRENT"))


@pytest.mark.slow
def test_bad_and_late_rows_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    """Rows without event time and late rows do not stop a stream; progress counts them."""
    base = datetime(2024, 1, 1)
    batches = [
        [("a", base), ("a", None), (None, base)],
        [("a", base + timedelta(minutes=5))],
        [("a", base), ("b", None)],
    ]
    for number, batch in enumerate(batches):
        spark.createDataFrame(batch, "k string, at timestamp").coalesce(1).write.mode("append").parquet(
            str(tmp_path / f"in/{number}")
        )
    frame = (
        spark.readStream.schema("k string, at timestamp")
        .option("maxFilesPerTrigger", 1)
        .option("latestFirst", "false")
        .parquet(str(tmp_path / "in/*"))
    )
    op = SlidingWindows(size="1 second").group_by("k").aggregate(n=agg.count())
    query = run_query(op.apply(frame, event_time="at"), tmp_path / "out", tmp_path / "cp")
    metrics = [p["observedMetrics"] for p in query.recentProgress if p["observedMetrics"]]
    assert 2 == sum(m["windows_in"]["counts"]["bad"] for m in metrics)
    assert 1 == sum(m["windows_out"]["counts"]["late"] for m in metrics)
    windows = spark.read.parquet(str(tmp_path / "out"))
    assert [("a", 1), (None, 1)] == sorted(((r.k, r.n) for r in windows.collect()), key=repr)


@pytest.mark.slow
def test_windows_close_at_the_stream_time_of_the_local_runner(spark: SparkSession, tmp_path: Path) -> None:
    """The record that is exactly at a window's end, plus grace, closes it: not one a millisecond later."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    tables = [pa.table({"at": [BASE_US + ms * 1_000 for ms in batch]}, schema) for batch in ((3, 9), (15,))]
    (tmp_path / "in").mkdir()
    for number, table in enumerate(tables):
        write_numbered(table, tmp_path / "in", number)
    op = TumblingWindows("10 ms", grace="5 ms").aggregate(n=agg.count())
    frame = spark.readStream.schema("at timestamp").option("maxFilesPerTrigger", 1)
    run_query(op.apply(frame.parquet(str(tmp_path / "in")), "at"), tmp_path / "out", tmp_path / "cp")
    with op.local_runner("at") as runner:
        local = [row["n"] for table in tables for row in runner.process(table).to_pylist()]
    assert [2] == local == [row.n for row in spark.read.parquet(str(tmp_path / "out")).collect()]


@pytest.mark.slow
def test_state_is_gone_when_all_windows_have_closed(spark: SparkSession, tmp_path: Path) -> None:
    """A record far in the future closes every window and leaves one pane, whatever its bucket."""
    base = datetime(2024, 1, 1)
    records = [(f"k{n}", base + timedelta(seconds=n)) for n in range(50)]
    for number, batch in enumerate([records, [("end", base + timedelta(days=400))]]):
        spark.createDataFrame(batch, "k string, at timestamp").coalesce(1).write.parquet(
            str(tmp_path / f"in/{number}")
        )
    frame = spark.readStream.schema("k string, at timestamp").option("maxFilesPerTrigger", 1)
    op = SlidingWindows(size="1 second").group_by("k").aggregate(n=agg.count())
    options = {"state.directory": tmp_path / "state"}
    windows = op.apply(
        frame.parquet(str(tmp_path / "in/*")), event_time="at", backend="rocksdb", options=options
    )
    run_query(windows, tmp_path / "out", tmp_path / "cp")
    assert 50 == spark.read.parquet(str(tmp_path / "out")).count()
    assert not can_read_state(spark) or 1 == stored_pages(spark, tmp_path / "cp")


def stored_pages(spark: SparkSession, checkpoint: Path) -> int:
    """Return how many pages the state in a checkpoint has, restored from each bucket's changelog."""
    reader = spark.read.format("statestore").option("stateVarName", "journal")
    blobs: dict[int, dict[str, dict[int, bytes]]] = {}
    for row in reader.load(str(checkpoint)).collect():
        parts = blobs.setdefault(row.key.bucket, {}).setdefault(row.user_map_key.name, {})
        parts[row.user_map_key.part] = bytes(row.user_map_value.blob)
    pages = 0
    for named in blobs.values():
        journal, backend = MemoryJournal(), MemoryBackend()
        for name, parts in named.items():
            journal.put(name, b"".join(parts[n] for n in sorted(parts)))
        Durable(backend, "memory", Path("unused")).align(journal, read_pointer(journal) or Pointer.fresh())
        pages += sum(len(list(backend.iterate(segment))) for segment in backend.segments())
    return pages


@pytest.mark.slow
def test_other_number_of_buckets_is_refused(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """A checkpoint with another number of buckets is refused, with both numbers in the message."""
    run_query(operator().apply(stream(spark, source, 6), event_time="at"), tmp_path / "out", tmp_path / "cp")
    more = tmp_path / "more"
    write_source(more, files=7, rows=50, seed=3)
    with pytest.warns(UserWarning, match="5 buckets"):
        frame = operator().apply(stream(spark, more, 7), event_time="at", options={"state.buckets": 5})
    with pytest.raises(Exception, match="has 3 buckets, but this query has 5") as caught:
        run_query(frame, tmp_path / "out", tmp_path / "cp")
    assert StateError.__name__ in str(caught.value)


@pytest.mark.slow
def test_other_window_size_is_refused(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """A checkpoint of another window size is refused, naming what differs."""
    op = SlidingWindows(size="2 seconds", grace="8 seconds").group_by("k").aggregate(n=agg.count())
    run_query(op.apply(stream(spark, source, 6), event_time="at"), tmp_path / "out", tmp_path / "cp")
    more = tmp_path / "more"
    write_source(more, files=7, rows=50, seed=3)
    other = SlidingWindows(size="3 seconds", grace="8 seconds").group_by("k").aggregate(n=agg.count())
    with pytest.raises(Exception, match="size was 2 seconds, is 3 seconds"):
        run_query(other.apply(stream(spark, more, 7), event_time="at"), tmp_path / "out", tmp_path / "cp")


def test_transform_and_column_names(spark: SparkSession) -> None:
    """An operator works in DataFrame.transform, with column names that need quoting and a key of several columns."""
    frame = spark.createDataFrame(
        [Row(**{"the key": "a", "b.c": 1, "event time": datetime(2024, 1, 1), "v v": 2.5})]
    )
    op = SlidingWindows(size="1 minute").group_by("the key", "b.c").aggregate(**{"sum of v": agg.sum("v v")})
    windows = frame.transform(op.apply, event_time="event time")
    assert ["the key", "b.c", "window", "sum of v"] == windows.columns
    assert [("a", 1, 2.5)] == [(r["the key"], r["b.c"], r["sum of v"]) for r in windows.collect()]


@pytest.mark.slow
def test_bounded_frame_with_one_large_key(spark: SparkSession) -> None:
    """A key with more rows than one step takes gives the same windows as it would in one step."""
    count = 600_000
    frame = spark.range(count).select(
        F.lit("big").alias("k"),
        F.timestamp_millis(F.col("id") * 7 % (count * 3)).alias("at"),
        F.col("id").alias("v"),
    )
    op = SlidingWindows(size=20).group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    windows = op.apply(frame.coalesce(2), event_time="at")
    left = windows.where("unix_millis(window.end) % 7 = 0 and unix_millis(window.start) >= 0")
    got = windows.agg(F.count("*"), F.sum("n"), F.countDistinct("window")).first()
    assert got is not None
    assert got[0] == got[2]
    direct = frame.alias("a").groupBy("at").count().count()
    assert direct <= got[0] <= 2 * direct
    assert 0 < left.count() <= got[0]


@pytest.mark.slow
def test_times_without_zone(spark: SparkSession, tmp_path: Path) -> None:
    """A stream of timestamps without zone gives windows without zone, across a change of the session's clock."""
    times = [
        datetime(2024, 3, 10, 1, 30) + timedelta(minutes=30 * n, microseconds=1_500 * n) for n in range(8)
    ]
    folder = str(tmp_path / "in")
    spark.createDataFrame([("a", at) for at in times], "k string, at timestamp_ntz").coalesce(
        1
    ).write.parquet(folder)
    op = SlidingWindows(size="31 minutes").group_by("k").aggregate(n=agg.count(), first=agg.min("at"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.readStream.schema("k string, at timestamp_ntz").parquet(folder)
        run_query(op.apply(frame, event_time="at"), tmp_path / "out", tmp_path / "cp")
        got = rows(spark.read.parquet(str(tmp_path / "out")))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    bounded = op.apply(spark.read.parquet(folder), event_time="at")
    expected = rows(bounded.where(bounded["window"]["end"] < times[-1].replace(microsecond=10_000)))
    assert expected == got
    assert 7 <= len(got)
