"""Alerts of operations.md about queries that are slow, or stand still: brought about, looked at, and ended as it says."""

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from operators import TumblingWindows
from operators import aggregates as agg
from tests.operators.monitoring.rules import fires
from tests.operators.spark import slow_disk
from tests.operators.spark.frames import SCHEMA, rows, stream
from tests.operators.spark.tried import ROWS, Query, write
from tests.patience import wait_until
from tests.s3_server import CREDENTIALS, running

pytestmark = [pytest.mark.spark, pytest.mark.slow]
WINDOWS = TumblingWindows("5 seconds", grace="1 second").group_by("k")
COUNT = WINDOWS.aggregate(n=agg.count(), total=agg.sum("v"))
TIMES = ("step_ms", "commit_ms", "restore_ms")


def check_rows(spark: SparkSession, home: Path, op: Any = COUNT) -> None:
    """What the query has written are the windows of its files that have closed."""
    files = spark.read.schema(SCHEMA).parquet(str(home / "in"))
    close = files.selectExpr("max(at) - interval 1 second").first()[0]
    expected = op.apply(files, "at").where(f"window.end <= timestamp'{close}'")
    assert rows(expected) == rows(spark.read.parquet(str(home / "out"))) != []


def test_commits_on_a_slow_disk(spark: SparkSession, tmp_path: Path) -> None:
    """`commit_ms` is what has grown, with the same rows and bytes; another disk ends it, and the alert."""
    slow, fast = tmp_path / "slow disk", tmp_path / "fast disk"
    query = Query(spark, tmp_path)

    def run(number: int, disk: Path) -> Any:
        write(tmp_path / "in", number)
        return query.run(COUNT, backend=slow_disk.NAME, options={"state.directory": str(disk)})

    first, (was, *_) = run(0, slow)
    (slow / "slow").write_text("5.5")
    last, (slower, *_) = run(1, slow)
    assert fires("WindowsSlowCommits", first, last)
    assert not fires("WindowsSlowRestores", first, last)
    assert slower["rows"] == was["rows"] == ROWS
    assert max(TIMES, key=slower.__getitem__) == "commit_ms"
    changed = "windows_changed_bytes_total"
    assert last[changed] - first[changed] == first[changed] < 1_000

    after, _ = run(2, fast)
    assert not fires("WindowsSlowCommits", last, after)
    check_rows(spark, tmp_path)


def test_restores_from_slow_storage(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor without the bucket reads its snapshot; one that returns to a permanent directory needs none."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)  # of workers
    query = Query(spark, tmp_path)
    with running() as storage:
        storage.bucket("bucket")
        snapshots = {
            "state.snapshots.folder": storage.uri("bucket/windows"),
            "state.snapshots.background": "false",
        }

        def run(number: int, disk: str, every: int) -> Any:
            write(tmp_path / "in", number)
            options = {"state.directory": str(tmp_path / disk), "state.snapshots.batches": every}
            return query.run(COUNT, backend="rocksdb", options=snapshots | options)

        first, _ = run(0, "of one executor", 1)
        storage.switch(delay=2, methods="GET,HEAD")
        last, (slower, *_) = run(1, "of another one", 1_000)
        assert fires("WindowsSlowRestores", first, last)
        assert not fires("WindowsSlowCommits", first, last)
        assert max(TIMES, key=slower.__getitem__) == "restore_ms"
        after, _ = run(2, "of another one", 1_000)
        assert not fires("WindowsSlowRestores", last, after)
    check_rows(spark, tmp_path)


def test_no_batches(spark: SparkSession, tmp_path: Path) -> None:
    """`query.status` tells a source without records from a batch that hangs. The query goes on when it is started again."""
    hangs, hanging, home = tmp_path / "hangs", tmp_path / "hanging", tmp_path / "query"
    home.mkdir()

    def add(total: int, value: int) -> int:
        if hangs.exists():
            hanging.touch()
            while hanging.exists():  # Until the end of the test, also when nothing is in the way any more.
                time.sleep(0.1)
        return total + value

    op = WINDOWS.aggregate(n=agg.fold(0, add, "v", type="bigint", merge=lambda a, b: a + b, name="added"))
    write(home / "in", 0)
    out = op.apply(stream(spark, home / "in"), "at")
    query = Query(spark, home)
    with query.running(out) as run:
        run.processAllAvailable()
        last = query.exported(run)
        began = last["windows_last_batch_timestamp_seconds"]
        assert [fires("WindowsNoBatches", last, clock=began + s) for s in (1_700, 1_900)] == [False, True]
        wait_until(
            lambda: run.status["message"] == "Waiting for data to arrive", "the wait", lambda: run.status
        )
        assert not run.status["isDataAvailable"]
        write(home / "in", 1)
        run.processAllAvailable()
        assert not fires("WindowsNoBatches", query.exported(run), clock=time.time())

        hangs.touch()
        write(home / "in", 2)
        wait_until(hanging.exists, "the batch", lambda: run.status)
        assert fires("WindowsNoBatches", query.exported(run), clock=time.time() + 1_800)
        assert run.status == {
            "message": "Processing new data",
            "isDataAvailable": True,
            "isTriggerActive": True,
        }
        jobs = spark.sparkContext.statusTracker()
        assert {*jobs.getActiveJobsIds()} & {*jobs.getJobIdsForGroup(str(run.runId))}
    hangs.unlink()
    with query.running(out) as run:
        run.processAllAvailable()
        assert not fires("WindowsNoBatches", query.exported(run), clock=time.time())
    assert hanging.exists()
    hanging.unlink()
    check_rows(spark, home, op)


def test_a_sink_that_does_not_answer(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that waits for its sink has no running task."""
    hangs, hanging = tmp_path / "hangs", tmp_path / "hanging"
    hangs.touch()
    write(tmp_path / "in", 0)

    def put(some: DataFrame, _: int) -> None:
        some.collect()
        hanging.touch()
        while hangs.exists():
            time.sleep(0.1)

    out = COUNT.apply(stream(spark, tmp_path / "in"), "at").writeStream.foreachBatch(put)
    query = out.option("checkpointLocation", str(tmp_path / "cp")).start()
    try:
        wait_until(hanging.exists, "the sink", lambda: query.status)
        assert query.status["message"] == "Processing new data"
        jobs = spark.sparkContext.statusTracker()
        wait_until(
            lambda: not {*jobs.getActiveJobsIds()} & {*jobs.getJobIdsForGroup(str(query.runId))},
            "the end of its jobs",
            lambda: query.status,
        )
        assert hangs.exists()
    finally:
        hangs.unlink()
    query.processAllAvailable()
    query.stop()
