"""Runs a query on Spark: ours, Spark's own, or a pass-through.

    python -m benchmarks.nexmark.streams SYSTEM QUERY FOLDER [--results FOLDER] [--paced FOLDER]

SYSTEM is `ours`, `spark` or `pass`; FOLDER has the folder `bids`, of which a batch reads as many files as there are cores.
Prints a line of JSON: rows per second by the clock, and per second of the processor time of all processes, of the batches after
the first third; the most bytes of state that a batch left; and the seconds of a batch. With `--results`, rows go there as
Parquet.

With `--paced`, the files of that folder arrive after all others have been read, one every `FILE_S`, and a batch reads what has
arrived. Printed is then the time when the first bid of them was due.
"""

import argparse
import json
import statistics
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.nexmark.bids import SCHEMA
from benchmarks.nexmark.processor import ProcessorTime
from benchmarks.nexmark.queries import QUERIES
from operators import spark_session
from operators.spark.base.listener import operator_batches

CORES = 2
FILE_S = 0.1
"""How long bids wait for the end of their file, where they arrive at a pace."""


def frame(system: str, query: str, bids: DataFrame) -> DataFrame:
    """Return what a system makes of the bids."""
    if system == "pass":
        return bids
    asked = QUERIES[query]
    if system == "ours":
        return asked.operator.apply(bids, "at", backend="rocksdb")
    if asked.spark is None:
        raise ValueError(f"Spark has no {query}")
    return asked.spark(bids)


def session(folder: Path) -> SparkSession:
    """Return a session of two cores with Spark's RocksDB store and its changelog."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),  # docs/performance.md: rows are narrow
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
        "spark.windows.state.directory": str(folder / "local"),
    }
    spark = spark_session("nexmark", master=f"local[{CORES}]", buckets=CORES, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def state_bytes(system: str, progress: Any) -> int:
    """The bytes of state after a batch, as each system counts them: ours pages, Spark's the files of its last snapshot."""
    if system == "ours":
        return sum(one.counts_out["state_bytes"] for one in operator_batches(progress))
    metrics = [one["customMetrics"] for one in json.loads(progress.json)["stateOperators"]]
    return sum(one.get("rocksdbSstFileSize", 0) for one in metrics)


def rates(system: str, batches: list[Any], used: ProcessorTime) -> dict[str, float]:
    """Return the figures of the batches after the first third."""
    later = batches[len(batches) // 3 :]
    begin, end = (_ended(one) for one in (batches[len(batches) // 3 - 1], later[-1]))
    count = sum(one["numInputRows"] for one in later)
    return {
        "per_second": count / (end - begin),
        "per_processor_second": count / (used.at(end) - used.at(begin)),
        "state_bytes": max(state_bytes(system, one) for one in batches),
        "batch_s": statistics.median(one["durationMs"]["triggerExecution"] / 1_000 for one in later),
        "first_batch_s": batches[0]["durationMs"]["triggerExecution"] / 1_000,
    }


def feed(waiting: Path, arrived: Path) -> float:
    """Let files arrive one after the other; return when the first bid was due."""
    begin = time.time()
    for number, path in enumerate(sorted(waiting.iterdir()), start=1):
        time.sleep(max(0.0, begin + number * FILE_S - time.time()))
        path.rename(arrived / path.name)
    return begin


def main() -> None:
    """Run a query and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("system")
    parser.add_argument("query")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--paced", type=Path)
    given = parser.parse_args()
    spark, used = session(given.folder), ProcessorTime()
    source, arrived = spark.readStream.schema(SCHEMA), given.folder / "bids"
    if given.paced is None:
        source = source.option("maxFilesPerTrigger", CORES)
    rows = frame(given.system, given.query, source.parquet(str(arrived)))
    writer = rows.writeStream.option("checkpointLocation", str(given.folder / "checkpoint"))
    query = (
        writer.format("noop").start()
        if given.results is None
        else writer.format("parquet").start(str(given.results))
    )
    query.processAllAvailable()
    if given.paced is not None:
        begin = feed(given.paced, arrived)
        query.processAllAvailable()
        print(json.dumps({"begin": begin}))
    elif given.results is None:
        print(
            json.dumps(
                rates(given.system, [one for one in query.recentProgress if one["numInputRows"]], used)
            )
        )
    query.stop()
    spark.stop()


def _ended(progress: Any) -> float:
    """When a batch ended, in seconds since the epoch."""
    began = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
    return began + progress["durationMs"]["triggerExecution"] / 1_000


if __name__ == "__main__":
    main()
