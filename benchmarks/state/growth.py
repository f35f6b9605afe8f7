"""A stream that runs for a long time, in its own process, since the interval of Spark's cleanup is fixed for a session.

    python -m benchmarks.state.growth BACKEND BATCHES FOLDER

At intervals it prints the bytes that the query keeps on disk, and the time of a batch.
"""

import json
import statistics
import sys
from pathlib import Path

from benchmarks.data import SCHEMA, operator, records, write_next
from operators import spark_session

ROWS, EVERY, RETAINED = 2_000, 25, 20
"""Records of a batch, batches between two looks, and batches that Spark can go back to."""
_PER_WINDOW = 100
_CONF = {
    "spark.sql.streaming.minBatchesToRetain": str(RETAINED),
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main(backend: str, batches: int, folder: Path) -> None:
    """Run the query and print a line of JSON for each look."""
    conf = {
        **_CONF,
        "spark.windows.state.directory": str(folder / "local"),
        "spark.windows.state.snapshots.folder": str(folder / "snapshots"),
        "spark.windows.state.snapshots.bytes": "1m",
    }
    spark = spark_session("growth", master="local[2]", buckets=2, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    source, checkpoint = folder / "in", folder / "checkpoint"
    source.mkdir()
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    windows = operator(_PER_WINDOW).apply(frame, event_time="at", backend=backend)
    query = windows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    table = records(batches * ROWS)
    for first in range(0, batches, EVERY):
        for number in range(first, first + EVERY):
            write_next(table.slice(number * ROWS, ROWS), source / f"{number:05d}.parquet", number)
        query.processAllAvailable()
        took = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
        found = {
            "batches": first + EVERY,
            "seconds": statistics.median(took[-EVERY:]) / 1_000,
            "kept_mb": round(sum(map(size, (checkpoint, folder / "snapshots"))) / 10**6, 2),
        }
        print(json.dumps(found), flush=True)
    query.stop()
    spark.stop()


def size(folder: Path) -> int:
    """Return the bytes of all files in a folder; files may be deleted meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
