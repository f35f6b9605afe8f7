"""Batches of changed rows into a topic, by `KafkaSink` and by Spark's own sink in turn: `python -m benchmarks.kafka.sinks`.

Spark's sink writes from the executors, at least once; ours from the driver, exactly once. Both read the same rows from files,
and write messages with the same key, value and headers. It needs Maven and a JDK 17, and takes some minutes.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.kafka.broker import running_broker
from examples.kafka.jars import CONNECTOR, MissingError
from operators import spark_session
from operators.sinks import KafkaSink, upsert_to

_SIZES = {1_000: 11, 100_000: 5, 1_000_000: 3}
"""How often a batch of so many rows is written by each, without the first time."""
_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}
Write = Callable[[DataFrame], None]


def rows(spark: SparkSession, many: int, folder: Path) -> DataFrame:
    """Return changed windows of a key for each ten rows, from files."""
    start = F.timestamp_seconds(1_700_000_000 + F.col("id") % 10 * 60)
    end = F.timestamp_seconds(1_700_000_060 + F.col("id") % 10 * 60)
    frame = spark.range(0, many, numPartitions=2).select(
        F.concat(F.lit("user-"), (F.col("id") / 10).cast("long")).alias("user"),
        F.struct(start.alias("start"), end.alias("end")).alias("window"),
        F.lit("update").alias("change"),
        F.col("id").alias("sequence"),
        (F.col("id") % 97).alias("n"),
        (F.col("id") / 7.0).alias("total"),
    )
    path = str(folder / str(many))
    frame.write.parquet(path)
    return spark.read.parquet(path)


def ours(servers: str, topic: str) -> Write:
    """Return what writes a batch by `KafkaSink`."""
    write, batches = upsert_to(KafkaSink(servers, topic, partitions=4), keys=["user"], query="q"), count()
    return lambda frame: write(frame, next(batches))


def of_spark(servers: str, topic: str) -> Write:
    """Return what writes a batch by Spark's sink, as the documentation's recipe does."""

    def header(name: str) -> Column:
        return F.struct(
            F.lit(name).alias("key"), F.encode(F.col(name).cast("string"), "utf-8").alias("value")
        )

    def write(frame: DataFrame) -> None:
        bounds = [F.col(f"window.{bound}").alias(f"window_{bound}") for bound in ("start", "end")]
        flat = frame.select("user", *bounds, "change", "sequence", "n", "total")
        value = F.to_json(F.struct("user", "window_start", "window_end", "sequence", "n", "total"), _JSON)
        messages = flat.select(
            F.to_json(F.struct("user", "window_start", "window_end"), _JSON).alias("key"),
            F.when(F.col("change") == "update", value).alias("value"),
            F.array(header("change"), header("sequence")).alias("headers"),
        )
        to = messages.write.format("kafka").option("kafka.bootstrap.servers", servers)
        to.option("topic", topic).option("includeHeaders", "true").save()

    return write


def main() -> int:
    """Write batches of each size by either sink in turn, and print the medians."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kafka.sinks", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument(
        "--rows", type=int, action="append", help="of a batch (default: 1000, 100000, a million)"
    )
    sizes = parser.parse_args().rows or [*_SIZES]
    try:
        jars = CONNECTOR.jars()
    except MissingError as error:
        print(f"skipped: {error}")
        return 0
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, jars))} pyspark-shell"
    with tempfile.TemporaryDirectory() as name, running_broker(Path(name)) as broker:
        conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        spark = spark_session("sinks", master="local[2]", buckets=2, conf=conf)
        sinks = {"KafkaSink": ours(broker.servers, "ours"), "Spark's": of_spark(broker.servers, "sparks")}
        for many in sizes:
            frame = rows(spark, many, Path(name, "rows"))
            taken: dict[str, list[float]] = {sink: [] for sink in sinks}
            for turn in range(_SIZES.get(many, 3) + 1):
                for sink, write in sinks.items():
                    began = time.perf_counter()
                    write(frame)
                    if turn:
                        taken[sink].append(time.perf_counter() - began)
            for sink, seconds in taken.items():
                median = statistics.median(seconds)
                print(
                    f"{many:9,} rows, {sink:9}: {median:.2f} s a batch, {many / median:9,.0f} rows/s",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
