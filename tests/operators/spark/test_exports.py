"""Savepoints of stopped queries begin a stream where the old one would have gone on: its batch, and its close times."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from operators import RollingWindows, TumblingWindows, read_windows
from operators import aggregates as agg
from serializers.keys import bucket_of, encode_keys
from state_backends import StateError, read_state, summarize_state, write_savepoint
from tests.effort import slow_but
from tests.operators.spark.frames import rows, run_query, write_numbered

pytestmark = pytest.mark.spark
SCHEMA = "k string, at timestamp"
BASE = datetime(2024, 1, 1, tzinfo=timezone.utc).timestamp()
PARTS: list[list[float]] = [[1, 2, 11, 35], [5, 34, 36, 41, 55], [500]]
"""Seconds of the records of each file: of the second one, the first two are late."""
FIRST = TumblingWindows("10 seconds").group_by("k").aggregate(n=agg.count())
LATER: dict[str, Any] = {
    "tumbling": TumblingWindows("2 seconds").group_by("k").aggregate(n=agg.sum("n")),
    "rolling": RollingWindows({"long": "1 minute"}).group_by("k").aggregate(total=agg.sum("n")),
}


def source(spark: SparkSession, folder: Path, *numbers: int) -> DataFrame:
    """A stream of some files, one for each batch."""
    folder.mkdir(parents=True)
    for number in numbers:
        at = [round((BASE + second) * 1e6) for second in PARTS[number]]
        table = pa.table({"k": ["a"] * len(at), "at": pa.array(at, pa.timestamp("us", "UTC"))})
        write_numbered(table, folder, number)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def chain(df: DataFrame, later: Any, savepoints: tuple[str, str] = ("", "")) -> DataFrame:
    """Windows, by their start: they come as late as a window is long after the watermark."""
    options = [{"state.savepoint": uri} for uri in savepoints]
    first = FIRST.apply(df, "at", name="first", options=options[0])
    return later.apply(first.selectExpr("k", "window.start AS at", "n"), "at", options=options[1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(["tumbling"], LATER, ["rolling"]))
def test_operators_of_a_chain_go_on_from_their_own_close_times(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """The rows of two queries, the second from savepoints of the first, are those of one query that was never stopped."""
    later = LATER[kind]
    run_query(chain(source(spark, tmp_path / "all", 0, 1, 2), later), tmp_path / "whole", tmp_path / "cp-0")

    frame = chain(source(spark, tmp_path / "before", 0), later)
    run_query(frame, tmp_path / "parts" / "1", tmp_path / "cp-1")
    saved = [
        write_savepoint(tmp_path / "cp-1", tmp_path / f"savepoint-{number}", operator=number)
        for number in (1, 0)
    ]
    base = round(BASE * 1_000)
    assert [35_000, 25_001] == [one.close_time - base for one in saved]

    frame = chain(source(spark, tmp_path / "after", 1, 2), later, (saved[0].uri, saved[1].uri))
    run_query(frame, tmp_path / "parts" / "2", tmp_path / "cp-2")
    found = spark.read.schema(frame.schema).parquet(*map(str, (tmp_path / "parts").iterdir()))
    assert rows(spark.read.schema(frame.schema).parquet(str(tmp_path / "whole"))) == rows(found)


@pytest.mark.slow
def test_the_watermark_after_the_last_batch_counts(spark: SparkSession, tmp_path: Path) -> None:
    """It decides which records of the next batch are late, also if no batch has emitted what it closes."""
    setting = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(setting, "false")
    try:
        whole = FIRST.apply(source(spark, tmp_path / "all", 0, 1, 2), "at")
        run_query(whole, tmp_path / "whole", tmp_path / "cp-0")
        run_query(
            FIRST.apply(source(spark, tmp_path / "in-1", 0), "at"), tmp_path / "out-1", tmp_path / "cp-1"
        )
        saved = write_savepoint(tmp_path / "cp-1", tmp_path / "savepoint")
        options = {"state.savepoint": saved.uri}
        frame = FIRST.apply(source(spark, tmp_path / "in-2", 1, 2), "at", options=options)
        run_query(frame, tmp_path / "out-2", tmp_path / "cp-2")
    finally:
        spark.conf.unset(setting)
    outs = [spark.read.schema(frame.schema).parquet(str(tmp_path / f"out-{number}")) for number in (1, 2)]
    assert rows(spark.read.schema(frame.schema).parquet(str(tmp_path / "whole"))) == rows(
        outs[0].unionAll(outs[1])
    )


COMMITTING = """
from pathlib import Path
from state_backends.backends.memory import MemoryBackend

