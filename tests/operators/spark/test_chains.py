"""Operators one after another in a streaming query: the rows of running them one after the other on what is all there."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import (
    Declaration,
    DefinitionError,
    HoppingWindows,
    KeyedOperator,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    WorkerError,
    what_failed,
)
from operators import aggregates as agg
from tests.effort import slow, soak
from tests.operators.spark.frames import use_up

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("new_york")]
SCHEMA = "k string, at timestamp, v bigint"
FILES, ROWS, SPAN, DISORDER = 2, 80, 40, 8
BASE = 1_699_164_000 - SPAN
"""The second file begins where the clocks of New York go back."""
Step = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, kw_only=True)
class Doubled(KeyedOperator):
    """Emits each record with twice its value, some time after the record if that is wanted."""

    late_by: int = 0

    def schema(self, types):
        return Declaration(
            ["v"], results={"at": "timestamp", "v": "bigint"}, event_time="at", delay=self.late_by
        )

    def process(self, time, record, context):
        yield {"at": self.instant(time), "v": 2 * record["v"]}


@dataclass(frozen=True, kw_only=True)
class Largest(KeyedOperator):
    """Emits the largest value of each event time, when all records up to it were seen."""

    def schema(self, types):
        return Declaration(["v"], results={"at": "timestamp", "largest": "bigint"})

    def process(self, time, record, context):
        context.value = {**(context.value or {}), time: max(record["v"], (context.value or {}).get(time, 0))}
        context.set_timer(time, str(time))

    def on_timer(self, time, name, context):
        yield {"at": self.instant(time), "largest": context.value.pop(time)}


KINDS: dict[str, Callable[..., Any]] = {
    "sliding": lambda **grace: SlidingWindows("10 seconds", **grace),
    "hopping": lambda **grace: HoppingWindows("20 seconds", "5 seconds", **grace),
    "tumbling": lambda **grace: TumblingWindows("7 seconds", **grace),
    "session": lambda **grace: SessionWindows("2 seconds", **grace),
    "session up to a length": lambda **grace: SessionWindows("2 seconds", max_length="20 seconds", **grace),
    "rolling": lambda **grace: RollingWindows("10 seconds", **grace),
}
GRACE = f"{DISORDER} seconds"


def ours(kind: str, name: str = "windows", **grace: str) -> Step:
    windows = KINDS[kind](**grace)
    operator = windows.group_by("k").aggregate(n=agg.count(), total=agg.sum("v"), high=agg.max("v"))
    return lambda df: operator.apply(df, "at", name=name)


def first(kind: str) -> Step:
    return ours(kind, "first", grace=GRACE)


def custom(operator: KeyedOperator, name: str) -> Step:
    return lambda df: operator.group_by("k").apply(df, "at", name=name)


def results() -> list[Any]:
    return [F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("high")]


def spark_window(*lengths: str) -> Step:
    return lambda df: df.groupBy("k", F.window("at", *lengths)).agg(*results())


def spark_session_window(gap: str) -> Step:
    return lambda df: df.groupBy("k", F.session_window("at", gap).alias("window")).agg(*results())


def watermarked(df: DataFrame) -> DataFrame:
    return df.withWatermark("at", GRACE) if df.isStreaming else df


def by(time: str) -> Step:
    """Go on with a time of the windows, and with their number of records as the value."""

    def ended(df: DataFrame) -> DataFrame:
        column = F.window_time("window") if time == "window_time" else F.col(f"window.{time}")
        return df.select("k", column.alias("at"), F.col("n").alias("v"))

    return ended


def beside(df: DataFrame) -> DataFrame:
    """Go on with rolling rows: their own time, and their number of records as the value."""
    return df.select("k", "at", F.col("n").alias("v"))


def deduplicated(df: DataFrame) -> DataFrame:
    return df.dropDuplicatesWithinWatermark(["k", "at"]) if df.isStreaming else df.dropDuplicates(["k", "at"])


def joined_windows(df: DataFrame) -> DataFrame:
    """Two operators over one source, of different sizes, joined where their windows end together."""
    left = by("end")(first("tumbling")(df))
    right = by("end")(ours("hopping", "other", grace=GRACE)(df)).select("k", "at", F.col("v").alias("w"))
    return left.join(right, ["k", "at"]).select("k", "at", (F.col("v") * 100 + F.col("w")).alias("v"))


def windows_and_records(df: DataFrame) -> DataFrame:
    """Windows of an operator and records as they come, in one frame."""
    return watermarked(df).unionByName(by("end")(first("sliding")(df)))


def joined_in_time(df: DataFrame) -> DataFrame:
    """Pairs of records of a key that are up to 3 seconds apart, with the time of the later one."""
    a, b = watermarked(df).alias("a"), watermarked(df).alias("b")
    pairs = a.join(b, F.expr("a.k = b.k and b.at >= a.at and b.at <= a.at + interval 3 seconds"))
    return pairs.select("a.k", "b.at", F.expr("a.v * 10 + b.v").alias("v"))


CHAINS: dict[str, tuple[Step, ...]] = {
    "sliding, sliding": (first("sliding"), by("end"), ours("sliding")),
    "hopping, session": (first("hopping"), by("end"), ours("session")),
    "tumbling, hopping": (first("tumbling"), by("window_time"), ours("hopping")),
    "session, tumbling by start": (first("session up to a length"), by("start"), ours("tumbling")),
    "sliding by start, with grace": (first("sliding"), by("start"), ours("tumbling", grace="1 minute")),
    "sliding, Spark's hopping": (
        first("sliding"),
        by("window_time"),
        spark_window("15 seconds", "5 seconds"),
    ),
    "session, Spark's session": (first("session"), by("end"), spark_session_window("5 seconds")),
    "Spark's tumbling, sliding": (watermarked, spark_window("6 seconds"), by("window_time"), ours("sliding")),
    "Spark's session, session": (
        watermarked,
        spark_session_window("2 seconds"),
        by("window_time"),
        ours("session", grace=GRACE),
    ),
    "three of ours": (first("tumbling"), by("end"), ours("sliding", "b"), by("end"), ours("session", "c")),
    "Spark's between ours": (
        first("sliding"),
        by("end"),
        spark_window("6 seconds"),
        by("window_time"),
        ours("session"),
    ),
    "ours between Spark's": (
        watermarked,
        spark_window("3 seconds"),
        by("window_time"),
        ours("hopping"),
        by("end"),
        spark_window("15 seconds"),
    ),
    "duplicates, sliding": (watermarked, deduplicated, first("sliding")),
    "sliding, duplicates, tumbling": (first("sliding"), by("end"), deduplicated, ours("tumbling")),
    "joined windows, tumbling": (joined_windows, ours("tumbling")),
    "joined in time, sliding": (joined_in_time, ours("sliding", grace=GRACE)),
    "windows and records, tumbling": (windows_and_records, ours("tumbling")),
    "sliding by start, rolling, session": (
        first("sliding"),
        by("start"),
        ours("rolling", "b"),
        beside,
        ours("session", "c"),
    ),
    "rolling, rolling": (first("rolling"), beside, ours("rolling")),
    "session by start, rolling": (first("session up to a length"), by("start"), ours("rolling")),
    "rolling, sliding": (first("rolling"), beside, ours("sliding")),
    "custom, sliding": (custom(Doubled(grace=GRACE), "first"), ours("sliding")),
    "session, custom, tumbling": (first("session"), by("end"), custom(Doubled(), "b"), ours("tumbling", "c")),
}


QUICK = ("sliding by start, rolling, session",)
SOAKED = (
    "session, tumbling by start",
    "Spark's tumbling, sliding",
    "sliding by start, with grace",
    "session, Spark's session",
    "Spark's session, session",
    "ours between Spark's",
    "duplicates, sliding",
    "sliding, duplicates, tumbling",
    "joined in time, sliding",
    "rolling, rolling",
    "session by start, rolling",
    "windows and records, tumbling",
    "session, custom, tumbling",
)
OTHERS = [name for name in CHAINS if name not in (*QUICK, *SOAKED)]
GROUPS = [QUICK, slow(tuple(OTHERS[:5])), slow(tuple(OTHERS[5:])), soak(SOAKED)]


@pytest.fixture(autouse=True, scope="module")
def one_bucket(spark: SparkSession) -> Iterator[None]:
    """Batches of chains are many and small. (Chains of several buckets are killed in tests/faults.)"""
    key = "spark.sql.shuffle.partitions"
    before = spark.conf.get(key)
    spark.conf.set(key, 1)
    yield
    spark.conf.set(key, before)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of records at whole seconds, so that many lie at the bounds of windows and at the watermark itself."""
    folder = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(11)
    for number in range(FILES):
        seconds = number * SPAN + np.sort(rng.integers(0, SPAN, ROWS)) - rng.integers(0, DISORDER + 1, ROWS)
        highest = 0 if number == 0 else number * SPAN - 1
        # Spark's own operators count a record at the watermark itself as late.
        write(folder, number, np.maximum(seconds, highest - DISORDER + 1), rng.integers(0, 3, ROWS))
    return folder


