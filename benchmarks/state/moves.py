"""What it takes to move a bucket to a machine that has nothing of it, beside Spark's own RocksDB store.

    python -m benchmarks.state.moves [--keys N...] [--moves N] [--backends NAME...] [--s3]

A query for each backend has one bucket with a live pane for each key. It is stopped, and goes on with a local directory that
is empty, as on another machine, so that the first batch of 1,000 rows has to fetch the state. The bucket of Spark's own
aggregation does so at each start. Prints a table; each cell is the median of the moves: seconds of the first batch and of those
after it, the seconds in which the state was fetched and opened, the part of these that was reading files, and, with `--s3`,
requests to a server on this machine: in the first batch, and in each of those after it.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from benchmarks.data import SCHEMA, five_aggregates, write_next
from benchmarks.state.many_keys import records
from operators import TumblingWindows, spark_session
from operators.spark.base.listener import operator_batches
from state_backends.durability.folders import Folder
from state_backends.durability.snapshots import SnapshotFolder
from tests.s3_server import CREDENTIALS, S3, running

ROWS, AT_ONCE, AFTER = 1_000, 250_000, 3
SPARKS = "Spark's own"
_STEP_MS = 60_000
_HEAD = "keys", "backend", "folder", "first batch s", "after s", "fetched and opened s", "read s", "requests"


@dataclass(frozen=True, slots=True)
class Move:
    """What a move took.

    Attributes:
        first, after: seconds of the first batch, and the median of those after it.
        opened: seconds in which the state was brought to where the bucket is.
        read: seconds that reading its files takes, done once more; None for Spark's own, and where there is only the log.
        asked: requests to the object store in the first batch, and in each of those after it.
    """

    first: float
    after: float
    opened: float
    read: float | None
    asked: tuple[float, float]


class Bucket:
    """A query of one bucket.

    Args:
        spark: the session.
        backend: memory, rocksdb, or Spark's own.
        home: where its files are, and the source.
        folder: of snapshots.
    """

    def __init__(self, spark: SparkSession, backend: str, home: Path, folder: str) -> None:
        self._spark, self._backend, self._home, self._folder = spark, backend, home, folder
        self._source = home / "source"
        self._source.mkdir(parents=True)
        self._files = 0

    def give(self, keys: np.ndarray) -> None:
        """Write the next file of the source."""
        path = self._source / f"{self._files}.parquet"
        write_next(records(keys, self._files * _STEP_MS, 1_000), path, self._files)
        self._files += 1

    def started(self, disk: str) -> StreamingQuery:
        """Start the query with a local directory of that name."""
        stream = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        rows = self._rows(stream.parquet(str(self._source)), disk)
        sink = rows.writeStream.format("noop").outputMode("update" if self._is_sparks else "append")
        return sink.option("checkpointLocation", str(self._home / "checkpoint")).start()

    @property
    def _is_sparks(self) -> bool:
        return self._backend == SPARKS

    def _rows(self, stream: DataFrame, disk: str) -> DataFrame:
        if self._is_sparks:
            grouped = stream.withWatermark("at", "0 seconds").groupBy(F.window("at", "30 days"), "k")
            return grouped.agg(F.count("*"), *(f("v") for f in (F.sum, F.min, F.max, F.avg)))
        op = TumblingWindows("30 days").group_by("k").aggregate(**five_aggregates())
        options = {
            "state.directory": str(self._home / disk),
            "state.snapshots.folder": self._folder,
            "state.snapshots.bytes": "1m",  # So that there is one of few keys, too.
        }
        return op.apply(stream, "at", backend=self._backend, options=options)

    def worked(self, query: StreamingQuery) -> dict[str, float]:
        """Let a query use up its input; return what its last batch with rows took."""
        query.processAllAvailable()
        progress: Any = [one for one in query.recentProgress if one["numInputRows"]][-1]
        found = {"seconds": progress["batchDuration"] / 1_000}
        if self._is_sparks:
            custom = progress["stateOperators"][0]["customMetrics"]
            return {**found, "opened": custom["rocksdbLoadLatencyMs"] / 1_000}
        (counts,) = [one.counts_out for one in operator_batches(progress)]
        return {**found, "opened": counts["restore_ms"] / 1_000}

    def read_s(self) -> float | None:
        """Seconds that it takes to copy the files of the newest snapshot, and to check them."""
        if self._is_sparks:
            return None
        folder = Folder(self._folder)
        names = [one.name for one in folder.list("") if one.name.endswith(".json")]
        if not names:
            return None
        newest = max(names, key=lambda name: int(name.rpartition("/")[2].partition("-")[0]))
        store_id, _, name = newest.rpartition("/")
        began = time.perf_counter()
        with TemporaryDirectory() as copied:
            snapshots = SnapshotFolder(folder, store_id)
            snapshots.fetch(snapshots.manifest(name.removesuffix(".json")), Path(copied) / "files")
            return time.perf_counter() - began


def moved(bucket: Bucket, keys: int, number: int, asked: Callable[[], int]) -> Move:
    """Move the bucket to a new local directory, and work there for some batches."""
    rng, before = np.random.default_rng(number), asked()
    bucket.give(rng.integers(0, keys, ROWS))
    query = bucket.started(f"disk-{number}")
    try:
        first = bucket.worked(query)
        then, after = asked(), []
        for _ in range(AFTER):
            bucket.give(rng.integers(0, keys, ROWS))
            after.append(bucket.worked(query)["seconds"])
        requests = then - before, (asked() - then) / AFTER
    finally:
        query.stop()
    return Move(first["seconds"] or 0.0, statistics.median(after), first["opened"], bucket.read_s(), requests)


def filled(bucket: Bucket, keys: int) -> None:
    """Give the bucket all keys, and time for what it writes in the background."""
    for first in range(0, keys, AT_ONCE):
        bucket.give(np.arange(first, min(first + AT_ONCE, keys)))
    query = bucket.started("first")
    bucket.worked(query)
    time.sleep(5)
    for _ in range(2):
        bucket.give(np.arange(ROWS))
        bucket.worked(query)
    query.stop()


def line(keys: int, backend: str, place: str, moves: Sequence[Move]) -> str:
    """A row of the table."""

    def cell(values: Sequence[float | None]) -> str:
        known = [value for value in values if value is not None]
        return f"{statistics.median(known):.2f}" if known else "-"

    asked = "-"
    if place == "S3":
        first, after = zip(*(one.asked for one in moves), strict=True)
        asked = f"{statistics.median(first):g}, then {statistics.median(after):g}"
    cells = [cell([getattr(one, what) for one in moves]) for what in ("first", "after", "opened", "read")]
    return "| " + " | ".join([f"{keys:,}", backend, place, *cells, asked]) + " |"


def main(keys: Sequence[int], moves: int, backends: Sequence[str], home: Path, s3: S3 | None) -> None:
    """Print the table."""
    conf = {"spark.ui.enabled": "false", "spark.driver.memory": "3g"}
    conf["spark.sql.streaming.stateStore.maintenanceInterval"] = "2s"
    spark = spark_session("moves", master="local[2]", buckets=1, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    print(f"| {' | '.join(_HEAD)} |\n{'|---' * len(_HEAD)}|", flush=True)
    for count in keys:
        for backend in backends:
            for place in ("local", *(("S3",) if s3 is not None and backend != SPARKS else ())):
                where = home / f"{count}-{backends.index(backend)}-{place}"
                away = None if place == "local" else s3
                folder = str(where / "snapshots") if away is None else away.uri(f"bucket/{where.name}")
                bucket = Bucket(spark, backend, where, folder)
                filled(bucket, count)
                asked = (lambda: 0) if away is None else (lambda server=away: sum(server.asked().values()))
                found = [moved(bucket, count, number, asked) for number in range(moves)]
                print(line(count, backend, place, found), flush=True)
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, nargs="+", default=[100_000])
    parser.add_argument("--moves", type=int, default=3)
    parser.add_argument("--backends", nargs="+", default=["memory", "rocksdb", SPARKS])
    parser.add_argument(
        "--s3", action="store_true", help="also with snapshots on an S3 server of this machine"
    )
    given = parser.parse_args(sys.argv[1:])
    os.environ |= CREDENTIALS
    with TemporaryDirectory() as folder:
        if given.s3:
            with running() as server:
                server.bucket("bucket")
                main(given.keys, given.moves, given.backends, Path(folder), server)
        else:
            main(given.keys, given.moves, given.backends, Path(folder), None)
