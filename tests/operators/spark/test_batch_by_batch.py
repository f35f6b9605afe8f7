"""A stream emits in each batch what the local runner does in the same one: windows come out in the batch that closes them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import (
    Declaration,
    HoppingWindows,
    KeyedOperator,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from tests.effort import slow_but, soak
from tests.operators.spark.frames import stream, use_up, write_numbered, write_source

pytestmark = pytest.mark.spark

FILES = 7
FIRST = datetime(1970, 1, 1)
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


@dataclass(frozen=True, kw_only=True)
class Quiet(KeyedOperator):
    """Emits how many records a key has had, when none has come for a while."""

    def schema(self, types: Any) -> Declaration:
        return Declaration(["v"], results={"at": "timestamp", "n": "bigint"})

    def process(self, time: int, record: Any, context: Any) -> None:
        context.value = (context.value or 0) + 1
        context.set_timer(time + self.ticks("300 ms"))

    def on_timer(self, time: int, name: str, context: Any) -> Iterator[dict[str, Any]]:
        yield {"at": self.instant(time), "n": context.value}


def _results(kind: Any) -> Any:
    return kind.group_by("k").aggregate(n=agg.count(), total=agg.sum("v"), high=agg.max("x"))


KINDS: dict[str, Callable[[], Any]] = {
    "sliding": lambda: _results(SlidingWindows("2 seconds", "2 seconds")),
    "sliding on update": lambda: _results(SlidingWindows("2 seconds", "2 seconds")).emit("on_update"),
    "hopping": lambda: _results(HoppingWindows("3 seconds", "1 second", "2 seconds")),
    "tumbling": lambda: _results(TumblingWindows("3 seconds", "2 seconds")),
    "session": lambda: _results(SessionWindows("100 ms", grace="2 seconds")),
    "rolling": lambda: _results(RollingWindows({"s": "1 second", "ever": "lifetime"}, "2 seconds")),
    "rolling on arrival": lambda: _results(RollingWindows({"s": "1 second"}, "2 seconds")).emit("on_arrival"),
    "timers": lambda: Quiet(grace="2 seconds").group_by("k"),
}


def sorted_rows(table: pa.Table) -> list[str]:
    """Rows as texts, in order."""
    return sorted(map(repr, table.to_pylist()))


def local_batches(operator: Any, source: Path) -> list[list[str]]:
    """The rows of each file, as the local runner emits them."""
    with operator.local_runner("at") as runner:
        files = sorted(source.glob("*.parquet"))
        return [sorted_rows(runner.process(pq.read_table(file))) for file in files]


def stream_batches(frame: DataFrame, checkpoint: Path) -> list[list[str]]:
    """The rows of each batch that has any."""
    found: dict[int, list[str]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        found[number] = sorted_rows(batch.toArrow())

    use_up(frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint)).start)
    return [rows for _, rows in sorted(found.items())]


@contextmanager
def batches_without_data(spark: SparkSession, *, enabled: bool) -> Iterator[None]:
    """Spark's batches that only move the watermark, which follow each batch of data by default."""
    before = spark.conf.get(NO_DATA)
    spark.conf.set(NO_DATA, str(enabled).lower())
    yield
    spark.conf.set(NO_DATA, before or "true")


@pytest.mark.parametrize(
    "kind", slow_but(["sliding"], KINDS, soaked=["sliding on update", "hopping", "rolling"])
)
@pytest.mark.parametrize("no_data", [False, soak(True)])
def test_each_batch_emits_what_the_local_runner_does(
    spark: SparkSession, tmp_path: Path, kind: str, no_data: bool
) -> None:
    """Records are late by up to three seconds, a second more than grace; batches without data emit nothing."""
    files = FILES if no_data else 5
    write_source(tmp_path / "in", files=files, rows=150, seed=len(kind))
    operator = KINDS[kind]()
    expected = local_batches(operator, tmp_path / "in")
    assert sum(map(bool, expected)) >= files - 1
    with batches_without_data(spark, enabled=no_data):
        frame = operator.apply(stream(spark, tmp_path / "in"), event_time="at")
        found = stream_batches(frame, tmp_path / "checkpoint")
    assert found == ([*expected, []] if no_data else expected)


def write_two(folder: Path) -> tuple[list[pa.Table], list[pa.Table]]:
    """Write two sources, of which first one and then the other is ahead, and return their tables."""
    write_source(folder / "left", files=FILES, rows=100, seed=1)
    write_source(folder / "right", files=FILES, rows=100, seed=2)
    for number, path in enumerate(sorted((folder / "right").glob("*.parquet"))):
        table = pq.read_table(path)
        shift_us = 25_000_000 if number % 3 else 0
        words = pc.add(table["at"].cast(pa.int64()), shift_us)
        write_numbered(
            table.set_column(1, "at", words.cast(pa.timestamp("us", "UTC"))), folder / "right", number
        )
    left, right = (
        [pq.read_table(path) for path in sorted((folder / name).glob("*.parquet"))]
        for name in ("left", "right")
    )
    return left, right


