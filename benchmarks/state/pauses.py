"""What a batch costs after a pause in which Spark ends its workers, beside one that follows at once.

    python -m benchmarks.state.pauses [--keys N] [--pauses SECONDS...] [--backends NAME...]

A query for each backend, all in one session of two cores, has a live pane for each key in two buckets. It works on batches of
20,000 rows: some at once, some after each pause. Prints a table: seconds of a batch, milliseconds of restores and of steps,
and the memory of the processes that have the state. Each cell is the median, then the least and the most.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from benchmarks.data import SCHEMA, five_aggregates, write_next
from benchmarks.state.many_keys import memory_of, records
from operators import TumblingWindows, spark_session
from operators.spark.base.listener import operator_batches

ROWS, AT_ONCE, WARM, BUCKETS = 20_000, 250_000, 3, 2
TIMES = {0.0: 6, 300.0: 1, 1_800.0: 1}
"""How many batches there are after a pause of so many seconds; 2 after the others."""
_HOUR_MS = 3_600_000
_PROCESS = b"operators.spark.replicas.state_process"


def started(spark: SparkSession, home: Path, backend: str) -> StreamingQuery:
    """Return a query whose windows stay open."""
    source = home / "source"
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    op = TumblingWindows("30 days").group_by("k").aggregate(**five_aggregates())
    options = {"state.directory": str(home / "local" / backend)}
    if backend != "spark":
        options["state.snapshots.folder"] = str(home / "snapshots")
    rows = op.apply(stream, "at", backend=backend, options=options)
    sink = rows.writeStream.format("noop").option("checkpointLocation", str(home / "checkpoint" / backend))
    return sink.start()


def worked(query: StreamingQuery) -> dict[str, float]:
    """Have a query work on what has arrived; return what its last batch with rows took."""
    query.processAllAvailable()
    progress: Any = [one for one in query.recentProgress if one["numInputRows"]][-1]
    (counts,) = [found.counts_out for found in operator_batches(progress)]
    return {
        "seconds": progress["durationMs"]["triggerExecution"] / 1_000,
        "restore_ms": counts["restore_ms"],
        "step_ms": counts["step_ms"],
    }


def memory_mb() -> int:
    """The memory of all processes that have state, in MB."""
    found = 0
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdecimal() and _PROCESS in (path / "cmdline").read_bytes():
                found += memory_of("VmRSS", path)
        except (OSError, IndexError):
            continue
    return found


def cell(values: Sequence[float]) -> str:
    """The median, the least and the most."""
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def main(keys: int, pauses: Sequence[float], backends: Sequence[str], home: Path) -> None:
    """Run the queries and print the table."""
    (home / "source").mkdir()
    conf = {"spark.ui.enabled": "false", "spark.driver.memory": "3g"}
    spark = spark_session("pauses", master="local[2]", buckets=BUCKETS, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    files, rng = iter(range(10**6)), np.random.default_rng(1)

    def put(chosen: np.ndarray) -> None:
        number = next(files)
        write_next(
            records(chosen, number * _HOUR_MS // 60, 1_000), home / "source" / f"{number}.parquet", number
        )

    for first in range(0, keys, AT_ONCE):
        put(np.arange(first, min(first + AT_ONCE, keys)))
    queries = {backend: started(spark, home, backend) for backend in backends}
    print(
        "| backend | keys | pause s | batch s | restore ms | step ms | MB of all |\n|---|---|---|---|---|---|---|"
    )
    for query in queries.values():
        query.processAllAvailable()
    for number, pause in enumerate([*[0.0] * WARM, *pauses]):
        found: dict[str, list[dict[str, float]]] = {backend: [] for backend in backends}
        for _ in range(1 if number < WARM else TIMES.get(pause, 2)):
            time.sleep(pause)
            put(rng.integers(0, keys, ROWS))
            for backend, query in queries.items():
                found[backend].append(worked(query))
        for backend in backends if number >= WARM else ():
            cells = [
                cell([one[what] for one in found[backend]]) for what in ("seconds", "restore_ms", "step_ms")
            ]
            print(f"| {backend} | {keys:,} | {pause:g} | {' | '.join(cells)} | {memory_mb()} |", flush=True)
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--pauses", type=float, nargs="+", default=[0.0, 70.0])
    parser.add_argument("--backends", nargs="+", default=["memory", "rocksdb", "spark"])
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        main(given.keys, given.pauses, given.backends, Path(folder))
    sys.exit()
