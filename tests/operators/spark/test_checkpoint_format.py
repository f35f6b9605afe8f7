"""Checkpoint format 2 of Spark's state store, in which each commit has files of its own: queries stop, go on, and are read."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from state_backends import StateError, read_state
from tests.operators.spark.frames import (
    FORMAT_KEY,
    can_read_state,
    closed_rows,
    rows,
    run_query,
    stream,
    windows,
    write_source,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]
BACKENDS = ("rocksdb", "spark")


@pytest.fixture
def format_2(spark: SparkSession) -> Iterator[None]:
    """The session's queries have format 2."""
    before = spark.conf.get(FORMAT_KEY, "1")
    spark.conf.set(FORMAT_KEY, "2")
    yield
    spark.conf.set(FORMAT_KEY, before)


def store_commits(checkpoint: Path) -> list[object]:
    """What the checkpoint says of the state store's commits, batch by batch: their names in format 2, nothing in format 1."""
    files = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[-1]).get("stateUniqueIds") for path in files]


@pytest.mark.usefixtures("format_2")
@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_go_on_and_are_read(spark: SparkSession, tmp_path: Path, backend: str) -> None:
    """Every row is there once after a restart, and a batch's state is read from files that have its commit's name."""
    source, checkpoint, out = (tmp_path / name for name in ("in", "checkpoint", "out"))
    write_source(source, files=4, rows=200, seed=7)
    last = source / "part-0003.parquet"
    last.rename(tmp_path / "later")
    frame = windows(stream(spark, source), "sliding", backend)
    run_query(frame, out, checkpoint)
    stopped = len(store_commits(checkpoint)) - 1
    panes = state_size(spark, checkpoint)
    (tmp_path / "later").rename(last)
    run_query(frame, out, checkpoint)
    assert all(store_commits(checkpoint))
    assert closed_rows(spark, source) == rows(spark.read.parquet(str(out)))
    assert panes == state_size(spark, checkpoint, stopped) > 0


def state_size(spark: SparkSession, checkpoint: Path, batch: int | None = None) -> int:
    """How many panes are read; 1 where Spark cannot read them, which is told."""
    if can_read_state(spark):
        return read_state(checkpoint, batch=batch, spark=spark).count()
    with pytest.raises(StateError, match="cannot read state from a checkpoint of format 2"):
        read_state(checkpoint, batch=batch, spark=spark)
    return 1
