"""Our operators and Spark's compute the same windows, so that benchmarks compare equal work."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import KINDS, records, spark_times
from benchmarks.pipelines.kinds import our_rolling, our_sliding, ours, own, own_rolling, own_sliding

RESULTS = ["n", "total", "low", "high", "mean"]


@pytest.fixture
def few(spark: SparkSession, tmp_path: Path) -> DataFrame:
    path = tmp_path / "few.parquet"
    pq.write_table(spark_times(few_records()), path)
    return spark.read.parquet(str(path))


def few_records() -> pa.Table:
    """Ten thousand records of ten keys, no two of a key at one time, as left windows are one a time."""
    table = records(10_000, 10).to_pandas().drop_duplicates(["k", "at"])
    return pa.Table.from_pandas(table, preserve_index=False)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_agree(few: DataFrame, kind: str) -> None:
    begin = F.unix_millis("window.start").alias("at")
    mine, theirs = (
        frame.select("k", begin, *RESULTS) for frame in (ours(few, kind, "memory"), own(few, kind))
    )
    check_equal(mine, theirs)


def test_left_windows_agree(few: DataFrame) -> None:
    left = our_sliding(few, 10).withColumn("at", F.col("window.end")).join(few.select("k", "at"), ["k", "at"])
    columns = "k", F.unix_millis("at").alias("at"), *RESULTS
    check_equal(left.select(*columns), own_sliding(few, 10).select(*columns))


def test_rolling_windows_agree(few: DataFrame) -> None:
    mine, theirs = our_rolling(few, 10, 100), own_rolling(few, 10, 100)
    check_equal(mine.select(theirs.columns), theirs)


def check_equal(mine: DataFrame, theirs: DataFrame) -> None:
    frames = [frame.toPandas().sort_values(["k", "at"], ignore_index=True) for frame in (mine, theirs)]
    assert len(frames[0])
    pd.testing.assert_frame_equal(*frames, check_dtype=False)
