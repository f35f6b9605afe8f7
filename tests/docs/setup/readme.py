"""README's frames: departures, a table of a batch, clicks and orders, and the checkpoint of a stopped query."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from operators import SlidingWindows
from operators import aggregates as agg

START = datetime(2026, 1, 5, 9, tzinfo=timezone.utc)


def names(spark: SparkSession) -> dict[str, Any]:
    """Return the frames by the names that README has for them."""
    times = [START + timedelta(minutes=n) for n in range(4)]
    departures = spark.createDataFrame(
        [("EWR", time, 5) for time in times], "origin string, departed timestamp, dep_delay int"
    )
    departures.coalesce(1).write.parquet("departures")
    files = spark.readStream.schema(departures.schema).parquet("departures")
    op = SlidingWindows("60 minutes", grace="30 minutes").group_by("origin").aggregate(flights=agg.count())
    windows = op.apply(files, event_time="departed")
    writer = windows.writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", "checkpoints/delays").start().awaitTermination()
    table = pa.table(
        {
            "departed": pa.array(times, pa.timestamp("us", "UTC")),
            "shop": ["north"] * 4,
            "factor": [1.0, 2.0, 4.0, 8.0],
            "name": ["a", "bb", None, "c"],
        }
    )
    return {
        "df": departures,
        "table": table,
        "clicks": spark.createDataFrame([("ann", times[0])], "user string, at timestamp"),
        "orders": spark.createDataFrame(
            [("ann", times[1], 9.5)], "user string, ordered_at timestamp, amount double"
        ),
    }
