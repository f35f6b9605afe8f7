"""How much does a batch of a streaming query cost, beside passing the same rows through mapInArrow untouched?

One file of half a million rows a batch, no sink. Two rows come out for each that goes in, so a pass-through that doubles its
rows stands beside the plain one.
"""

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import operator, records
from operators import spark_session

FILES, ROWS = 10, 500_000
SCHEMA = "k bigint, at timestamp, v double"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.windows.state.directory": str(tmp_path_factory.mktemp("state")),
    }
    session = spark_session("benchmarks", master="local[2]", buckets=2, conf=conf)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    table = records(FILES * ROWS)
    at = table.column("at").cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    table = table.set_column(1, "at", at)
    for number in range(FILES):
        pq.write_table(table.slice(number * ROWS, ROWS), folder / f"{number:03d}.parquet")
    return folder


def untouched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def through(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(untouched, SCHEMA)


def doubled(frame: DataFrame) -> DataFrame:
    twice = frame.withColumn("copy", F.explode(F.array(F.lit(1), F.lit(2)))).drop("copy")
    return twice.mapInArrow(untouched, SCHEMA)


def windows(backend: str, per_window: int) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: operator(per_window).apply(frame, event_time="at", backend=backend)


WAYS = {
    "pass-through": through,
    "pass-through, rows doubled": doubled,
    "memory, 10 per window": windows("memory", 10),
    "rocksdb, 10 per window": windows("rocksdb", 10),
    "memory, 1000 per window": windows("memory", 1_000),
    "rocksdb, 1000 per window": windows("rocksdb", 1_000),
}


@pytest.mark.parametrize("way", WAYS)
def test_streaming_batch(benchmark, spark: SparkSession, source: Path, tmp_path: Path, way: str) -> None:
    benchmark.group = "one query over ten batches of 500,000 rows"
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    seconds: list[float] = []

    def query() -> None:
        writer = (
            WAYS[way](frame).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp"))
        )
        running = writer.start()
        running.processAllAvailable()
        running.stop()
        progress = [p for p in running.recentProgress if p["numInputRows"]]
        seconds.extend(p["durationMs"]["triggerExecution"] / 1_000 for p in progress[2:])

    benchmark.pedantic(query, rounds=1)
    benchmark.extra_info["median seconds per batch"] = round(statistics.median(seconds), 3)
    print(
        f"\n{way}: {statistics.median(seconds):.3f} s a batch, {ROWS / statistics.median(seconds):,.0f} rows/s"
    )
