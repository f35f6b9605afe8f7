"""The Spark session of the benchmarks, and the files that they read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from benchmarks.data import FILES, ROWS, records
from benchmarks.measure import Measure
from operators import spark_session


@pytest.fixture
def measure(benchmark: Any) -> Measure:
    """What takes the figure of a test."""
    return Measure(benchmark)


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
