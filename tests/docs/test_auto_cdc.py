"""The pipeline of the documentation that keeps the last value of each window, on the catalog of Spark's own tests."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from examples.kafka.jars import Artifact, MissingError
from operators import SessionWindows
from operators import aggregates as agg
from tests.docs.test_pipeline import run_pipeline, shown

CATALOG = "org.apache.spark.sql.connector.catalog.SharedTablesInMemoryRowLevelOperationTableCatalog"
JAR = Artifact("org.apache.spark", "spark-catalyst_2.13", "4.2.0", classifier="tests")
"""Maven has none of Spark 4.3."""
FIRST = [("ann", "09:00"), ("ann", "09:50"), ("bob", "09:10"), ("eve", "09:00")]
LATER = [("ann", "09:25"), ("bob", "09:30")]  # the first one is between ann's two sessions
NAMES = ["user", "start", "end", "clicks"]
READER = """

@dp.materialized_view
def seen():
    return spark.read.table("lake.db.visits")
"""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.connectors,
    pytest.mark.soak,
    pytest.mark.skipif(
        tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3), reason="the jar goes with PySpark 4.3"
    ),
]


def records(clicks: list[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"user": user, "at": datetime.fromisoformat(f"2026-01-05T{at}")} for user, at in clicks]


def test_the_last_value_of_each_window(tmp_path: Path) -> None:
    """Sessions that were merged are gone, others have their last value."""
    try:
        jar = JAR.jars()[0]
    except MissingError as error:
        pytest.skip(str(error))
    settings = {"spark.sql.catalog.lake": CATALOG, "spark.driver.extraClassPath": str(jar)}
    for part in ("conf", "transformations", "clicks"):
        (tmp_path / part).mkdir()
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(lines))
    spec = shown("spark-pipeline.yml").replace("file:///data/departures", tmp_path.as_uri())
    (tmp_path / "spark-pipeline.yml").write_text(spec)
    one_file = shown("transformations/visits.py").replace(
        "schema(CLICKS)", 'schema(CLICKS).option("maxFilesPerTrigger", 1)'
    )
    (tmp_path / "transformations" / "visits.py").write_text(one_file + READER)
    for number, clicks in enumerate((FIRST, LATER)):
        rows = [{**row, "at": row["at"].isoformat() + "Z"} for row in records(clicks)]
        (tmp_path / "clicks" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
    assert "Run is COMPLETED" in run_pipeline(tmp_path, SPARK_CONF_DIR=str(tmp_path / "conf"))
    files = (tmp_path / "spark-warehouse" / "seen").glob("*.parquet")
    found = [row for file in files for row in pq.ParquetFile(file).read(NAMES).to_pylist()]
    assert expected() == sorted(tuple(row[name] for name in NAMES) for row in found)


def expected() -> list[tuple[Any, ...]]:
    """All sessions, computed without Spark."""
    visits = SessionWindows("30 minutes", grace="2 hours").group_by("user").aggregate(clicks=agg.count())
    clicks = [*records(FIRST + LATER), {"user": "zoe", "at": datetime(2026, 1, 9)}]
    with visits.local_runner(event_time="at") as runner:
        rows = runner.process(pa.Table.from_pylist(clicks)).to_pylist()
    return sorted((row["user"], row["window"]["start"], row["window"]["end"], row["clicks"]) for row in rows)
