"""The records and the Spark session of the curves."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from benchmarks.data import records
from operators import spark_session


@pytest.fixture(scope="package")
def table() -> pa.Table:
    """The million records."""
    return records()


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two cores."""
    state: Path = tmp_path_factory.mktemp("state")
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.windows.state.directory": str(state),
    }
    session = spark_session("growth", master="local[2]", buckets=2, conf=conf)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
