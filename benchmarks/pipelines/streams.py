"""How a streaming query is timed: batches of half a million rows, then batches of a few, by Spark's own clock."""

import statistics
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.data import SCHEMA
from benchmarks.measure import Measure

FILES, ROWS, FEW = 5, 500_000, 10
"""Files of each size, one a batch."""


def read(spark: SparkSession, source: Path, large: int) -> DataFrame:
    """Return the stream of so many large files and all small ones."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.option("pathGlobFilter", f"{{large-00[0-{large - 1}],small-*}}.parquet").parquet(
        str(source)
    )


def timed(
    measure: Measure, frame: DataFrame, folder: Path, *, section: str, system: str, **axes: object
) -> None:
    """Run a stream to its end without a sink; note the seconds of its large batches but the first, and of empty ones.

    An empty batch is one of a few rows: the two after the last large one still emit what that one closed, and are left out.
    """
    batches: list[tuple[int, float]] = []

    def query() -> None:
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        running = writer.start()
        running.processAllAvailable()
        running.stop()
        progress = [(p["numInputRows"], p["durationMs"]["triggerExecution"]) for p in running.recentProgress]
        batches.extend((rows, ms / 1_000) for rows, ms in progress if rows)

    measure.benchmark.pedantic(query, rounds=1)
    large = [seconds for rows, seconds in batches if rows > FEW]
    small = [seconds for rows, seconds in batches if rows <= FEW]
    measure.taken(large[1:], section=section, system=system, rows=ROWS, **axes)
    measure.beside(empty_seconds=round(statistics.median(small[2:]), 4))
