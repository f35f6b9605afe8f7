"""Runs a query on Spark: ours, Spark's own, or a pass-through.

    python -m benchmarks.nexmark.streams SYSTEM QUERY FOLDER [RESULTS]

SYSTEM is `ours`, `spark` or `pass`; FOLDER has the folder `bids`. Each file is a batch. Prints a line of JSON: rows per second
by the clock, and per second of the processor time of all processes, of the batches after the first third; bytes of state at
the end; and the seconds of such a batch. With RESULTS, rows go there as Parquet.
"""

import json
import statistics
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from benchmarks.nexmark.bids import SCHEMA
from benchmarks.nexmark.processor import ProcessorTime
from benchmarks.nexmark.queries import QUERIES
from operators import spark_session
from operators.spark.base.listener import operator_batches

CORES = 2


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
        "spark.windows.state.directory": str(folder / "local"),
    }
    spark = spark_session("nexmark", master=f"local[{CORES}]", buckets=CORES, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def state_bytes(system: str, progress: Any) -> int:
    """The bytes of state after a batch, as each system counts them."""
    if system == "ours":
        return sum(one.counts_out["state_bytes"] for one in operator_batches(progress))
    metrics = [one["customMetrics"] for one in json.loads(progress.json)["stateOperators"]]
    return sum(one.get("rocksdbTotalSSTFilesBytes", one.get("rocksdbSstFileSize", 0)) for one in metrics)


def run(query: StreamingQuery) -> list[Any]:
    """Wait until all files are read; return the progress of batches with rows."""
    query.processAllAvailable()
    query.stop()
    return [one for one in query.recentProgress if one["numInputRows"]]


def main(system: str, name: str, folder: Path, results: Path | None) -> None:
    """Run a query and print the figures."""
    spark, used = session(folder), ProcessorTime()
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100000")
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "bids"))
    rows = frame(system, name, source)
    writer = rows.writeStream.option("checkpointLocation", str(folder / f"checkpoint-{system}-{name}"))
    query = writer.format("noop").start() if results is None else writer.format("parquet").start(str(results))
    batches = run(query)
    later = batches[len(batches) // 3 :]
    seconds = [one["durationMs"]["triggerExecution"] / 1_000 for one in later]
    begin, end = (_ended(one) for one in (batches[len(batches) // 3 - 1], later[-1]))
    count = sum(one["numInputRows"] for one in later)
    figures = {
        "per_second": count / (end - begin),
        "per_processor_second": count / (used.at(end) - used.at(begin)),
        "state_bytes": state_bytes(system, batches[-1]),
        "batch_s": statistics.median(seconds),
        "slow_batch_s": statistics.quantiles(seconds, n=100, method="inclusive")[-1],
        "first_batch_s": batches[0]["durationMs"]["triggerExecution"] / 1_000,
    }
    print(json.dumps(figures))
    spark.stop()


def _ended(progress: Any) -> float:
    """When a batch ended, in seconds since the epoch."""
    began = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
    return began + progress["durationMs"]["triggerExecution"] / 1_000


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
