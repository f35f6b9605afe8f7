"""The Spark session of the pipelines, and the files that they read."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.data import records, write_next
from benchmarks.pipelines.streams import FEW, FILES, ROWS
from operators import spark_session


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
    table = records(FILES * (ROWS + FEW))
    at = 0
    for number in range(2 * FILES):
        size, name = (ROWS, f"large-{number:03d}") if number < FILES else (FEW, f"small-{number - FILES:03d}")
        write_next(table.slice(at, size), folder / f"{name}.parquet", number)
        at += size
    return folder
