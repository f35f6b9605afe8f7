"""Queries that say which processes have their state: after each batch, and at their end.

    python -m tests.operators.spark.outliving FOLDER BETWEEN [KEY=VALUE...]

works on three batches of a query for each backend (BACKENDS=NAME,NAME), and prints a line of JSON after each: the processes
that have the buckets, Spark's workers, and for each query the rows of the batch and the milliseconds that restores took.

BETWEEN is what comes between batches: so many seconds; or `end`: the workers are ended as Spark ends one that had no task for a
minute, by SIGKILL. Then it waits: the line `stop` ends the session; after it, or at the end of the input, the process ends.
"""

import json
import os
import signal
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
from tests.operators.spark.bucket_worker import has_ended
from tests.state_processes import holders, is_state_process, starters

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


def started(spark: SparkSession, folder: Path, backend: str, size: str = "1 day") -> StreamingQuery:
    """A query over windows that stay open, whose rows nobody needs."""
    local = {"state.directory": str(folder / "local" / backend)}
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder / "source"))
    op = TumblingWindows(size).group_by("k").aggregate(n=agg.count())
    rows = op.apply(stream, "at", backend=backend, options=local)
    sink = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint" / backend))
    return sink.start()


def seen(query: StreamingQuery) -> dict[str, Any]:
    """What the last batch with rows says of itself."""
    (progress,) = [one for one in query.recentProgress if one["numInputRows"]][-1:]
    metrics = progress["observedMetrics"]["windows_out"]["counts"]
    return {name: metrics[name] for name in ("rows", "restore_ms")}


def places(folder: Path) -> dict[str, Any]:
    """Which process for state has each bucket, and how many copies of it there are."""
    buckets = sorted({lock.parent for lock in (folder / "local").glob("*/*/*.lock")})
    locks = [[*bucket.glob("*.lock")] for bucket in buckets]
    held = [filter(is_state_process, set[int]().union(*map(holders, of_bucket))) for of_bucket in locks]
    return {"processes": [next(found, None) for found in held], "copies": [*map(len, locks)]}


def wait(between: str, workers: list[int]) -> None:
    """Let pass what comes between two batches."""
    if between != "end":
        time.sleep(float(between))
        return
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    assert all(has_ended(worker) for worker in workers)


def main(folder: str, between: str, *conf: str) -> None:
    """Run the query."""
    home = Path(folder)
    (home / "source").mkdir()
    settings = dict(one.split("=") for one in conf)
    backends = settings.pop("BACKENDS", "memory").split(",")
    spark = spark_session(
        "outliving", master="local[2]", buckets=2, conf={"spark.ui.enabled": "false", **settings}
    )
    put(home / "source", 0)
    queries = [started(spark, home, backend) for backend in backends]
    workers: list[int] = []
    for number in range(BATCHES):
        if number:
            wait(between, workers)
            put(home / "source", number)
        for query in queries:
            query.processAllAvailable()
        daemons = children(java(), b"daemon")
        workers = {worker for daemon in daemons for worker in children(daemon)} - {*starters(daemons)}
        said = [seen(query) for query in queries]
        line = {"queries": said, **places(home), "workers": sorted(workers), "java": java()}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    if sys.stdin.readline().startswith("stop"):
        spark.stop()
        sys.stdout.write("stopped\n")
        sys.stdout.flush()
        sys.stdin.readline()


def java() -> int:
    """The process of Spark that this one has started."""
    return children(os.getpid(), b"java")[0]


def children(parent: int, what: bytes = b"") -> list[int]:
    """The processes that this one has started and whose command has this in it."""
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [number for number in numbers if is_child(Path(f"/proc/{number}"), parent, what)]


def is_child(path: Path, parent: int, what: bytes) -> bool:
    """Whether a process is a child of this one and has this in its command."""
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
        return int(fields[1]) == parent and what in (path / "cmdline").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
