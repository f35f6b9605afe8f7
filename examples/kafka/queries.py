"""Two operators on one topic of departures: airports' hours go to a compacted topic, carriers' lookbacks to a table."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from examples.kafka.messages import DDL
from examples.kafka.names import DEPARTURES, HOURS_TOPIC, PARTITIONS
from operators import RollingWindows, SlidingWindows
from operators import aggregates as agg
from operators.sinks import KafkaSink, SQLitePages, upsert_to

GRACE_DAYS = 3
"""Flights overtake each other by less than 22 hours, and a partition is ahead of another by a day or two of departures."""
HOURS = (
    SlidingWindows("60 minutes", grace=f"{GRACE_DAYS} days")
    .group_by("origin")
    .aggregate(flights=agg.count(), mean_delay=agg.avg("dep_delay"), worst=agg.max("dep_delay"))
)
CARRIERS = (
    RollingWindows({"hour": "1 hour", "day": "1 day", "week": "7 days"}, grace=f"{GRACE_DAYS} days")
    .group_by("carrier")
    .aggregate(flights=agg.count(), mean_delay=agg.avg("dep_delay"))
)


@dataclass(frozen=True, slots=True)
class Queries:
    """The two running queries.

    Attributes:
        hours: writes every distinct hour of an airport to the topic, in each batch that changes it.
        carriers: publishes the state of the carriers' windows to the table.
    """

    hours: StreamingQuery
    carriers: StreamingQuery

    @classmethod
    def start(cls, spark: SparkSession, servers: str, pages: SQLitePages, folder: Path) -> "Queries":
        """Start both, with their checkpoints in a folder."""
        windows = HOURS.emit("on_update").apply(departures(spark, servers), event_time="departure")
        upsert = upsert_to(KafkaSink(servers, HOURS_TOPIC, PARTITIONS), keys=["origin"])
        hours = windows.writeStream.queryName("hours").foreachBatch(upsert)
        carriers = CARRIERS.publish(departures(spark, servers), event_time="departure", to=pages)
        carriers = carriers.queryName("carriers")
        return cls(
            hours.option("checkpointLocation", str(folder / "hours")).start(),
            carriers.option("checkpointLocation", str(folder / "carriers")).start(),
        )

    def check(self) -> None:
        """Raise the error of a query that has ended with one."""
        for query in self.hours, self.carriers:
            error = query.exception()
            if error is not None:
                raise error

    def finish(self) -> None:
        """Wait until all that is in the topic is worked off, and stop."""
        for query in self.hours, self.carriers:
            query.processAllAvailable()
            query.stop()

    def counted(self, name: str) -> int:
        """Return the sum of a count over all batches of both queries: `late` records, say."""
        return sum(
            counts[name]
            for query in (self.hours, self.carriers)
            for progress in query.recentProgress
            for metrics in progress["observedMetrics"].values()
            if name in (counts := metrics["counts"])
        )


def departures(spark: SparkSession, servers: str) -> DataFrame:
    """Return the topic of departures as a stream."""
    messages = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    messages = messages.option("subscribe", DEPARTURES).option("startingOffsets", "earliest").load()
    body = F.from_json(F.col("value").cast("string"), DDL)
    return messages.select(body.alias("departure")).select("departure.*")
