"""How much does a batch of a streaming query cost, beside passing the same rows through mapInArrow untouched?

One file of half a million rows a batch, no sink. Two rows come out for each that goes in, so a pass-through that doubles its
rows stands beside the plain one.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import ROWS, SCHEMA, operator, run_stream


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
    "spark, 10 per window": windows("spark", 10),
    "memory, 1000 per window": windows("memory", 1_000),
    "rocksdb, 1000 per window": windows("rocksdb", 1_000),
    "spark, 1000 per window": windows("spark", 1_000),
}


@pytest.mark.parametrize("way", WAYS)
def test_streaming_batch(benchmark, spark: SparkSession, source: Path, tmp_path: Path, way: str) -> None:
    benchmark.group = "one query over ten batches of 500,000 rows"
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    seconds = run_stream(benchmark, WAYS[way](frame), tmp_path)
    print(f"\n{way}: {seconds:.3f} s a batch, {ROWS / seconds:,.0f} rows/s")