@pytest.fixture(scope="module")
def flushed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same files, and one of a much later record of another key, which closes all windows."""
    folder = tmp_path_factory.mktemp("flushed")
    for path in sorted(source.iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
        os.utime(folder / path.name, (path.stat().st_mtime,) * 2)
    write(folder, FILES, np.array([100_000]), np.array([-1]))
    return folder


def write(folder: Path, number: int, seconds: np.ndarray, keys: np.ndarray) -> None:
    names = [f"k{key}" for key in keys.tolist()]
    at = pa.array((BASE + seconds) * 1_000_000, pa.timestamp("us", "UTC"))
    path = folder / f"part-{number}.parquet"
    pq.write_table(pa.table({"k": names, "at": at, "v": np.arange(len(keys)) % 9}), path)
    os.utime(path, (BASE + number,) * 2)


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def start(frame: DataFrame, folder: Path) -> Any:
    """Start a stream into files."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def run(frame: DataFrame, folder: Path) -> None:
    """Run a stream into files until its input is used up."""
    run_all({folder: frame})


def run_all(frames: Mapping[Path, DataFrame]) -> None:
    """Run streams side by side into files until their input is used up."""
    queries = {folder: start(frame, folder) for folder, frame in frames.items()}
    for folder, frame in frames.items():
        use_up(partial(start, frame, folder), queries[folder])


