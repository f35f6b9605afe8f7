"""A driver that writes sessions to PostgreSQL or Kafka and is stopped between the two commits of a batch.

python -m tests.faults.upserts FOLDER CONNINFO, or kafka:SERVERS

The files of FOLDER/plan name the batches, and how each is stopped, once.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from operators import spark_session
from operators.sinks import KafkaSink, PostgresSink, Sink, upsert_to
from tests.faults.stops import run_to_the_end, stop_as_planned
from tests.operators.spark.frames import operator, session_conf, stream


def sink_of(place: str) -> Sink:
    """The table or the topic."""
    kind, _, servers = place.partition(":")
    return KafkaSink(servers, "sessions", 3) if kind == "kafka" else PostgresSink(place, "sessions")


class Writer:
    """Writes batches, and stops after those of the plan: "raise" ends the query, "wait" waits to be killed."""

    def __init__(self, folder: Path, conninfo: str) -> None:
        self._folder = folder
        self._sink = sink_of(conninfo)
        self._upsert = upsert_to(self._sink, keys=["k"])

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Write a batch; note whether it was in the table before, and whether it is stopped here."""
        query = json.loads((self._folder / "checkpoint" / "metadata").read_text())["id"]
        last = self._sink.last_batch(query)
        if last is not None and last.number == batch:
            (self._folder / "repeated" / str(batch)).touch()
        self._upsert(rows, batch)
        stop_as_planned(self._folder, batch)


def run(spark: SparkSession, folder: Path, write: Writer) -> None:
    """Run the query to the end of its input; start it again whenever it was stopped."""

    def start() -> StreamingQuery:
        windows = operator("on_update", "session").apply(stream(spark, folder / "in"), event_time="at")
        checkpoint = str(folder / "checkpoint")
        return windows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()

    run_to_the_end(start)


def main(folder: Path, conninfo: str) -> None:
    """Run the query in a session of its own."""
    conf = {**session_conf(folder / "local"), "spark.sql.session.timeZone": "UTC"}
    spark = spark_session("upserts", master="local[2]", buckets=2, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    run(spark, folder, Writer(folder, conninfo))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
