"""Topics whose partitions run ahead of each other: python -m tests.operators.spark.kafka_history SERVERS FOLDER prints JSON.

It runs in a process of its own, whose session has Spark's connector.
"""

# ruff: noqa: T201 - a script that prints

import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import RollingWindows, SessionWindows, spark_session
from operators import aggregates as agg
from operators.sinks import KafkaSink, Upsert, read_table, topic_history_and_stream, upsert_to
from tests.operators.spark.frames import session_conf

AT_MS = 1_767_603_600_000
"""2026-01-05 09:00 UTC."""
HOURS = 48
TOPICS = {"even": [300, 300], "uneven": [1_500, 30, 0]}
"""How many records each partition has in the backlog: all cover the same two days, but for the one that has none."""
NEWER = 40
SESSIONS = (
    SessionWindows("10 minutes", grace="1 hour").group_by("user").aggregate(n=agg.count(), total=agg.sum("v"))
)
ROLLING = RollingWindows({"hour": "1 hour"}, grace="1 hour").group_by("user").aggregate(n=agg.count())
MICROS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}
COMMITTED = {"kafka.isolation.level": "read_committed"}


class Session:
    """A session of Spark, and a broker.

    Args:
        servers: of the broker.
        folder: for checkpoints and savepoints.
    """

    def __init__(self, servers: str, folder: Path) -> None:
        self.servers, self.folder = servers, folder
        conf: dict[str, Any] = {**session_conf(folder / "local"), "spark.sql.session.timeZone": "UTC"}
        self.spark: SparkSession = spark_session("history", master="local[2]", buckets=2, conf=conf)
        self.spark.sparkContext.setLogLevel("ERROR")
        self._rng = random.Random(5)

    def send(self, begin_hour: int, hours: int, records: Mapping[str, list[int]]) -> None:
        """Write records over some hours to each partition, in order of time but for half an hour, in one transaction.

        Another transaction, which is aborted, is behind it.
        """
        with Producer({"bootstrap.servers": self.servers, "transactional.id": "records"}) as producer:
            producer.init_transactions()
            for aborted in (False, True):
                producer.begin_transaction()
                for topic, partitions in records.items():
                    for partition, number in enumerate(partitions):
                        for line in self._lines(begin_hour, hours, 3 if aborted else number):
                            producer.produce(topic, line, partition=partition)
                producer.flush()
                (producer.abort_transaction if aborted else producer.commit_transaction)()

    def _lines(self, begin_hour: int, hours: int, number: int) -> list[str]:
        order = sorted((self._rng.uniform(0, hours) for _ in range(number)), key=self._jumbled)
        return [
            json.dumps(
                {
                    "user": f"user-{self._rng.randrange(6)}",
                    "at": AT_MS + int((begin_hour + hour) * 3_600) * 1_000,
                    "v": self._rng.randrange(100),
                }
            )
            for hour in order
        ]

    def _jumbled(self, hour: float) -> float:
        return hour + self._rng.uniform(0, 0.5)

    def stream(self) -> DataFrame:
        """The records of all topics, in small batches."""
        place = {"kafka.bootstrap.servers": self.servers, "subscribe": ",".join(TOPICS), **COMMITTED}
        small = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "600"}
        return records(self.spark.readStream.format("kafka").options(**place, **small).load())

    def bounded(self) -> DataFrame:
        """All records that there are now."""
        place = {"kafka.bootstrap.servers": self.servers, "subscribe": ",".join(TOPICS), **COMMITTED}
        return records(self.spark.read.format("kafka").options(**place).load())

    def run(self, name: str, rows: Any, write: Callable[[DataFrame, DataFrame, int], object]) -> None:
        """Run a query, whose late records come with its rows, over all that there is."""
        query = rows.foreach_batch(write).option("checkpointLocation", str(self.folder / name))
        query.trigger(availableNow=True).start().awaitTermination()

    def sink(self, topic: str, *keys: str) -> Upsert:
        """Writes to a topic that it creates."""
        return upsert_to(KafkaSink(self.servers, topic, partitions=2), keys=keys, query=topic)

    def table(self, topic: str) -> list[str]:
        """The rows of a topic's table, without their numbers."""
        found = [json.loads(value) for value in read_table(self.servers, topic).values()]
        return sorted(json.dumps({**row, "sequence": None}, sort_keys=True) for row in found)


def records(messages: DataFrame) -> DataFrame:
    """The records of messages, with where they were."""
    body = F.from_json(F.col("value").cast("string"), "user string, at long, v long")
    at = F.timestamp_millis("body.at")
    found = messages.select(body.alias("body"), "topic", "partition", "offset")
    return found.select("body.user", at.alias("at"), "body.v", "topic", "partition", "offset")


