"""A query that says which processes have its state: after each batch, and at its end.

    python -m tests.operators.spark.outliving FOLDER PAUSE [KEY=VALUE...]

works on three batches, PAUSE seconds apart, and prints a line of JSON after each: the processes that have the buckets, the rows
of the batch, the milliseconds that restores took. Then it waits for a line: `stop` ends the session; after it, or at the end of
the input, the process ends.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from operators import TumblingWindows, spark_session
from operators import aggregates as agg
from tests.operators.spark.bucket_worker import process_at

SCHEMA = "k string, at timestamp"
BATCHES = 3


def put(source: Path, number: int) -> None:
    """Write a file with a record of each of eight keys."""
    table = pa.table(
        {
            "k": [f"key-{key}" for key in range(8)],
            "at": pa.array([number * 1_000_000] * 8, pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(table, source / ".writing")
    (source / ".writing").rename(source / f"{number}.parquet")


def started(spark: SparkSession, folder: Path, backend: str) -> StreamingQuery:
    """A query over windows that stay open, whose rows nobody needs."""
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder / "source"))
    op = TumblingWindows("1 day").group_by("k").aggregate(n=agg.count())
    rows = op.apply(stream, "at", backend=backend, options={"state.directory": str(folder / "local")})
    sink = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    return sink.start()


def seen(query: StreamingQuery, folder: Path) -> dict[str, Any]:
    """What a line says."""
    owners = sorted((folder / "local").glob("*/owner"))
    (progress,) = [one for one in query.recentProgress if one["numInputRows"]][-1:]
    metrics = progress["observedMetrics"]["windows_out"]["counts"]
    locks = [len([*owner.parent.glob("*.lock")]) for owner in owners]
    return {
        "processes": [process_at(owner) for owner in owners],
        "copies": locks,
        "rows": metrics["rows"],
        "restore_ms": metrics["restore_ms"],
        "seconds": progress["durationMs"]["triggerExecution"] / 1_000,
    }


def main(folder: str, pause: str, *conf: str) -> None:
    """Run the query."""
    home = Path(folder)
    (home / "source").mkdir()
    settings = dict(one.split("=") for one in conf)
    backend = settings.pop("backend", "memory")
    spark = spark_session(
        "outliving", master="local[2]", buckets=2, conf={"spark.ui.enabled": "false", **settings}
    )
    put(home / "source", 0)
    query = started(spark, home, backend)
    for number in range(BATCHES):
        if number:
            time.sleep(float(pause))
            put(home / "source", number)
        query.processAllAvailable()
        line = seen(query, home)
        sys.stdout.write(json.dumps({**line, "java": java()}) + "\n")
        sys.stdout.flush()
    if sys.stdin.readline().startswith("stop"):
        spark.stop()
        sys.stdout.write("stopped\n")
        sys.stdout.flush()
        sys.stdin.readline()


def java() -> int:
    """The process of Spark that this one has started."""
    found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal() and is_my_java(path)]
    return found[0]


def is_my_java(path: Path) -> bool:
    """Whether a process is a child of this one and runs Java."""
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
        return int(fields[1]) == os.getpid() and b"java" in (path / "cmdline").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
