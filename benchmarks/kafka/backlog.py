"""A backlog of a topic in small batches, in one batch, and as history: `python -m benchmarks.kafka.backlog`.

Four partitions have the same sixty days. Two are equally busy all the time, one has become busier, and one quieter. What
differs is which records are late, and the time. It needs Maven and a JDK 17, and takes some minutes.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.kafka.broker import running_broker
from examples.kafka.jars import CONNECTOR, MissingError
from operators import SlidingWindows, spark_session
from operators import aggregates as agg
from operators.sinks import topic_history_and_stream

_TOPIC = "backlog"
_BUSY = (1.0, 1.0, 0.5, 2.0)
"""Of each partition, the power of a uniform number that a record's part of the sixty days is."""
_DAYS = 60
_GRACE = timedelta(days=1)
_FIRST_MS = 1_767_225_600_000
_DAY_MS = 86_400_000
_KEYS = 1_000
WINDOWS = (
    SlidingWindows("1 hour", grace="1 day")
    .group_by("user")
    .aggregate(n=agg.count(), total=agg.sum("v"))
    .emit("on_update")
)


def write(servers: str, many: int) -> int:
    """Write the records, in order of time in each partition; return how many."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(_TOPIC, len(_BUSY), 1)])[_TOPIC].result()
    rng, sent = random.Random(0), 0
    with Producer({"bootstrap.servers": servers, "linger.ms": 50}) as producer:
        for partition, power in enumerate(_BUSY):
            number = many // len(_BUSY)
            sent += number
            for at in sorted(int(_DAYS * _DAY_MS * rng.random() ** power) for _ in range(number)):
                record = {"user": rng.randrange(_KEYS), "at": _FIRST_MS + at, "v": rng.randrange(100)}
                producer.produce(_TOPIC, json.dumps(record), partition=partition)
                producer.poll(0)
        producer.flush()
    return sent


def records(messages: DataFrame) -> DataFrame:
    """The records of messages."""
    body = F.from_json(F.col("value").cast("string"), "user long, at long, v long")
    return messages.select(body.alias("body")).select(
        "body.user", F.timestamp_millis("body.at").alias("at"), "body.v"
    )


def in_batches(spark: SparkSession, servers: str, folder: Path, per_batch: int | None) -> int:
    """Read the topic as a stream, with so many records in a batch; return how many were late."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", _TOPIC).option("startingOffsets", "earliest")
    if per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", per_batch)
    late = list[int]()

    def count(rows: DataFrame, found: DataFrame, _batch: int) -> None:
        rows.write.format("noop").mode("overwrite").save()
        late.append(found.count())

    query = WINDOWS.apply_with_late(records(reader.load()), "at", backend="rocksdb").foreach_batch(count)
    query = query.option("checkpointLocation", str(folder / f"batches-{per_batch}"))
    query.trigger(availableNow=True).start().awaitTermination()
    return sum(late)


def as_history(spark: SparkSession, servers: str, folder: Path) -> int:
    """Emit the windows of the backlog, write the state that a stream goes on from, and return how many records were late."""
    history = records(topic_history_and_stream(spark, servers, _TOPIC).history)
    result = WINDOWS.apply_with_late(history, "at")
    result.windows.write.format("noop").mode("overwrite").save()
    newest = history.agg(F.max("at")).collect()[0][0]
    WINDOWS.savepoint(history, "at", folder / "savepoint", close_time=newest - _GRACE)
    return result.late.count()


def main() -> int:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kafka.backlog", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument("--records", type=int, default=300_000, help="in the topic (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=20, help="of the first way (default: %(default)s)")
    options = parser.parse_args()
    try:
        jars = ",".join(map(str, CONNECTOR.jars()))
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} pyspark-shell"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "broker").mkdir()
            with running_broker(folder / "broker") as broker:
                measure(broker.servers, folder, options.records, options.batches)
    except MissingError as error:
        print(f"skipped: {error}")
    return 0


def measure(servers: str, folder: Path, many: int, batches: int) -> None:
    """Measure each way, after a warm-up."""
    sent = write(servers, many)
    conf: dict[str, object] = {"spark.ui.enabled": "false"}
    spark = spark_session("backlog", master="local[2]", buckets=2, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    records(
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", _TOPIC)
        .load()
    ).count()
    ways: dict[str, Callable[[], int]] = {
        f"{batches} batches": lambda: in_batches(spark, servers, folder, sent // batches),
        "one batch": lambda: in_batches(spark, servers, folder, None),
        "history": lambda: as_history(spark, servers, folder),
    }
    for name, way in ways.items():
        began = time.perf_counter()
        late = way()
        print(f"{sent:,} records, {name:10}: {late:,} late, {time.perf_counter() - began:.1f} s", flush=True)
    spark.stop()


if __name__ == "__main__":
    sys.exit(main())
