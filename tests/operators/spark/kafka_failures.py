"""Queries that fail for a topic: python -m tests.operators.spark.kafka_failures SERVERS PID FOLDER prints what is said of each.

It runs in a process of its own, whose session has Spark's connector.
"""

# ruff: noqa: T201 - a script that prints

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from operators import spark_session, what_failed
from tests.operators.spark.kafka_changes import Topics, changes


class Failures:
    """What is said of queries on one broker, by name."""

    def __init__(self, servers: str, folder: Path, spark: SparkSession) -> None:
        self.said: dict[str, str | None] = {}
        self.admin = AdminClient({"bootstrap.servers": servers})
        self._servers, self._folder, self._spark = servers, folder, spark

    def fails(self, name: str, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - all of them are told
            self.said[name] = what_failed(error)
            print(name, str(error)[:1_500], file=sys.stderr)
        else:
            self.said[name] = "nothing"
        print(
            f"{time.process_time():.1f} s of this process, {time.monotonic():.1f} s by the clock: {name}",
            file=sys.stderr,
        )

    def read(self, topic: str, checkpoint: str, servers: str | None = None, **options: str) -> None:
        """Read a topic to its end."""
        messages = self._spark.readStream.format("kafka").option("subscribe", topic)
        messages = messages.option("kafka.bootstrap.servers", servers or self._servers)
        for key, value in {"startingOffsets": "earliest", **options}.items():
            messages = messages.option(key.replace("_", "."), value)
        writer = messages.load().writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._folder / checkpoint)).start()
        query.awaitTermination()

    def write(self, rows: DataFrame, topic: str, servers: str | None = None, **options: str) -> None:
        """Write rows to a topic with Spark's own sink."""
        writer = rows.write.format("kafka").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", servers or self._servers)
        for key, value in options.items():
            writer = writer.option(key.replace("_", "."), value)
        writer.save()

    def create(self, topic: str) -> None:
        self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
        self.known(topic, there=True)

    def known(self, topic: str, *, there: bool) -> None:
        """Wait until the broker knows that a topic is there, or gone."""
        while (topic in self.admin.list_topics().topics) != there:
            time.sleep(0.1)


def run(failures: Failures, broker: int, numbers: DataFrame, long: DataFrame) -> None:
    """Let each query fail."""
    failures.fails("missing", lambda: failures.read("clikcs", "missing"))
    failures.create("aged")
    failures.write(numbers, "aged")
    failures.fails("fine", lambda: failures.read("aged", "aged"))
    failures.write(numbers, "aged")
    failures.write(numbers, "aged")
    place = TopicPartition("aged", 0, 250)
    failures.admin.delete_records([place])[place].result()
    failures.fails("aged", lambda: failures.read("aged", "aged"))
    failures.create("anew")
    failures.write(numbers, "anew")
    failures.fails("fine, too", lambda: failures.read("anew", "anew"))
    failures.admin.delete_topics(["anew"])["anew"].result()
    failures.known("anew", there=False)
    failures.create("anew")
    failures.fails("anew", lambda: failures.read("anew", "anew"))
    failures.fails("large", lambda: failures.write(long, "aged"))
    soon = {"kafka_default_api_timeout_ms": "3000", "kafka_request_timeout_ms": "2000"}
    failures.fails("unreachable", lambda: failures.read("aged", "unreachable", "127.0.0.1:9", **soon))
    never = {"kafka_max_block_ms": "500"}
    failures.fails("never there", lambda: failures.write(numbers, "aged", "127.0.0.1:9", **never))
    soon = {"kafka_delivery_timeout_ms": "2000", "kafka_request_timeout_ms": "1000"}
    failures.fails("fine, three", lambda: failures.write(numbers, "aged", **soon))
    os.kill(broker, signal.SIGSTOP)
    failures.fails("gone", lambda: failures.write(numbers, "aged", **soon))


def main(servers: str, broker: int, folder: Path) -> None:
    """Print what is said, and what comes of other topics, as JSON; stop the process of the broker at the end."""
    conf: dict[str, Any] = {"spark.ui.enabled": "false", "spark.task.maxFailures": "1"}
    spark = spark_session("failures", master="local[1]", buckets=1, conf=conf)
    spark.sparkContext.setLogLevel("OFF")
    failures = Failures(servers, folder, spark)
    numbers = spark.range(100).selectExpr("CAST(id AS STRING) AS value")
    changed = changes(Topics(servers, folder, spark))
    run(failures, broker, numbers, spark.sql("SELECT repeat('x', 2000000) AS value"))
    print(json.dumps({"said": failures.said, "changed": changed}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
