"""A session with a catalog of each format, and the tables of a test."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from operators import session_conf
from tests.lake.environment import jars, pyiceberg

if "LAKE_TESTS" not in os.environ:  # another Spark: tests/operators/sinks/test_lake.py runs these
    collect_ignore_glob = ["test_*.py"]

FORMATS = ("delta", "iceberg")


def conf_of(folder: Path) -> dict[str, str]:
    """Settings of a session that keeps all in the folder."""
    lake = "spark.sql.catalog.lake"
    return {
        **session_conf(2),
        "spark.jars": ",".join(map(str, jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        lake: "org.apache.iceberg.spark.SparkCatalog",
        f"{lake}.type": "jdbc",
        f"{lake}.uri": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=30000",
        f"{lake}.jdbc.schema-version": "V1",
        f"{lake}.warehouse": str(folder / "lake"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM lists files in 10,000 tasks
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.maxResultSize": "8m",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 has the years 1677 to 2262 in other engines
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def session(folder: Path, **more: str) -> SparkSession:
    """A session of its own JVM."""
    builder = SparkSession.builder.master("local[2]").appName("lake")
    for key, value in {**conf_of(folder), **more}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="session")
def spark(folder: Path) -> Iterator[SparkSession]:
    spark = session(folder)
    spark.sql("CREATE NAMESPACE lake.db")
    yield spark
    spark.stop()


@dataclass(frozen=True)
class Place:
    """A table of one test.

    Attributes:
        format: its format.
        name: its name in SQL.
        path: where it lies.
    """

    format: str
    name: str
    path: Path

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """The rows as another engine reads them, in order of their texts."""
        found = self.table()
        return sorted(
            zip(*(found[name].to_pylist() for name in columns or found.column_names), strict=True), key=repr
        )

    def newest(self) -> str:
        """What the newest commit is called."""
        pattern = "_delta_log/*.json" if self.format == "delta" else "metadata/*.metadata.json"
        return max(path.name for path in self.path.glob(pattern))

    def table(self) -> pa.Table:
        """The table as another engine reads it: Delta by delta-rs, Iceberg by PyIceberg."""
        return read_delta(self.path) if self.format == "delta" else read_iceberg(self.path)


def place_of(folder: Path, format_: str, name: str) -> Place:
    if format_ == "iceberg":
        return Place(format_, f"lake.db.{name}", folder / "lake/db" / name)
    path = folder / "delta" / name
    return Place(format_, f"delta.`{path}`", path)


def read_delta(path: Path) -> pa.Table:
    """A table of Delta."""
    return pa.table(DeltaTable(path).to_pyarrow_dataset().to_table())


def read_iceberg(path: Path) -> pa.Table:
    """A table of Iceberg, by its newest metadata."""
    sys.path.append(str(pyiceberg()))
    from pyiceberg.table import StaticTable

    newest = max((path / "metadata").glob("*.metadata.json"))
    return StaticTable.from_metadata(str(newest)).scan().to_arrow()


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, folder: Path) -> Place:
    """The table of a test, which does not exist yet."""
    name = request.node.name.translate({ord(one): "_" for one in "[]-.,"}).strip("_")
    return place_of(folder, request.param, name)
