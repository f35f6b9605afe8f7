"""The flights, loaded once, and a Spark session for the demo's stream."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from examples.flights_data import load_flights
from operators import spark_session
from tests.operators.spark.frames import session_conf


@pytest.fixture(scope="session")
def flights() -> pa.Table:
    """All flights as the demo loads them."""
    return load_flights()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that there is, or one of our own."""
    existing = SparkSession.getActiveSession()
    if existing is not None:
        yield existing
        return
    local: Path = tmp_path_factory.mktemp("spark")
    session = spark_session("flights", master="local[2]", buckets=2, conf=session_conf(local))
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
