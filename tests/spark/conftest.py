"""One real Spark session for all tests on Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from operators import spark_session
from tests.spark.frames import session_conf


def pytest_addoption(parser: pytest.Parser) -> None:
    """How often, and when, the kill tests kill."""
    parser.addoption("--kills", type=int, default=2, help="kills per backend in tests/spark/test_kills.py")
    parser.addoption("--kill-seed", type=int, default=None, help="seed of the times at which they kill")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two cores and three buckets, set up by the library's own helper."""
    local: Path = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "tests",
        master="local[2]",
        buckets=3,
        conf={**session_conf(local), "spark.sql.session.timeZone": "UTC"},
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
