"""The page on tables of Delta and Iceberg runs."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.docs.blocks import blocks
from tests.docs.test_code import run
from tests.lake.conftest import jars

PAGE = Path(__file__).parents[2] / "docs" / "lake-tables.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom, as written."""
    monkeypatch.chdir(tmp_path)
    arguments = ["--jars", ",".join(map(str, jars()))]
    for setting in (
        "spark.sql.session.timeZone=UTC",
        "spark.databricks.delta.snapshotPartitions=1",
        f"spark.sql.warehouse.dir={tmp_path}/warehouse",
        "spark.sql.codegen.wholeStage=false",
        "spark.ui.enabled=false",
    ):
        arguments += ["--conf", setting]
    monkeypatch.setitem(os.environ, "PYSPARK_SUBMIT_ARGS", f"{' '.join(arguments)} pyspark-shell")
    names = {"__name__": "__main__"}
    try:
        for block in blocks(PAGE):
            assert block.reason is None
            run(block, names)
    finally:
        for session in filter(None, [SparkSession.getActiveSession()]):
            session.stop()