def plain(df: DataFrame) -> list[str]:
    return sorted(repr(tuple(row)) for row in df.where(F.col("k") != "k-1").collect())


def applied(steps: tuple[Step, ...], df: DataFrame) -> DataFrame:
    return reduce(lambda frame, step: step(frame), steps, df)


@pytest.mark.parametrize("chains", GROUPS, ids=", then ".join)
def test_a_chain_gives_the_rows_of_its_steps(
    spark: SparkSession, source: Path, flushed: Path, tmp_path: Path, chains: tuple[str, ...]
) -> None:
    """None missing, none twice, whoever is first, and whatever lies between. Queries of a group run side by side."""
    frames = {chain: applied(CHAINS[chain], stream(spark, flushed)) for chain in chains}
    run_all({tmp_path / chain: frame for chain, frame in frames.items()})
    whole = spark.read.schema(SCHEMA).parquet(str(source))
    for chain, frame in frames.items():
        expected = plain(applied(CHAINS[chain], whole))
        assert expected
        assert expected == plain(spark.read.schema(frame.schema).parquet(str(tmp_path / chain / "out"))), (
            chain
        )


@pytest.mark.slow
def test_a_chain_goes_on_after_each_batch(
    spark: SparkSession, source: Path, flushed: Path, tmp_path: Path
) -> None:
    """Stopped after each file, with state on disk and in Spark's own store."""

    def chain(df: DataFrame, backend: str) -> DataFrame:
        sliding = SlidingWindows("10 seconds", grace=GRACE).group_by("k").aggregate(n=agg.count())
        tumbling = TumblingWindows("15 seconds").group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
        return tumbling.apply(
            by("end")(sliding.apply(df, "at", backend=backend)), "at", backend=backend, name="b"
        )

    given = tmp_path / "given"
    given.mkdir()
    frames: dict[str, DataFrame] = {}
    for path in sorted(flushed.iterdir()):
        (given / path.name).write_bytes(path.read_bytes())
        frames = {backend: chain(stream(spark, given), backend) for backend in ("rocksdb", "spark")}
        run_all({tmp_path / backend: frame for backend, frame in frames.items()})
    expected = plain(chain(spark.read.schema(SCHEMA).parquet(str(source)), "memory"))
    for backend, frame in frames.items():
        assert expected == plain(spark.read.schema(frame.schema).parquet(str(tmp_path / backend / "out"))), (
            backend
        )


