"""Our side, in a process of its own: `python -m benchmarks.kafka.ours SERVERS FOLDER INPUT OUTPUT WINDOW`."""

import sys
from pathlib import Path

from pyspark.sql import functions as F

from benchmarks.kafka.records import operator
from operators import spark_session
from operators.sinks import KafkaSink, upsert_to


def main(servers: str, folder: Path, topic: str, output: str, window: str) -> None:
    """Run the query until the process is killed."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.windows.state.directory": str(folder / "local"),
        "spark.sql.session.timeZone": "UTC",
    }
    spark = spark_session("kafka", master="local[2]", buckets=2, conf=conf)
    messages = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    messages = messages.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 500_000)
    parts = F.split(F.col("value").cast("string"), ",")
    records = (
        messages.option("subscribe", topic)
        .load()
        .select(
            F.col("key").cast("string").alias("key"),
            F.col("timestamp").alias("at"),
            parts[0].cast("long").alias("value"),
            parts[1].cast("long").alias("sent"),
        )
    )
    windows = operator(window).apply(records, event_time="at", backend="rocksdb")
    sink = KafkaSink(servers, output, config={"transaction.timeout.ms": 10_000})
    query = windows.writeStream.foreachBatch(upsert_to(sink, keys=["key"]))
    running = query.option("checkpointLocation", str(folder / "checkpoint")).start()
    print("RUNNING", flush=True)
    running.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