COMMITS = Path({commits!r})

class Committing(MemoryBackend):
    @classmethod
    def open(cls, directory, options):
        (COMMITS / "{last}").write_bytes((COMMITS / "0").read_bytes())
        return super().open(directory, options)
"""


@pytest.mark.slow
def test_a_query_that_goes_on_meanwhile_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that is committed while the state is read would lend its offsets to the state of an earlier one."""
    checkpoint = tmp_path / "checkpoint"
    run_query(FIRST.apply(source(spark, tmp_path / "in", 0), "at"), tmp_path / "out", checkpoint)
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    module = tmp_path / "committing_backend.py"
    module.write_text(COMMITTING.format(commits=str(checkpoint / "commits"), last=last + 1))
    spark.sparkContext.addPyFile(str(module))

    backend, folder = "committing_backend:Committing", tmp_path / "savepoint"
    with pytest.raises(StateError, match=rf"is running: batch {last + 1} was committed.* batch={last}"):
        write_savepoint(checkpoint, folder, backend)
    assert not (folder / "savepoint.json").exists()
    saved = write_savepoint(checkpoint, tmp_path / "named", backend, batch=last)
    assert last == saved.origin["batch"]


def keyed(spark: SparkSession, folder: Path, number: int, *records: tuple[str, float, int]) -> DataFrame:
    """A stream of the files of a folder, to which one is added."""
    folder.mkdir(parents=True, exist_ok=True)
    keys, seconds, values = zip(*records, strict=True)
    at = pa.array([round((BASE + second) * 1e6) for second in seconds], pa.timestamp("us", "UTC"))
    write_numbered(pa.table({"k": keys, "at": at, "v": values}), folder, number)
    return spark.readStream.schema(f"{SCHEMA}, v bigint").parquet(str(folder))


@pytest.mark.slow
def test_buckets_that_differ_after_restarts_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """A mean added beside a sum, and another grace: keys of before, of after, and of a bucket that has been quiet since."""
    names = [f"key-{number}" for number in range(20)]
    buckets = [bucket_of(key, 3) for key in encode_keys([pa.array(names)])]
    old, new, quiet = (names[buckets.index(number)] for number in range(3))

    def op(grace: str, **more: Any) -> Any:
        windows = TumblingWindows("1 minute", grace=grace).group_by("k")
        return windows.aggregate(total=agg.sum("v"), **more)

    mean, adapt = {"mean": agg.avg("v")}, {"state.evolution": "adapt"}
    source, out, checkpoint = (tmp_path / name for name in ("in", "out", "checkpoint"))
    steps = [
        (op("1 minute"), [(old, 1, 100), (quiet, 2, 7)]),
        (op("1 minute", **mean), [(old, 3, 10)]),
        (op("40 minutes", **mean), [(old, 4, 20), (new, 5, 5)]),
    ]
    for number, (operator, records) in enumerate(steps):
        df = keyed(spark, source, number, *records)
        run_query(operator.apply(df, "at", options=adapt), out, checkpoint)

    state = read_state(checkpoint)
    assert ["k", "time", "total", "mean"] == state.columns
    stored = {row.k: (row["total"]["count"], row["mean"]["count"]) for row in state.collect()}
    assert {old: (3, 2), new: (1, 1), quiet: (1, 0)} == stored
    segments = summarize_state(checkpoint).where("panes > 0").collect()
    minutes = {row.bucket: (row.stream_time - row.close_time).seconds // 60 for row in segments}
    assert [1, 40, 40] == sorted(minutes.values())
    assert 3 == sum(row.panes for row in segments)

    last = steps[-1][0]
    expected = {(old, 130, 15.0), (new, 5, 5.0), (quiet, 7, None)}
    still = read_windows(checkpoint, last, df, "at", options=adapt)
    assert expected == {(row.k, row.total, row.mean) for row in still.collect()}
    saved = write_savepoint(checkpoint, tmp_path / "savepoint")
    frame = last.apply(
        keyed(spark, tmp_path / "more", 0, (old, 6, 30), (old, 10_000, 0)),
        "at",
        options={"state.savepoint": saved.uri},
    )
    run_query(frame, tmp_path / "out-2", tmp_path / "checkpoint-2")
    found = {(row.k, row.total, row.mean) for row in spark.read.parquet(str(tmp_path / "out-2")).collect()}
    assert {(old, 160, 20.0), (new, 5, 5.0), (quiet, 7, None)} == found
