"""How much does a batch of a stream of sliding or rolling windows cost, compared with passing the same rows through unchanged?

Each input row gives two output rows of sliding windows, so there is also a pass-through that doubles its rows. Rolling windows
put fifteen results beside each row, so there is one of rows as wide.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import SCHEMA
from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.pipelines.kinds import our_rolling, our_sliding
from benchmarks.pipelines.streams import Stream, timed


def untouched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def through(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(untouched, SCHEMA)


def doubled(frame: DataFrame) -> DataFrame:
    twice = frame.withColumn("copy", F.explode(F.array(F.lit(1), F.lit(2)))).drop("copy")
    return twice.mapInArrow(untouched, SCHEMA)


def widened(frame: DataFrame) -> DataFrame:
    results = 5 * len(LOOKBACKS)
    wide = frame.select("*", *((F.col("v") + number).alias(f"r{number}") for number in range(results)))
    return wide.mapInArrow(untouched, wide.schema)


LOOKBACKS = 10, 100, 1_000
FLOORS = {
    "pass-through": through,
    "pass-through, rows doubled": doubled,
    "pass-through, rows as wide": widened,
}
POINTS = [
    ("memory", 10), ("memory", 1_000), ("rocksdb", 10), full("rocksdb", 1_000), full("spark", 10), full("spark", 1_000),
]  # fmt: skip


@pytest.mark.parametrize("floor", FLOORS)
def test_floor(measure: Measure, spark: SparkSession, source: Path, tmp_path: Path, floor: str) -> None:
    stream = Stream(spark, source, tmp_path)
    timed(measure, stream, FLOORS[floor], section="streaming: pass-through", system=floor)


@pytest.mark.parametrize(("backend", "per_window"), POINTS)
def test_sliding(
    measure: Measure, spark: SparkSession, source: Path, tmp_path: Path, backend: str, per_window: int
) -> None:
    timed(
        measure,
        Stream(spark, source, tmp_path),
        lambda frame: our_sliding(frame, per_window, backend),
        section="streaming: sliding windows",
        system=backend,
        per_window=per_window,
    )


@pytest.mark.parametrize("backend", ["memory", full("rocksdb")])
def test_rolling(measure: Measure, spark: SparkSession, source: Path, tmp_path: Path, backend: str) -> None:
    """Three lookbacks, five results for each."""
    timed(
        measure,
        Stream(spark, source, tmp_path),
        lambda frame: our_rolling(frame, *LOOKBACKS, backend=backend),
        section="streaming: rolling windows",
        system=backend,
        lookbacks=len(LOOKBACKS),
    )
