"""How a streaming query is timed: batches of half a million rows, then batches of a few, by Spark's own clock."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.data import SCHEMA
from benchmarks.measure import Measure

FILES, ROWS, FEW = 7, 500_000, 10
"""Files of each size, one a batch."""


@dataclass(frozen=True)
class Stream:
    """The files of the benchmarks as a stream.

    Attributes:
        spark: the session.
        source: where the files are.
        folder: for checkpoints, empty.
        large: how many of the large files are read.
    """

    spark: SparkSession
    source: Path
    folder: Path
    large: int = FILES

    def frame(self, large: int) -> DataFrame:
        """Return the stream of so many large files and all small ones."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        names = f"{{large-00[0-{large - 1}],small-*}}.parquet"
        return reader.option("pathGlobFilter", names).parquet(str(self.source))


def timed(
    measure: Measure,
    stream: Stream,
    made: Callable[[DataFrame], DataFrame],
    *,
    section: str,
    system: str,
    **axes: object,
) -> None:
    """Run a stream to its end without a sink; note the seconds of its large batches but the first, and of empty ones.

    It runs once before with one large batch: else what comes first pays for the JVM's compiling of what all have in common.
    An empty batch is one of a few rows: the two after the last large one still emit what that one closed, and are left out.
    """
    _run(made(stream.frame(1)), stream.folder / "before")
    batches: list[tuple[int, float]] = []

    def query() -> None:
        batches.extend(_run(made(stream.frame(stream.large)), stream.folder / "checkpoint"))

    measure.benchmark.pedantic(query, rounds=1)
    large = [seconds for rows, seconds in batches if rows > FEW]
    small = [seconds for rows, seconds in batches if rows <= FEW]
    measure.taken(large[1:], section=section, system=system, rows=ROWS, **axes)
    measure.note(empty_seconds=round(statistics.median(small[2:]), 4))


def _run(frame: DataFrame, checkpoint: Path) -> list[tuple[int, float]]:
    """Run a query to the end of its input; return rows and seconds of its batches that had any."""
    running = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    running.processAllAvailable()
    running.stop()
    progress = [(p["numInputRows"], p["durationMs"]["triggerExecution"]) for p in running.recentProgress]
    return [(rows, ms / 1_000) for rows, ms in progress if rows]
