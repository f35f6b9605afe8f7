"""Streaming queries forget keys: while they run, after a batch that failed, and at a restart; no file has the keys any more."""

import json
import sqlite3
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from operators import TumblingWindows, forget_requests
from operators import aggregates as agg
from operators.runtime.forget_requests import key_columns
from operators.runtime.keys_to_forget import encoded_keys
from operators.sinks import SQLiteSink, upsert_to
from state_backends.durability.request_folder import RequestFolder
from tests.effort import soak
from tests.operators.spark.frames import use_up, write_numbered

pytestmark = pytest.mark.spark
HOUR_US = 3_600_000_000
BACKENDS = ["memory", soak("rocksdb"), soak("spark")]


def records(*given: tuple[str, int]) -> pa.Table:
    """Records of keys at hours."""
    times = [hour * HOUR_US for _, hour in given]
    return pa.table({"k": [key for key, _ in given], "at": pa.array(times, pa.timestamp("us", "UTC"))})


def ask(folder: Path, *keys: str) -> None:
    """Make a request that the next batch applies: the time until requests count is for machines with other clocks."""
    columns = key_columns(folder).keys
    RequestFolder(str(folder), later_ms=0).write(
        "people", encoded_keys([{"k": key} for key in keys], columns)
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_query_forgets_keys(spark: SparkSession, tmp_path: Path, backend: str) -> None:
    """The table loses their open windows, later records are the first ones, and others do not notice."""
    source, folder, failing = tmp_path / "in", tmp_path / "forget", list[int]()
    source.mkdir()
    sink = SQLiteSink(str(tmp_path / "rows.db"), "people")
    upsert = upsert_to(sink, keys=["k"], query="people")
    op = TumblingWindows("1 hour", grace="1 day").group_by("k").aggregate(n=agg.count()).emit("on_update")

    def write(rows: DataFrame, batch: int) -> None:
        upsert(rows, batch)
        if failing:
            raise RuntimeError(f"batch {failing.pop()} fails after its rows were written")

    def start() -> Any:
        stream = spark.readStream.schema("k string, at timestamp").option("maxFilesPerTrigger", 1)
        options = {"state.forget.folder": folder, "state.snapshots.folder": tmp_path / "snapshots"}
        rows = op.apply(stream.parquet(str(source)), "at", backend=backend, options=options, name="people")
        writer = rows.writeStream.foreachBatch(write)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def table() -> dict[tuple[str, int], int]:
        return {(row["k"], row["window_start"].hour): row["n"] for row in sink_rows(tmp_path / "rows.db")}

    query = start()
    try:
        write_numbered(records(("alice", 0), ("alice", 1), ("bob", 0), ("carol", 0)), source, 0)
        query.processAllAvailable()
        assert {("alice", 0): 1, ("alice", 1): 1, ("bob", 0): 1, ("carol", 0): 1} == table()
        ask(folder, "alice", "nobody")
        write_numbered(records(("alice", 0), ("bob", 0)), source, 1)
        query.processAllAvailable()
        assert {("alice", 0): 1, ("bob", 0): 2, ("carol", 0): 1} == table()
        write_numbered(records(("alice", 0)), source, 2)
        query.processAllAvailable()
        assert {("alice", 0): 2, ("bob", 0): 2, ("carol", 0): 1} == table()
        assert [(2, True)] == [(one.keys, one.done) for one in forget_requests(folder)]
        ask(folder, "bob")
        failing.append(3)
        write_numbered(records(("carol", 0)), source, 3)
        with pytest.raises(StreamingQueryException, match="fails after its rows"):
            query.processAllAvailable()
    finally:
        query.stop()
    query = start()
    write_numbered(records(("bob", 2)), source, 4)
    use_up(start, query)
    assert {("alice", 0): 2, ("bob", 2): 1, ("carol", 0): 2} == table()
    ask(folder, "carol")
    write_numbered(records(("alice", 3)), source, 5)
    use_up(start)
    assert {("alice", 0): 2, ("alice", 3): 1, ("bob", 2): 1} == table()


def sink_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of the sink's table."""
    with sqlite3.connect(path) as db:
        db.row_factory = sqlite3.Row
        found = [dict(row) for row in db.execute("SELECT * FROM people")]
    return [{**row, "window_start": datetime.fromisoformat(str(row["window_start"]))} for row in found]


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_no_file_has_the_bytes_of_the_key(tmp_path: Path, backend: str) -> None:
    """Of checkpoint, snapshots and local copies, once Spark has deleted the versions before, with a compaction of its files."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.operators.spark.forget_files", str(tmp_path), backend],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-3_000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["before"], "the test finds keys"
    assert told["other"], "another key stays"
    assert [] == told["after"]
