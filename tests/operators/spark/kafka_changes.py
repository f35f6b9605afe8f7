"""Topics whose records change their form in the middle, and one that is read in small batches: windows, bad records, lag."""

import json
import time
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client import CollectorRegistry
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from operators import TumblingWindows, report_batches
from operators import aggregates as agg
from operators.monitoring import PrometheusOutput

WINDOWS = (
    TumblingWindows("30 minutes", grace="1 hour")
    .group_by("user")
    .aggregate(total=agg.sum("n"), clicks=agg.count())
    .emit("on_update")
)
AT = 1_767_603_600
"""2026-01-05 09:00 UTC, in seconds."""
_USER, _N = {"name": "user", "type": "string"}, {"name": "n", "type": "long"}
_SITE = {"name": "site", "type": "string", "default": "?"}
OLD, NEW = (
    json.dumps({"type": "record", "name": "click", "fields": fields})
    for fields in ([_USER, _N], [_USER, _SITE, _N])
)
"""The new schema has a field before the last one: read by the old schema, its bytes give another number, without an error."""
TYPES = "user string, at timestamp, n long"


class Topics:
    """Topics of one broker, written and read with Spark."""

    def __init__(self, servers: str, folder: Path, spark: SparkSession) -> None:
        self._servers, self._folder, self._spark = servers, folder, spark
        self._admin = AdminClient({"bootstrap.servers": servers})

    def send(self, topic: str, values: DataFrame) -> None:
        """Write values to a topic of one partition."""
        if topic not in self._admin.list_topics().topics:
            self._admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
        writer = values.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", self._servers)
        writer.option("topic", topic).save()

    def send_json(self, topic: str, *numbers: object) -> None:
        """Write clicks of ann."""
        lines = [(json.dumps({"user": "ann", "at": AT, "n": number}),) for number in numbers]
        self.send(topic, self._spark.createDataFrame(lines, "value string"))

    def send_avro(self, topic: str, schema: str, number: int, *numbers: int) -> None:
        """Write clicks of ann behind the number of their schema, in the registry's form."""
        frame = self._spark.createDataFrame(
            [("ann", "home", n) for n in numbers], "user string, site string, n long"
        )
        record = F.struct(*[field["name"] for field in json.loads(schema)["fields"]])
        self.send(topic, frame.select(F.concat(prefix(number), to_avro(record, schema)).alias("value")))

    def windows(self, topic: str, click: Column, per_batch: int) -> dict[str, Any]:
        """Run a query that takes so many records in a batch until it has all that the topic has.

        Returns:
            total and count of ann's window, the offsets of the bad records, and the lag that was shown after each batch.
        """
        registry, lag = CollectorRegistry(), list[float | None]()
        place = {"query": topic, "topic": topic, "partition": "0"}
        shown = "windows_source_lag_records"
        listener = report_batches(
            self._spark,
            PrometheusOutput(registry),
            lambda _: lag.append(registry.get_sample_value(shown, place)),
        )
        stream = self._read(self._spark.readStream, topic).option("maxOffsetsPerTrigger", per_batch).load()
        clicks = stream.select(click.alias("click"), "offset").select("click.*", "offset")
        last: list[list[int]] = []
        bad: list[int] = []

        def keep(rows: DataFrame, late: DataFrame, _batch: int) -> None:
            last.extend([row["total"], row["clicks"]] for row in rows.orderBy("sequence").collect())
            bad.extend(row["offset"] for row in late.select("record.offset").collect())

        writer = WINDOWS.apply_with_late(clicks, event_time="at").foreach_batch(keep).queryName(topic)
        query = writer.option("checkpointLocation", str(self._folder / topic)).start()
        query.processAllAvailable()
        while lag[-1:] != [0.0] and len(lag) < 10:
            time.sleep(0.05)
        query.stop()
        self._spark.streams.removeListener(listener)
        return {"window": last[-1], "bad": sorted(bad), "lag": lag}

    def totals(self, topic: str, click: Column, offsets: list[int]) -> list[int]:
        """Return the sum and the number of the clicks at some offsets, by another expression."""
        rows = self._read(self._spark.read, topic).load().where(F.col("offset").isin(offsets))
        row = rows.select(click.alias("click")).agg(F.sum("click.n"), F.count("click.at")).first()
        return [*row] if row else []

    def _read(self, reader: Any, topic: str) -> Any:
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self._servers)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest")


def hasty() -> Column:
    """A click as `from_json` reads it: a field of another type is null."""
    return F.from_json(F.col("value").cast("string"), TYPES)


def careful() -> Column:
    """The same, but a click that was not read whole has no time, and is a bad record."""
    read = F.from_json(F.col("value").cast("string"), f"{TYPES}, _corrupt_record string")
    whole = F.when(read["_corrupt_record"].isNull(), read["at"])
    return F.struct(read["user"].alias("user"), whole.alias("at"), read["n"].alias("n"))


def mended() -> Column:
    """The same, of the new form."""
    read = F.from_json(F.col("value").cast("string"), TYPES.replace("long", "string"))
    return F.struct(read["at"].alias("at"), read["n"].cast("long").alias("n"))


def prefix(number: int) -> Column:
    return F.unhex(F.lit(f"00{number:08X}"))


def by_number(schemas: dict[int, str]) -> Column:
    """A click by the schema whose number is before it, as the newest schema has it; one of another number has no time."""
    options = {"mode": "PERMISSIVE", "avroSchema": NEW}
    framed, body = F.expr("substring(value, 1, 5)"), F.expr("substring(value, 6)")
    read = F.coalesce(
        *[
            F.when(framed == prefix(number), from_avro(body, schema, options))
            for number, schema in schemas.items()
        ]
    )
    at = F.when(read["user"].isNotNull(), F.timestamp_seconds(F.lit(AT)))
    return F.struct(read["user"].alias("user"), at.alias("at"), read["n"].alias("n"))


def changes(topics: Topics) -> dict[str, Any]:
    """Return what is counted and what is bad while the form changes."""
    topics.send_json("json", 1, 2, "3", 4, {"n": 5})
    topics.send_avro("avro", OLD, 1, 1, 2)
    topics.send_avro("avro", NEW, 2, 3)
    topics.send_avro("avro", NEW, 3, 4)
    known = {1: OLD, 2: NEW}
    return {
        "JSON": topics.windows("json", careful(), 2),
        "JSON, hasty": topics.totals("json", hasty(), [*range(5)]),
        "JSON, mended": topics.totals("json", mended(), [2]),
        "Avro": topics.windows("avro", by_number(known), 4),
        "Avro, mended": topics.totals("avro", by_number({**known, 3: NEW}), [3]),
    }
