"""Queries that are killed with SIGKILL in mid-batch and started again, against the result of an undisturbed run."""

import random
import shutil
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.frames import closed_rows, rows, write_source
from tests.spark.processes import committed, finish, kill_all, python_workers, start_query, wait_for_commits

pytestmark = [pytest.mark.spark, pytest.mark.kill]
FILES = 10


@pytest.mark.parametrize(
    ("backend", "kind"), [("memory", "sliding"), ("rocksdb", "sliding"), ("rocksdb", "session")]
)
def test_killed_queries_end_with_the_rows_of_an_undisturbed_one(
    spark: SparkSession, tmp_path: Path, backend: str, kind: str, request: pytest.FixtureRequest
) -> None:
    """Driver and workers killed at random times, local state deleted in between: the file sink ends with exactly the rows."""
    seed = request.config.getoption("--kill-seed") or random.randrange(2**32)
    print(f"--kill-seed {seed}")  # noqa: T201 - a failure must be repeatable
    chance = random.Random(seed)
    write_source(tmp_path / "in", FILES, rows=3_000, seed=5)
    kills = 0
    for round_ in range(request.config.getoption("--kills")):
        process = start_query(tmp_path, backend, kind)
        if not wait_for_commits(process, tmp_path, committed(tmp_path) + 1):
            break
        time.sleep(chance.uniform(0, 1.0))
        kills += kill_all(process.pid) > 1
        process.wait()
        if round_ % 2:
            shutil.rmtree(tmp_path / "state", ignore_errors=True)
    finish(start_query(tmp_path, backend, kind), tmp_path)
    assert kills > 0
    assert closed_rows(spark, tmp_path / "in", kind) == rows(spark.read.parquet(str(tmp_path / "out")))


def test_killed_workers_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """Python workers killed in mid-query cost no row: Spark runs the task again, or the query is started again."""
    write_source(tmp_path / "in", FILES, rows=3_000, seed=6)
    process = start_query(tmp_path, "rocksdb")
    assert wait_for_commits(process, tmp_path, 2)
    killed = 0
    while process.poll() is None and killed < 4:
        for worker in python_workers(process.pid)[:2]:
            killed += kill_all(worker)
        time.sleep(0.3)
    process.wait(timeout=300)
    finish(start_query(tmp_path, "rocksdb"), tmp_path)
    assert killed > 0
    assert closed_rows(spark, tmp_path / "in") == rows(spark.read.parquet(str(tmp_path / "out")))
