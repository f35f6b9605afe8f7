"""Checkpoints and savepoints of Spark that an earlier version has written: queries go on from them as if nothing had been."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.compatibility.archives import CHECKPOINTS, unpack
from tests.compatibility.runs import BACKENDS, LOOKED_AT, QUERIES, added, expected, panes, run, session

WRITTEN_BY = (4, 3)
"""The version of Spark that the checkpoints are of."""
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(
        tuple(map(int, pyspark.__version__.split(".")[:2])) < WRITTEN_BY,
        reason="Spark 4.3 wrote the checkpoints; Spark reads those of its own and of earlier versions only",
    ),
]
REST = [
    (query, backend)
    for query in QUERIES
    for backend in BACKENDS
    if (query, backend) != ("windows", "rocksdb")
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of these tests, in the running application if there is one."""
    running = SparkSession.getActiveSession()
    own = session(tmp_path_factory.mktemp("spark"))
    yield own
    if running is None:
        own.stop()


def goes_on(spark: SparkSession, query: str, backend: str, folder: Path) -> None:
    """Check that the stored panes are found, and that all rows are those of all records, none lost and none twice."""
    unpack(CHECKPOINTS / f"{backend}-{query}.tar.gz", folder)
    if query in LOOKED_AT:
        assert json.loads((folder / "panes.json").read_text()) == panes(spark, query, folder)
    before = json.loads((folder / "rows.json").read_text())
    after = run(spark, query, folder, backend, goes_on=True)
    assert expected(QUERIES[query]) == added(before, after)


def test_windows_go_on(spark: SparkSession, tmp_path: Path) -> None:
    """Tumbling, hopping, sliding and session windows on RocksDB, with snapshots in a folder that was moved."""
    goes_on(spark, "windows", "rocksdb", tmp_path)


@pytest.mark.parametrize(("query", "backend"), REST)
def test_all_queries_go_on(spark: SparkSession, query: str, backend: str, tmp_path: Path) -> None:
    """The other queries and backends."""
    goes_on(spark, query, backend, tmp_path)


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