@pytest.mark.slow
def test_the_last_operator_of_a_chain_may_emit_on_update(
    spark: SparkSession, source: Path, flushed: Path, tmp_path: Path
) -> None:
    """The largest count of each window, whose counts only grow, is the final one."""
    operator = HoppingWindows("20 seconds", "10 seconds").group_by("k").aggregate(n=agg.count())
    ends = by("end")(first("sliding")(stream(spark, flushed)))
    frame = operator.emit("on_update").apply(ends, "at")
    run(frame, tmp_path)
    rows = spark.read.schema(frame.schema).parquet(str(tmp_path / "out")).where(F.col("change") == "update")
    ends = by("end")(first("sliding")(spark.read.schema(SCHEMA).parquet(str(source))))
    assert plain(operator.apply(ends, "at")) == plain(rows.groupBy("k", "window").agg(F.max("n")))


@pytest.mark.slow
def test_frames_of_a_chain_can_be_cogrouped(
    spark: SparkSession, source: Path, flushed: Path, tmp_path: Path
) -> None:
    """Windows of another operator, and records as they come."""
    joint = (
        TumblingWindows("15 seconds", grace=GRACE)
        .group_by("k")
        .cogroup(windows={"windows": agg.count()}, records={"records": agg.count(), "total": agg.sum("v")})
    )

    def both(df: DataFrame) -> DataFrame:
        return joint.apply({"windows": by("end")(first("sliding")(df)), "records": df}, "at")

    frame = both(stream(spark, flushed))
    run(frame, tmp_path)
    expected = plain(both(spark.read.schema(SCHEMA).parquet(str(source))))
    assert expected == plain(spark.read.schema(frame.schema).parquet(str(tmp_path / "out")))


@pytest.mark.slow
def test_updates_go_into_a_custom_operator(
    spark: SparkSession, source: Path, flushed: Path, tmp_path: Path
) -> None:
    """Which knows that a window comes several times: the largest counts are those of windows emitted on close."""
    operator = KINDS["tumbling"](grace=GRACE).group_by("k").aggregate(n=agg.count())
    updates = operator.emit("on_update").apply(stream(spark, flushed), "at", name="first")
    frame = Largest().group_by("k").apply(updates.select("*", "window.end", F.col("n").alias("v")), "end")
    run(frame, tmp_path)
    closed = operator.apply(spark.read.schema(SCHEMA).parquet(str(source)), "at")
    assert plain(closed.select("k", "window.end", "n")) == plain(
        spark.read.schema(frame.schema).parquet(str(tmp_path / "out"))
    )


