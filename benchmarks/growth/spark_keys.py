"""A stream on Spark over very many keys, with our windows or with Spark's own, in a process of its own.

    python -m benchmarks.growth.spark_keys SYSTEM KIND KEYS FOLDER [BATCHES]

SYSTEM is rocksdb (ours), memory, or own: Spark's windows on its RocksDB state store. KIND is tumbling, by the hour, or session,
with a gap of an hour. Batches of 100,000 rows give each key a record in the first hour. Then follow BATCHES batches of random
keys at the same pace, the steady state: of tumbling windows all keys' close in one of the first of them, which is printed as
`closing`, and the others only change what is there; of sessions each batch closes about as many as it opens. The median of
the steady batches counts.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import BATCH, SCHEMA, five_aggregates, write_next
from benchmarks.growth.keys import filling, working
from benchmarks.pipelines.kinds import named
from operators import SessionWindows, TumblingWindows, spark_session

STEADY, WARM = 12, 3
"""Steady batches, and those at the begin of them that do not count: in these tumbling windows close."""
KINDS = {
    "tumbling": (TumblingWindows("1 hour"), lambda: F.window("at", "1 hour")),
    "session": (SessionWindows("1 hour"), lambda: F.session_window("at", "1 hour")),
}
"""Ours, and Spark's."""


def windows(frame: DataFrame, system: str, kind: str) -> DataFrame:
    """Return the windows of a kind with five aggregates."""
    ours, own = KINDS[kind]
    if system == "own":
        return frame.withWatermark("at", "0 seconds").groupBy("k", own()).agg(*named())
    return ours.group_by("k").aggregate(**five_aggregates()).apply(frame, event_time="at", backend=system)


def tables(keys: int, batches: int) -> Iterator[pa.Table]:
    """Yield the batches of the first hour, and the steady ones."""
    return chain(filling(keys), working(keys, range(batches)))


def session(folder: Path) -> SparkSession:
    """Return a session of two cores and two buckets, with the same provider of state for both systems."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.windows.state.directory": str(folder / "local"),
        "spark.windows.state.snapshots.folder": str(folder / "snapshots"),
    }
    found = spark_session("many-keys", master="local[2]", buckets=2, conf=conf)
    found.sparkContext.setLogLevel("ERROR")
    return found


def main(system: str, kind: str, keys: int, folder: Path, batches: int = STEADY) -> None:
    """Run the query over all batches and print a line of JSON for each stage."""
    source = folder / "in"
    source.mkdir(parents=True)
    for number, table in enumerate(tables(keys, batches)):
        write_next(table, source / f"{number:05d}.parquet", number)
    spark = session(folder)
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = windows(frame, system, kind).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.processAllAvailable()
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    query.stop()
    spark.stop()
    print(json.dumps(stages(progress, batches)), flush=True)


def stages(progress: list[Any], batches: int) -> dict[str, dict[str, float]]:
    """Return rows and seconds of what fills, of the slowest of the first steady batches, and of a steady batch."""
    took = [p["durationMs"]["triggerExecution"] / 1_000 for p in progress]
    fill, first, steady = took[:-batches], took[-batches : WARM - batches], took[WARM - batches :]
    rows = sum(p["numInputRows"] for p in progress[:-batches])
    state = progress[-1]["stateOperators"][0]
    return {
        "growing": {"rows": rows, "seconds": sum(fill)},
        "closing": {"rows": BATCH, "seconds": max(first)},
        "steady": {
            "rows": BATCH,
            "seconds": statistics.median(steady),
            "fastest": min(steady),
            "commit_ms": state["commitTimeMs"],
        },
    }


if __name__ == "__main__":
    main(*sys.argv[1:3], int(sys.argv[3]), Path(sys.argv[4]), *map(int, sys.argv[5:]))