def cogrouped(spark: SparkSession, folder: Path) -> tuple[DataFrame, list[list[str]]]:
    """Windows over both sources: the stream, and what the local runner emits of each batch."""
    left, right = write_two(folder)
    operator = (
        SlidingWindows("2 seconds", "2 seconds")
        .group_by("k")
        .cogroup(left={"n": agg.count()}, right={"m": agg.count(), "high": agg.max("v")})
    )
    with operator.local_runner("at") as runner:
        batches = [{"left": one, "right": two} for one, two in zip(left, right, strict=True)]
        expected = [sorted_rows(runner.process(batch)) for batch in batches]
    frames = {name: stream(spark, folder / name) for name in ("right", "left")}
    return operator.apply(frames, event_time="at"), expected


def labelled(spark: SparkSession, folder: Path) -> tuple[DataFrame, list[list[str]]]:
    """Labels of one source, with what the other one has had by their time."""
    labels, records = write_two(folder)
    labels = [table.select(["k", "at", "v"]) for table in labels]
    operator = (
        RollingWindows("2 seconds", "2 seconds").group_by("k").aggregate(n=agg.count(), high=agg.max("x"))
    )
    with operator.local_runner_as_of("at", "at") as runner:
        expected = [sorted_rows(runner.process(*batch)) for batch in zip(labels, records, strict=True)]
    frames = [stream(spark, folder / name) for name in ("left", "right")]
    return operator.apply_as_of(frames[0].select("k", "at", "v"), frames[1], "at", "at"), expected


@pytest.mark.slow
@pytest.mark.parametrize("of_two", ["cogrouped", soak("labelled")])
def test_of_two_inputs_the_slower_one_counts(spark: SparkSession, tmp_path: Path, of_two: str) -> None:
    """Each bucket knows how far each input has come."""
    frame, expected = {"cogrouped": cogrouped, "labelled": labelled}[of_two](spark, tmp_path)
    assert sum(map(bool, expected)) >= FILES - 1
    with batches_without_data(spark, enabled=False):
        assert expected == stream_batches(frame, tmp_path / "checkpoint")


@pytest.mark.slow
def test_united_streams_wait_for_the_slower_watermark(spark: SparkSession, tmp_path: Path) -> None:
    """Streams with watermarks of their own, united before `apply`: as Spark has it, a batch later."""
    left, right = write_two(tmp_path)
    frames = [stream(spark, tmp_path / name).withWatermark("at", "2 seconds") for name in ("left", "right")]
    operator, nothing = KINDS["sliding"](), left[0].slice(0, 0)
    expected, highest = [], []
    with operator.local_runner("at") as runner:
        for batch in zip(left, right, strict=True):
            slower = min(highest, default=None)
            steps = [nothing, pa.concat_tables(batch)] if highest else [pa.concat_tables(batch)]
            emitted = [runner.process(table, slower or FIRST) for table in steps]
            expected.append(sorted_rows(pa.concat_tables(emitted)))
            tops = [pc.max(table["at"]).as_py() for table in batch]
            highest = [max(pair) for pair in zip(highest or tops, tops, strict=True)]
    with batches_without_data(spark, enabled=False):
        frame = operator.apply(frames[0].union(frames[1]), event_time="at")
        assert expected == stream_batches(frame, tmp_path / "checkpoint")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tumbling", soak("hopping")])
def test_a_chain_emits_in_the_same_batch_from_end_to_end(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Where the first operator has rows up to each end of the second one's windows, which close with these rows."""
    write_source(tmp_path / "in", files=FILES, rows=300, seed=5)
    first = _results(
        TumblingWindows("500 ms", "2 seconds")
        if kind == "tumbling"
        else HoppingWindows("2 seconds", "500 ms", "2 seconds")
    )
    second = TumblingWindows("3 seconds").group_by("k").aggregate(windows=agg.count(), records=agg.sum("n"))
    expected = []
    with first.local_runner("at") as before, second.local_runner("end") as after:
        for file in sorted((tmp_path / "in").glob("*.parquet")):
            rows = before.process(pq.read_table(file))
            ends = pc.struct_field(rows["window"], "end").cast(pa.timestamp("us", "UTC"))
            times = pc.subtract(ends.cast(pa.int64()), 1).cast(pa.timestamp("us", "UTC"))
            table = pa.table({"k": rows["k"], "n": rows["n"], "end": times})
            expected.append(sorted_rows(after.process(table, stream_time=before.close_time)))
    assert sum(map(bool, expected)) >= FILES - 2
    inner = first.apply(stream(spark, tmp_path / "in"), event_time="at", name="first")
    frame = second.apply(inner.select("k", "n", F.window_time("window").alias("end")), event_time="end")
    with batches_without_data(spark, enabled=False):
        assert expected == stream_batches(frame, tmp_path / "checkpoint")
