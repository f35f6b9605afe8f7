"""One real Spark session for all tests on Spark."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from operators import spark_session
from operators.spark.base import logs
from operators.spark.replicas import parents, starting, where_held
from operators.spark.replicas.parents import Parent
from tests.operators.spark.frames import session_conf


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


@pytest.fixture(scope="module")
def new_york(spark: SparkSession) -> Iterator[None]:
    """The session in a zone whose clocks change, as most sessions of users are; all other tests run in UTC."""
    key = "spark.sql.session.timeZone"
    spark.conf.set(key, "America/New_York")
    yield
    spark.conf.set(key, "UTC")


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator["list[subprocess.Popen[bytes]]"]:
    """The processes for state that this process starts, which is the parent of all workers. They end afterwards."""
    monkeypatch.setattr(parents, "parent", lambda: Parent.of(os.getpid()))
    monkeypatch.setattr(where_held, "_resting", {})
    monkeypatch.setattr(logs, "_warned", set())
    monkeypatch.setattr(starting, "_started", [])
    yield starting._started
    for process in starting._started:
        process.kill()
        process.wait()