def lines(frame: DataFrame) -> list[str]:
    """The rows of a frame as a sink writes them."""
    if "window" in frame.columns:
        bounds = [F.col(f"window.{end}").alias(f"window_{end}") for end in ("start", "end")]
        frame = frame.select("*", *bounds).drop("window")
    rows = frame.drop("change").select(F.to_json(F.struct("*"), MICROS).alias("row")).collect()
    return sorted(json.dumps({**json.loads(one.row), "sequence": None}, sort_keys=True) for one in rows)


def backlog(session: Session) -> dict[str, Any]:
    """Read in small batches; then as history, and as the stream after it, to which records of another hour come."""
    late, behind = list[int](), list[int]()
    small = SESSIONS.emit("on_update").apply_with_late(session.stream(), event_time="at")
    session.run("small", small, lambda _windows, found, _batch: late.append(found.count()))

    cut = topic_history_and_stream(session.spark, session.servers, [*TOPICS], options=COMMITTED)
    history, updates = records(cut.history), SESSIONS.emit("on_update")
    number, newest = history.agg(F.count("*"), F.max("at")).collect()[0]
    session.send(HOURS, 1, {"even": [NEWER, NEWER], "uneven": [0, NEWER, NEWER]})
    closed = newest - timedelta(hours=1)
    saved = updates.savepoint(history, "at", session.folder / "saved", close_time=closed)
    upsert = session.sink("sessions", "user")
    upsert(updates.apply(history, event_time="at"), 0)

    def write(windows: DataFrame, found: DataFrame, batch: int) -> None:
        upsert(windows, batch + 1)
        behind.append(found.count())

    options = {"state.savepoint": saved.uri}
    session.run("after", updates.apply_with_late(records(cut.stream), "at", options=options), write)
    return {
        "late in small batches": sum(late),
        "history": [number, history.count()],
        "late after history": sum(behind),
        "table": session.table("sessions"),
        "wanted": lines(updates.apply(session.bounded(), event_time="at")),
    }


def kinds(session: Session) -> dict[str, Any]:
    """What queries emit, and what is in the topics then: windows on close, late records, rolling rows."""
    emitted: dict[str, list[str]] = {"closed": [], "late": [], "rolling": []}
    closed, late = session.sink("closed", "user"), session.sink("late", "topic", "partition", "offset")
    rolling = session.sink("rolling", "topic", "partition", "offset")

    def write(windows: DataFrame, found: DataFrame, batch: int) -> None:
        records = found.select("record.*", "reason")
        for name, sink, rows in (("closed", closed, windows), ("late", late, records)):
            emitted[name] += lines(rows)
            sink(rows, batch)

    def write_rolling(rows: DataFrame, _late: DataFrame, batch: int) -> None:
        emitted["rolling"] += lines(rows)
        rolling(rows, batch)

    session.run("closed", SESSIONS.apply_with_late(session.stream(), event_time="at"), write)
    session.run("rolling", ROLLING.apply_with_late(session.stream(), event_time="at"), write_rolling)
    return {name: {"emitted": sorted(rows), "table": session.table(name)} for name, rows in emitted.items()}


def grown(session: Session, admin: AdminClient) -> list[int]:
    """How many records a running query has read of a topic: of its only partition, and after it got another one."""
    admin.create_topics([NewTopic("grows", 1, 1)])["grows"].result()
    place = {"kafka.bootstrap.servers": session.servers, "subscribe": "grows", "startingOffsets": "latest"}
    stream = records(session.spark.readStream.format("kafka").options(**place).load())
    read, found = list[int](), list[int]()
    counted = SESSIONS.emit("on_update").apply_with_late(stream, event_time="at")
    query = counted.foreach_batch(
        lambda windows, late, _batch: read.append(
            (windows.agg(F.sum("n")).collect()[0][0] or 0) + late.count()
        )
    )
    running = query.option("checkpointLocation", str(session.folder / "grows")).start()
    running.processAllAvailable()  # it has begun at the end of an empty topic
    for partition in range(2):
        if partition:
            admin.create_partitions([NewPartitions("grows", 2)])["grows"].result()
        at = AT_MS + partition * 3_600_000
        with Producer({"bootstrap.servers": session.servers}) as producer:
            for number in range(5):
                line = json.dumps({"user": f"user-{number}", "at": at, "v": 1})
                producer.produce("grows", line, partition=partition)
            producer.flush()
        end = time.monotonic() + 120
        while sum(read) < 5 * (partition + 1) and time.monotonic() < end:
            running.processAllAvailable()
        found.append(sum(read))
    running.stop()
    return found


def main(servers: str, folder: Path) -> None:
    """Print what was found."""
    session = Session(servers, folder)
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(name, len(of), 1) for name, of in TOPICS.items()]).values():
        created.result()
    session.send(0, HOURS, TOPICS)
    found = {"backlog": backlog(session), "kinds": kinds(session), "grown": grown(session, admin)}
    print(json.dumps(found))
    session.spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
