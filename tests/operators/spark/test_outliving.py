"""Copies of buckets outlive Spark's workers, and end with Spark: real sessions, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.effort import slow_but, soak
from tests.operators.spark.bucket_worker import has_ended
from tests.operators.spark.outliving import BATCHES

CONFS = {
    "default": [],
    "no worker twice": ["spark.python.worker.reuse=false"],
    "no daemon": ["spark.python.use.daemon=false"],
    "Spark's own daemon": ["spark.python.daemon.module=pyspark.daemon"],
}
MOST_RESTORE_MS = 100


@contextmanager
def query(
    folder: Path, between: str, *conf: str
) -> Iterator[tuple["subprocess.Popen[str]", list[dict[str, Any]]]]:
    """The process of queries that have worked on their batches, and what it said after each."""
    command = [sys.executable, "-m", "tests.operators.spark.outliving", str(folder), between, *conf]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, [json.loads(process.stdout.readline()) for _ in range(BATCHES)]
        finally:
            process.kill()


def the_same_throughout(said: list[dict[str, Any]]) -> set[int]:
    """The processes that have the buckets, which are the same ones in each batch; nobody else has a copy."""
    first, *more = said
    assert None not in first["processes"]
    assert {8} == {query["rows"] for line in said for query in line["queries"]}
    for line in more:
        assert first["processes"] == line["processes"]
        assert {1} == {*line["copies"]}
    return {*first["processes"]}


@pytest.mark.slow
@pytest.mark.parametrize("turns", [3, soak(10)])
def test_queries_in_turn_share_their_processes(tmp_path: Path, turns: int) -> None:
    """Those of a stopped query, and of one that failed at its start, work for the next one: there are never more."""
    command = [sys.executable, "-m", "tests.operators.spark.turning", str(tmp_path), str(turns)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            said = [json.loads(process.stdout.readline()) for _ in range(turns)]
        finally:
            process.kill()
    assert [8] * turns == [line["rows"] for line in said]
    first, *later = [line["processes"] for line in said]
    assert 1 <= len(first) <= 2
    assert all({*first} <= {*now} for now in later)
    assert all(len(now) <= 2 for now in later)
    assert all(has_ended(holder) for holder in said[-1]["processes"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "conf", slow_but(["default"], CONFS, ["no worker twice", "no daemon", "Spark's own daemon"])
)
def test_processes_end_with_the_session(tmp_path: Path, conf: str) -> None:
    """However Spark starts its workers. Without a daemon, Java is the workers' parent, and ends with the program."""
    with query(tmp_path, "0", *CONFS[conf]) as (process, said):
        holders = the_same_throughout(said)
        assert process.stdin is not None
        assert process.stdout is not None
        if conf == "no daemon":
            process.stdin.close()
        else:
            process.stdin.write("stop\n")
            process.stdin.flush()
            assert "stopped\n" == process.stdout.readline()
        assert all(has_ended(holder) for holder in holders)


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["java", soak("python")])
def test_processes_end_when_spark_is_killed(tmp_path: Path, killed: str) -> None:
    """The executor, which is the driver here, or the program that has started it."""
    with query(tmp_path, "0") as (process, said):
        holders = the_same_throughout(said)
        os.kill(process.pid if killed == "python" else said[0]["java"], signal.SIGKILL)
        assert all(has_ended(holder) for holder in holders)


@pytest.mark.slow
@pytest.mark.parametrize("between", ["end", soak("70")])
def test_copies_outlive_the_workers(tmp_path: Path, between: str) -> None:
    """Spark ends a worker that had no task for a minute. Nothing is restored in the batch after it."""
    backends = ["memory", "rocksdb", "spark"]
    with query(tmp_path, between, f"BACKENDS={','.join(backends)}") as (_, said):
        the_same_throughout(said)
        first, *more = [{*line["workers"]} for line in said]
        assert first
        assert all(first.isdisjoint(later) for later in more)
        for line in said:
            assert 2 * len(backends) == len(line["processes"])
        for line in said[1:]:
            assert all(query["restore_ms"] < MOST_RESTORE_MS for query in line["queries"])
