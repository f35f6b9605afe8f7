"""The Spark session of the pipelines, and the files that they read."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from benchmarks.data import records
from benchmarks.pipelines.streams import FEW, FILES, ROWS
from operators import spark_session

_EARLIEST = 1_700_000_000
"""Time of change of the first file, in seconds."""


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="package")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files for streams, one a batch: large ones, then as many of a few rows."""
    folder = tmp_path_factory.mktemp("source")
    table = spark_times(records(FILES * (ROWS + FEW)))
    at = 0
    for number in range(2 * FILES):
        size, name = (ROWS, f"large-{number:03d}") if number < FILES else (FEW, f"small-{number - FILES:03d}")
        path = folder / f"{name}.parquet"
        pq.write_table(table.slice(at, size), path)
        os.utime(path, (_EARLIEST + number, _EARLIEST + number))  # streams read files in order of this
        at += size
    return folder


def spark_times(table: pa.Table) -> pa.Table:
    """Return the records with times as Spark reads them."""
    at = table.column("at").cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return table.set_column(1, "at", at)