def refused(spark: SparkSession, source: Path) -> Iterator[tuple[str, Callable[[], DataFrame]]]:
    """What cannot be right, with what is said of it."""
    ended = by("end")(first("sliding")(stream(spark, source)))
    hour = F.expr("at + interval 1 hour")
    updates = SlidingWindows("10 seconds").group_by("k").aggregate(n=agg.count()).emit("on_update")
    starts = by("start")(first("session")(stream(spark, source)))
    gaps = SessionWindows(gap_column="v", max_length="20 seconds").group_by("k").aggregate(n=agg.count())
    moving = gaps.apply(stream(spark, source), "at", name="first")
    spark_ends = by("end")(spark_window("6 seconds")(watermarked(stream(spark, source))))
    next_ = ours("tumbling")
    yield "withWatermark after a stateful operator", lambda: next_(ended.withWatermark("at", "1 second"))
    yield "'at' has no watermark, and the frame is the output", lambda: next_(ended.withColumn("at", hour))
    for time in (starts, by("start")(moving), by("end")(moving), by("window_time")(moving)):
        yield "'at' is of sessions, and can lie any time before the watermark", partial(next_, time)
    yield "'at' has no watermark, .*StateStoreSave.*window_time", lambda: next_(spark_ends)
    yield (
        "emitted on update: each comes several times",
        lambda: next_(by("end")(updates.apply(stream(spark, source), "at", name="first"))),
    )


@pytest.mark.slow
def test_what_cannot_be_right_is_refused(spark: SparkSession, source: Path) -> None:
    """When the plan is made, with the way out."""
    for said, plan in refused(spark, source):
        with pytest.raises(DefinitionError, match=said):
            plan()


@pytest.mark.slow
def test_marks_in_files_are_of_no_query(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """A stream of files that a query wrote, read with their schema, has a watermark of its own."""
    first_rows = by("end")(first("sliding")(stream(spark, source)))
    schema = first_rows.schema
    assert any(field.metadata for field in schema)
    tumbling = TumblingWindows("15 seconds").group_by("k").aggregate(n=agg.count())
    frame = tumbling.apply(spark.readStream.schema(schema).parquet(str(source)), "at")
    run(frame, tmp_path)
    assert 0 < spark.read.schema(frame.schema).parquet(str(tmp_path / "out")).count()


@pytest.mark.slow
def test_a_custom_operator_keeps_to_what_it_declares(
    spark: SparkSession, flushed: Path, tmp_path: Path
) -> None:
    """A row that later operators would drop as late fails the batch, and says by how much."""

    @dataclass(frozen=True, kw_only=True)
    class Earlier(Doubled):
        def process(self, time, record, context):
            yield {"at": self.instant(time - 60_000), "v": 0}

    @dataclass(frozen=True, kw_only=True)
    class Wrong(Doubled):
        def schema(self, types):
            return Declaration(["v"], results={"v": "bigint"}, event_time="v")

    with pytest.raises(DefinitionError, match="Wrong declares 'v' as event time"):
        Wrong().group_by("k").apply(stream(spark, flushed), "at")
    frame = Earlier(grace=GRACE).group_by("k").apply(stream(spark, flushed), "at")
    with pytest.raises(
        Exception, match="too early for the operators that follow: declare a longer delay"
    ) as failed:
        run(frame, tmp_path)
    assert "Earlier: event time 'at'" in str(what_failed(failed.value))
    assert WorkerError.__name__ in str(failed.value)
    run(
        Earlier(grace=GRACE, late_by=60_000).group_by("k").apply(stream(spark, flushed), "at"), tmp_path / "b"
    )


@pytest.mark.slow
def test_threads_that_chain_at_once_leave_the_output_of_the_process(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To chain an operator reads the frame's plan. It does not go through what `print` writes to, which all threads share."""
    (tmp_path / "in").mkdir()
    df = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    windows = ours("tumbling")(df)
    before, begin, replaced = sys.stdout, Barrier(4), []

    def chain() -> None:
        begin.wait()
        for _ in range(3):
            second = TumblingWindows("1 minute").aggregate(windows=agg.count())
            second.apply(windows.select("window.end"), "end", name="second")
            replaced.append(sys.stdout is not before)

    threads = [Thread(target=chain) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [False] * 12 == replaced
    assert sys.stdout is before
    assert not capsys.readouterr().out
