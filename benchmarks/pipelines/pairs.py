"""How small batches of streams are timed: in one session and in turn, so that all meet the same machine."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from benchmarks.data import SCHEMA, records, write_next
from operators.spark.base.session import PARTITIONS_KEY

SMALL = 2_000
"""Rows of a batch."""
_CONF = {
    # A stream that waits looks for files all the time, while another one has its turn.
    "spark.sql.streaming.pollingDelay": "100",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


@dataclass
class Pairs:
    """Small batches of streams of each system in turn.

    Attributes:
        spark: the session.
        folder: for the streams' files and checkpoints.
        measured: seconds of the batches of each system, by what was measured.
    """

    spark: SparkSession
    folder: Path
    measured: dict[tuple[str, int], dict[str, list[float]]] = field(default_factory=dict)

    def of(
        self, kind: str, buckets: int, made: Mapping[str, Callable[[DataFrame], DataFrame]]
    ) -> dict[str, list[float]]:
        """Return the seconds of each system's batches; they run once.

        Args:
            kind: of the windows.
            buckets: of ours, and shuffle partitions of Spark's own.
            made: returns the windows of a stream, by system.
        """
        if (kind, buckets) not in self.measured:
            self.measured[kind, buckets] = self._run(kind, buckets, made)
        return self.measured[kind, buckets]

    def _run(
        self, kind: str, buckets: int, made: Mapping[str, Callable[[DataFrame], DataFrame]]
    ) -> dict[str, list[float]]:
        measured = _measured(buckets)
        batches = _warm(buckets) + measured
        table = records(batches * SMALL)
        with ExitStack() as ends:
            for key, value in {**_CONF, PARTITIONS_KEY: str(buckets)}.items():
                ends.callback(self.spark.conf.set, key, self.spark.conf.get(key))
                self.spark.conf.set(key, value)
            queries = {
                self.folder / f"{kind}-{buckets}-{number}": query
                for number, query in enumerate(made.values())
            }
            running = {folder: self._started(folder, windows, ends) for folder, windows in queries.items()}
            for number in range(batches):
                for folder, query in list(running.items())[:: 1 if number % 2 else -1]:
                    write_next(table.slice(number * SMALL, SMALL), folder / f"{number:03d}.parquet", number)
                    query.processAllAvailable()
            return {
                system: _seconds(query)[-measured:]
                for system, query in zip(made, running.values(), strict=True)
            }

    def _started(
        self, folder: Path, windows: Callable[[DataFrame], DataFrame], ends: ExitStack
    ) -> StreamingQuery:
        folder.mkdir()
        frame = windows(self.spark.readStream.schema(SCHEMA).parquet(str(folder)))
        checkpoint = str(folder.with_name(f"{folder.name}-checkpoint"))
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        ends.callback(query.stop)
        return query


def _warm(buckets: int) -> int:
    """Batches before the measured ones, in which Java compiles what each task runs: the more tasks, the fewer."""
    return max(4, 24 // buckets)


def _measured(buckets: int) -> int:
    """Measured batches of each stream: with many buckets they take seconds, and differ less."""
    return 15 if buckets < 64 else 7


def _seconds(query: StreamingQuery) -> list[float]:
    """Seconds of the batches that had rows."""
    took = [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]]
    return [milliseconds / 1_000 for milliseconds in took]
