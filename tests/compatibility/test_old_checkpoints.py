"""Checkpoints and savepoints of Spark that an earlier version has written: queries go on from them as if nothing had been."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.compatibility.archives import CHECKPOINTS, OF_SPARK_4_0, unpack
from tests.compatibility.runs import BACKENDS, LOOKED_AT, QUERIES, added, expected, panes, run, session
from tests.effort import soak

pytestmark = [pytest.mark.spark, pytest.mark.slow]
of_spark_4_3 = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3),
    reason="Spark 4.3 wrote the checkpoints; Spark reads those of its own and of earlier versions only",
)
CHOSEN = [
    ("folds", "memory"),
    ("updates", "rocksdb"),
    ("custom", "spark"),
    ("chain", "rocksdb"),
]
"""Each query once. (Formats of all backends are read in test_old_directories.py too, without Spark.)"""
REST = [
    (query, backend) if (query, backend) in CHOSEN else soak(query, backend)
    for query in QUERIES
    for backend in BACKENDS
    if (query, backend) != ("windows", "rocksdb")
]
OLDEST = sorted(path.name for path in OF_SPARK_4_0.glob("*.gz") if "directories" not in path.name)
"""Archives of the oldest version of Spark, which all versions read."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of these tests, in the running application if there is one."""
    running = SparkSession.getActiveSession()
    own = session(tmp_path_factory.mktemp("spark"))
    yield own
    if running is None:
        own.stop()


def goes_on(spark: SparkSession, archive: Path, folder: Path) -> None:
    """Check that the stored panes are found, and that all rows are those of all records, none lost and none twice."""
    unpack(archive, folder)
    backend, query = archive.name.removesuffix(".tar.gz").split("-")
    if query in LOOKED_AT:
        assert json.loads((folder / "panes.json").read_text()) == panes(spark, query, folder)
    before = json.loads((folder / "rows.json").read_text())
    after = run(spark, query, folder, backend, goes_on=True)
    assert expected(QUERIES[query]) == added(before, after)


@of_spark_4_3
def test_windows_go_on(spark: SparkSession, tmp_path: Path) -> None:
    """Tumbling, hopping, sliding and session windows on RocksDB, with snapshots in a folder that was moved."""
    goes_on(spark, CHECKPOINTS / "rocksdb-windows.tar.gz", tmp_path)


@of_spark_4_3
@pytest.mark.parametrize(("query", "backend"), REST)
def test_all_queries_go_on(spark: SparkSession, query: str, backend: str, tmp_path: Path) -> None:
    """The other queries and backends."""
    goes_on(spark, CHECKPOINTS / f"{backend}-{query}.tar.gz", tmp_path)


@pytest.mark.parametrize(
    "archive", [archive if "spark" not in archive else soak(archive) for archive in OLDEST]
)
def test_queries_of_the_oldest_spark_go_on(spark: SparkSession, archive: str, tmp_path: Path) -> None:
    """A query that Spark 4.0 has begun goes on under whatever version this is."""
    goes_on(spark, OF_SPARK_4_0 / archive, tmp_path)


@pytest.mark.parametrize(
    ("name", "backend"), [("session", "memory"), ("sliding", "rocksdb"), ("hopping", "spark")]
)
def test_savepoints_are_started_from(spark: SparkSession, name: str, backend: str, tmp_path: Path) -> None:
    """A new query of another backend goes on from an operator's savepoint."""
    stored = unpack(CHECKPOINTS / f"{backend}-windows.tar.gz", tmp_path / "stored")
    before = json.loads((stored / "rows.json").read_text())[name]
    other = BACKENDS[BACKENDS.index(backend) - 1]
    savepoints = {name: stored / "savepoints" / name}
    after = run(spark, "windows", tmp_path / "new", other, goes_on=True, savepoints=savepoints)
    assert expected([name]) == added({name: before}, after)
