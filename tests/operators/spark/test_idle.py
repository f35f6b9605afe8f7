"""Quiet streams: windows that the clock closes, because no records come that could."""

import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from operators import DefinitionError, TumblingWindows
from operators import aggregates as agg
from tests.effort import slow, soak
from tests.operators.spark.frames import (
    SCHEMA,
    closed_rows,
    operator,
    rows,
    stream,
    write_numbered,
    write_source,
)
from tests.patience import TOO_BUSY, TRIES

pytestmark = pytest.mark.spark
IDLE, QUIET_S = "3 seconds", 3.5
FILES = 3


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_source(tmp_path / "in", FILES, 200, seed=5)
    return tmp_path / "in"


def run(out: DataFrame, folder: Path) -> Any:
    """Read all that is there, and stop; begin again if the machine is too busy for Spark."""
    writer = out.writeStream.format("parquet").option("path", str(folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    for left in reversed(range(TRIES)):
        query = writer.start()
        try:
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            if not left or TOO_BUSY not in str(error):
                raise
    return query


def whole(spark: SparkSession, source: Path) -> DataFrame:
    return spark.read.schema(SCHEMA).parquet(str(source))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sliding", soak("session")])
def test_the_last_windows_come_out_when_nothing_comes(
    spark: SparkSession, source: Path, tmp_path: Path, kind: str
) -> None:
    """First what the watermark closes, though the records are years old; once it is quiet, the rest. Late is who comes then."""
    op = operator(kind=kind)
    # With an idle time that no machine is too busy for: it may be another one in each run.
    run(op.apply(stream(spark, source), "at", backend="rocksdb", idle="1 hour"), tmp_path)
    out = op.apply(stream(spark, source), "at", backend="rocksdb", idle=IDLE)
    found = spark.read.schema(out.schema).parquet(str(tmp_path / "out"))
    assert closed_rows(spark, source, kind) == rows(found)

    time.sleep(QUIET_S)
    run(out, tmp_path)
    everything = rows(op.apply(whole(spark, source), "at"))
    found = spark.read.schema(out.schema).parquet(str(tmp_path / "out"))
    assert everything == rows(found)

    last = whole(spark, source).orderBy("at").toArrow()
    write_numbered(last.slice(last.num_rows - 2), source, FILES)
    query = run(out, tmp_path)
    assert 2 == sum(batch.observedMetrics["windows_out"]["counts"]["late"] for batch in query.recentProgress)
    assert everything == rows(spark.read.schema(out.schema).parquet(str(tmp_path / "out")))


@pytest.mark.slow
def test_a_batch_that_fails_closes_the_same_windows_again(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Its clock is that of its first attempt, however late the query is started again."""
    out = operator().apply(stream(spark, source), "at", idle=IDLE)
    written: dict[int, list[Any]] = {}
    failed: dict[int, list[Any]] = {}

    def write(batch: DataFrame, number: int, *, is_down: bool) -> None:
        emitted = rows(batch)
        if emitted and is_down:
            failed[number] = emitted
            raise ConnectionError("the table is away")
        written[number] = emitted

    for is_down in (False, True, False):
        writer = out.writeStream.foreachBatch(partial(write, is_down=is_down))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        with suppress(StreamingQueryException):
            writer.trigger(availableNow=True).start().awaitTermination()
        time.sleep(QUIET_S)
    (number,) = failed
    assert failed[number] == written[number]
    everything = sorted([row for emitted in written.values() for row in emitted], key=repr)
    assert rows(operator().apply(whole(spark, source), "at")) == everything


def write_ago(folder: Path, number: int, *minutes: int) -> None:
    """Write a file with a record of so many minutes ago for each number."""
    at = pa.array([round((time.time() - 60 * ago) * 1e6) for ago in minutes], pa.timestamp("us", "UTC"))
    values = {"k": ["a"] * len(at), "at": at, "v": [1] * len(at), "x": [1.0] * len(at)}
    folder.mkdir(exist_ok=True)
    write_numbered(pa.table(values), folder, number)


def counted(query: Any, name: str, metric: str) -> int:
    return sum(batch.observedMetrics[name]["counts"][metric] for batch in query.recentProgress)


@pytest.mark.slow
def test_an_outage_that_is_longer_than_idle_takes_nothing_from_grace(
    spark: SparkSession, tmp_path: Path
) -> None:
    """After a silence, the clock closes what grace has closed by now; a record that grace allows for is counted."""
    op = TumblingWindows("10 minutes", grace="1 hour").group_by("k").aggregate(n=agg.count())
    write_ago(tmp_path / "in", 0, 90)
    out = op.apply(stream(spark, tmp_path / "in"), "at", idle="1 second")
    run(out, tmp_path)
    time.sleep(1.5)
    run(out, tmp_path)
    assert 1 == spark.read.schema(out.schema).parquet(str(tmp_path / "out")).count()
    write_ago(tmp_path / "in", 1, 30, 85)
    query = run(out, tmp_path)
    assert 1 == counted(query, "windows_out", "late"), "of 85 minutes ago"
    assert 1 == query.recentProgress[0].observedMetrics["windows_out"]["counts"]["live_panes"], (
        "of 30 minutes ago"
    )


@pytest.mark.slow
def test_in_a_chain_the_clock_leaves_open_what_the_first_operator_may_still_emit(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first one's windows come out an hour after their end if it gets quiet: for the second one they are not late."""
    first = TumblingWindows("1 minute").group_by("k").aggregate(n=agg.count())
    second = TumblingWindows("10 minutes").group_by("k").aggregate(n=agg.sum("n"))
    write_ago(tmp_path / "in", 0, 50)
    inner = first.apply(stream(spark, tmp_path / "in"), "at", name="inner", idle="1 hour")
    out = second.apply(inner.select("k", "n", "window.end"), "end", name="outer", idle="1 second")
    run(out, tmp_path)
    write_ago(tmp_path / "in", 1, 40)
    assert 1 == counted(run(out, tmp_path), "outer_out", "rows")
    time.sleep(1.5)
    run(out, tmp_path)
    write_ago(tmp_path / "in", 2, 20)
    query = run(out, tmp_path)
    found = [counted(query, "outer_out", metric) for metric in ("rows", "late")]
    assert [1, 0] == found


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [1, soak(3)])
def test_in_a_chain_the_clock_waits_while_the_first_operator_reads_a_backlog(
    spark: SparkSession, tmp_path: Path, buckets: int
) -> None:
    """Records of days ago come one file at a time, and the first windows are open: none of them is late for the second."""
    first = TumblingWindows("1 day").group_by("k").aggregate(n=agg.count())
    second = TumblingWindows("2 days").group_by("k").aggregate(n=agg.sum("n"))
    with_idle: dict[str, Any] = {"idle": "1 second", "options": {"state.buckets": buckets}}
    (tmp_path / "in").mkdir()
    inner = first.apply(stream(spark, tmp_path / "in"), "at", name="inner", **with_idle)
    out = second.apply(inner.select("k", "n", "window.end"), "end", name="outer", **with_idle)
    day, late = 24 * 60, 0
    begin = (int(time.time()) // 86_400 - 10) * 86_400
    for number, minutes in enumerate((10, 20, 30, 4 * day)):
        at = pa.array([(begin + 60 * minutes) * 1_000_000], pa.timestamp("us", "UTC"))
        write_numbered(pa.table({"k": ["a"], "at": at, "v": [1], "x": [1.0]}), tmp_path / "in", number)
        late += counted(run(out, tmp_path), "outer_out", "late")
        time.sleep(1.5)
    run(out, tmp_path)
    assert late == 0
    found = spark.read.schema(out.schema).parquet(str(tmp_path / "out"))
    assert 3 in [row["n"] for row in found.collect()]


@pytest.mark.slow
def test_the_number_of_buckets_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """One bucket or five, of which some have no state when the clock closes windows: the same rows, and the same late ones."""
    first = TumblingWindows("10 minutes", grace="1 hour").group_by("k").aggregate(n=agg.count())
    begin, keys = time.time(), "abcdefgh"
    batches = [{key: [390] for key in keys[:1]}, {}, {key: [385, 30] for key in keys}, {}]
    found = []
    for buckets in (1, 5):
        home = tmp_path / str(buckets)
        (home / "in").mkdir(parents=True)
        with_idle: dict[str, Any] = {"idle": "1 second", "options": {"state.buckets": buckets}}
        rows_of = first.apply(stream(spark, home / "in"), "at", name="inner", **with_idle)
        late = []
        for number, batch in enumerate(batches):
            flat = [(key, round((begin - 60 * ago) * 1e6)) for key, times in batch.items() for ago in times]
            if flat:
                at = pa.array([time for _, time in flat], pa.timestamp("us", "UTC"))
                ones = [1] * len(flat)
                table = pa.table({"k": [key for key, _ in flat], "at": at, "v": ones, "x": [1.0] * len(flat)})
                write_numbered(table, home / "in", number)
            else:
                time.sleep(1.5)
            late.append(counted(run(rows_of, home), "inner_out", "late"))
        found.append((late, rows(spark.read.schema(rows_of.schema).parquet(str(home / "out")))))
    assert found[0] == found[1]
    assert [0, 0, len(keys), 0] == found[0][0]
    assert found[0][1]


@pytest.mark.soak
def test_a_chain_drains_operator_by_operator(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """Windows over windows: when the first ones have come out, and it is quiet, so do the second ones."""
    first = TumblingWindows("1 second", grace="2 seconds").group_by("k").aggregate(n=agg.count())
    second = TumblingWindows("4 seconds").group_by("k").aggregate(n=agg.sum("n"), windows=agg.count())

    def chained(df: DataFrame, **idle: str) -> DataFrame:
        inner = first.apply(df, "at", name="inner", **idle).select("k", "n", "window.end")
        return second.apply(inner, "end", name="outer", **idle)

    for _ in range(5):  # The second operator closes windows by the clock of the batch before.
        run(chained(stream(spark, source), idle=IDLE), tmp_path)
        time.sleep(QUIET_S)
    out = spark.read.schema(chained(whole(spark, source)).schema).parquet(str(tmp_path / "out"))
    assert rows(chained(whole(spark, source))) == rows(out)


@pytest.mark.slow
def test_a_running_query_closes_by_itself(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """No batch has records any more: heartbeats start those that emit the last windows, and late records are told."""
    op = operator()
    both = op.apply_with_late(stream(spark, source), "at", idle="1 second")
    writer = both.rows.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    expected = op.apply(whole(spark, source), "at")
    deadline = time.monotonic() + 120
    try:
        while time.monotonic() < deadline:
            time.sleep(1)
            out = spark.read.schema(both.rows.schema).parquet(str(tmp_path / "out"))
            if out.count() == expected.count():
                break
    finally:
        query.stop()
    assert rows(expected) == rows(out.drop("late"))


@pytest.mark.parametrize(
    ("idle", "message"),
    [
        ("soon", "idle is 'soon'"),
        (0, "idle is 0: it must be positive"),
        (
            10,
            "idle is 10, which is 10 ms, since .*: give text such as '10 seconds', or '10 ms' if you mean that",
        ),
        slow("-1 minute", "idle"),
    ],
)
def test_mistakes(spark: SparkSession, source: Path, idle: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        operator().apply(stream(spark, source), "at", idle=idle)


def test_bounded_frames_have_no_clock(spark: SparkSession, source: Path) -> None:
    frame = whole(spark, source)
    for apply in (operator().apply, operator().apply_with_late):
        with pytest.raises(DefinitionError, match=r"idle is for streams: .*\. Leave idle out"):
            apply(frame, "at", idle="1 minute")
