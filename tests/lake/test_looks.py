"""What merge_to sees of a table before and after a commit: of other sessions, in conflicts, and where a reply is lost."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from operators.sinks import SinkError, append_to, merge_to
from operators.sinks.lake import Batch, merge, write_once
from operators.sinks.lake_rows import pinned
from operators.sinks.lake_tables import lake_table
from tests.faults.processes import kill_marked, start
from tests.lake.conftest import FORMATS, Place, place_of
from tests.lake.elsewhere import merge_batch
from tests.lake.test_merge import SIMPLE, commits, merged, window
from tests.patience import files, wait_until

pytestmark = pytest.mark.usefixtures("spark")


def test_batches_of_another_session_are_seen(spark: SparkSession, table: Place) -> None:
    """Although Iceberg's catalog keeps tables for a session, and Spark the commits that somebody has cached."""
    merged(table, [("ann", window(0), 0)])
    name = f"{table.name}.snapshots" if table.format == "iceberg" else table.name
    cached = spark.table(name).cache()
    before = cached.count()
    commit_elsewhere(spark, table, 1)
    if table.format == "iceberg":
        assert before == spark.table(name).count()
    with pytest.raises(SinkError, match="batch 1 of query 'visits' is in the table already, with other rows"):
        merged(table, [("ann", window(0), 9)], 1)
    commit_elsewhere(spark, table, 2)
    with pytest.raises(SinkError, match="batch 1 of query 'visits' comes after batch 2"):
        merged(table, [("ann", window(0), 9)], 1)
    assert [(2,)] == table.rows("n")
    cached.unpersist()


def test_another_process_writes_beside_this_one(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Both merge into the same tables at once. Each batch is there once, and each process sees what the other one wrote."""
    places, batches = [place_of(folder, format_, "beside") for format_ in FORMATS], 3
    for place in places:
        merge_batch(spark, place, "one", 0)
    command = [sys.executable, "-m", "tests.lake.elsewhere", str(folder), "beside", "two", str(batches)]
    log, mark = tmp_path / "log", f"lake-{tmp_path.name}"
    before = {place.newest() for place in places}
    try:
        other = start(command, log, mark)
        wait_until(
            lambda: {place.newest() for place in places} != before or other.poll() is not None,
            "the other process's batch",
            log.read_bytes,
        )
        for batch in range(1, batches):
            for place in places:
                merge_batch(spark, place, "one", batch)
        assert 0 == other.wait(), log.read_text(errors="replace")[-4_000:]
    finally:
        kill_marked(mark)
    last = batches - 1
    for place in places:
        assert [("all", last), ("one", last), ("two", last)] == place.rows("user", "n")
        for query in ("one", "two"):
            found = commits(place)
            merge_batch(spark, place, query, last)
            assert found == commits(place)
            with pytest.raises(
                SinkError, match=f"batch {last} of query '{query}' is in the table already, with"
            ):
                merged(place, [("all", window(0), 9)], last, query=query)
            with pytest.raises(SinkError, match=f"batch 1 of query '{query}' comes after batch {last}"):
                merge_batch(spark, place, query, 1)


def commit_elsewhere(spark: SparkSession, table: Place, batch: int) -> None:
    """Merge a batch in a session that has a catalog of its own."""
    rows = spark.newSession().createDataFrame([("ann", window(0), batch)], SIMPLE)
    merge_to(table.name, keys=["user"], query="visits")(rows, batch)


def test_a_conflict_is_merged_again(spark: SparkSession, table: Place, tmp_path: Path) -> None:
    """Another query replaces a row while the MERGE runs: its first attempt fails, and its second one finds that row."""
    merged(table, [("ann", window(0), 0), ("bob", window(0), 0)])
    read, committed = tmp_path / "read", tmp_path / "committed"
    waits = str(read), str(committed)

    def slow(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        with suppress(FileExistsError):  # one task waits: the other query needs a core
            Path(waits[0]).touch(exist_ok=False)
            while not Path(waits[1]).exists():
                time.sleep(0.01)
        yield from frames

    def commit() -> None:
        wait_until(read.exists, "the MERGE", lambda: files(tmp_path))
        rows = spark.newSession().createDataFrame([("ann", window(0), 7), ("eve", window(0), 7)], SIMPLE)
        merge_to(table.name, keys=["user"], query="other")(rows, 0)
        committed.touch()

    source = pinned(spark.createDataFrame([("ann", window(0), 1)], SIMPLE), ["user"])
    frame = source.frame.coalesce(1).mapInPandas(
        slow, source.frame.schema
    )  # a core is left for the other query
    place, tries = lake_table(spark, table.name, None)[0], list[int]()

    def write() -> Any:
        tries.append(len(tries))
        return merge(place, replace(source, frame=frame), with_day=table.format == "delta")

    other = threading.Thread(target=commit)
    other.start()
    assert write_once(place, Batch("visits", 1, None), source.fingerprint, write)
    other.join()
    source.unpin()
    assert [0, 1] == tries
    assert [("ann", 1), ("bob", 0), ("eve", 7)] == table.rows("user", "n")


def test_a_commit_of_which_nobody_knows_is_not_tried_again(spark: SparkSession, table: Place) -> None:
    """Though its cause looks like a conflict: the batch fails, and is merged when it comes again."""
    merged(table, [("ann", window(0), 0)])
    gateway = spark.sparkContext._gateway
    exceptions = gateway.jvm.org.apache.iceberg.exceptions
    cause = exceptions.CommitFailedException("503", gateway.new_array(gateway.jvm.Object, 0))
    place, tries = lake_table(spark, table.name, None)[0], list[int]()

    def write() -> Any:
        tries.append(1)
        raise Py4JJavaError("the catalog did not answer", exceptions.CommitStateUnknownException(cause))

    with pytest.raises(Py4JJavaError):
        write_once(place, Batch("visits", 1, None), lambda: 7, write)
    assert [1] == tries
    merged(table, [("ann", window(0), 1)], 1)
    assert [(1,)] == table.rows("n")


def test_the_driver_gets_no_rows(spark: SparkSession, table: Place) -> None:
    """Spark ends a job whose results are larger than `spark.driver.maxResultSize`, 8 MB in this session."""
    large = "randstr(70000) AS text"
    start = "timestamp'2026-01-05 09:00:00' + make_interval(0, 0, 0, 0, id)"
    rows = spark.range(0, 300, 1, 4).selectExpr(
        "concat('u', id) AS user", f"named_struct('start', {start}, 'end', {start}) AS window", large
    )
    with pytest.raises(Exception, match=r"spark\.driver\.maxResultSize"):
        rows.collect()
    for batch in range(2):
        merge_to(table.name, keys=["user"], query="q")(rows, batch)
    append_to(f"{table.name[:-1]}_2`" if table.format == "delta" else f"{table.name}_2", query="q")(rows, 0)
    assert 300 == len({*table.rows("text")}) == spark.table(table.name).count()
