"""The declarative pipeline of the documentation, run by Spark's own command."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from operators import SlidingWindows
from operators import aggregates as agg
from operators.spark.base.java import ensure_java
from state_backends import read_state

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
PAGE = (ROOT / "docs" / "pipelines.md").read_text("utf-8")
MORNING = datetime(2026, 1, 5, 9)
FLIGHTS = [
    {"origin": origin, "departed": (MORNING + timedelta(minutes=minute)).isoformat() + "Z", "delay": delay}
    for minute, origin, delay in [
        (0, "EWR", 5),
        (10, "EWR", 7),
        (20, "JFK", 1),
        (150, "EWR", 40),
        (400, "JFK", 2),
    ]
]
MISTAKES = """

def refused(apply):
    try:
        apply()
    except Exception as error:
        print("REFUSED", type(error).__name__, error)


@dp.temporary_view
def mistakes():
    frame, both = read(), delays.windows
    refused(lambda: delays.apply(frame, event_time="departed"))
    refused(lambda: both.group_by("origin").cogroup(a={"n": agg.count()}, b={"m": agg.count()}).apply(
        {"a": frame, "b": frame}, event_time="departed"))
    again = delays.apply(frame, event_time="departed", schema=SCHEMA, streaming=True)
    refused(lambda: delays.apply(again, event_time="departed", schema=SCHEMA, streaming=True))
    return frame
"""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("pyspark.pipelines") is None, reason="PySpark 4.1 is the first with pipelines"
    ),
]


def shown(title: str) -> str:
    """The file of this name that the page shows."""
    found = re.search(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the project, with its data and with a view of mistakes."""
    folder = tmp_path_factory.mktemp("project")
    spec = shown("spark-pipeline.yml").replace("file:///data/departures", folder.as_uri())
    (folder / "spark-pipeline.yml").write_text(spec)
    for part in ("transformations", "departures"):
        (folder / part).mkdir()
    (folder / "transformations" / "delays.py").write_text(shown("transformations/delays.py") + MISTAKES)
    (folder / "departures" / "first.json").write_text("\n".join(map(json.dumps, FLIGHTS)))
    return folder


def run_pipeline(project: Path, **more: str) -> str:
    """Run the pipeline of a folder, and return what it prints. `SPARK_TESTING` has Spark choose a free port for its server."""
    env = {
        "JAVA_HOME": ensure_java(),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_TESTING": "1",
        "TZ": "UTC",
        **more,
    }
    done = subprocess.run(
        [HOME / "bin" / "spark-pipelines", "run"],
        cwd=project,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def printed(project: Path) -> str:
    """What a run of the pipeline prints."""
    return run_pipeline(project)


def table(project: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table of the pipeline, in order."""
    files = (project / "spark-warehouse" / name).glob("*.parquet")
    return in_order([row for file in files for row in pq.ParquetFile(file).read().to_pylist()])


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of windows by their ends and keys, with naive times of UTC."""
    for row in rows:
        row["window"] = {edge: time.replace(tzinfo=None) for edge, time in row["window"].items()}
    return sorted(rows, key=lambda row: (row["window"]["end"], row["origin"]))


def expected() -> list[dict[str, Any]]:
    """All windows, computed without Spark: a record of another key, long after the others, closes them."""
    delays = SlidingWindows("60 minutes", grace="10 minutes").group_by("origin")
    op = delays.aggregate(flights=agg.count(), delay=agg.sum("delay"))
    flights = [{**one, "departed": datetime.fromisoformat(one["departed"].rstrip("Z"))} for one in FLIGHTS]
    flights.append({"origin": "LGA", "departed": MORNING + timedelta(days=2), "delay": 0})
    with op.local_runner(event_time="departed") as runner:
        return in_order(runner.process(pa.Table.from_pylist(flights)).to_pylist())


def test_a_materialized_view_has_all_windows(project: Path, printed: str) -> None:
    """It reads a table of the same pipeline."""
    assert "Run is COMPLETED" in printed
    assert expected() == table(project, "delays_so_far") != []


@pytest.mark.usefixtures("printed")
def test_a_streaming_table_has_the_windows_that_are_closed(project: Path) -> None:
    """Those that end before the last record, less the grace."""
    closed = MORNING + timedelta(minutes=400 - 10)
    rows = [row for row in expected() if row["window"]["end"] < closed]
    assert rows == table(project, "delays_by_hour")
    assert 0 < len(rows) < len(expected())


@pytest.mark.usefixtures("printed")
def test_the_state_is_where_the_page_says(project: Path, spark: SparkSession) -> None:
    """In the storage, by catalog, database, table and flow: the windows that are still open are there."""
    path = re.search(r"`(storage/_checkpoints/\S+)`", PAGE)
    assert path
    assert 0 < read_state(project / path[1], spark=spark).count()


def test_mistakes_are_refused_with_the_way_out(printed: str) -> None:
    """A frame without its columns, several frames, and an operator right over another one."""
    refused = re.findall(r"^REFUSED DefinitionError (.*)$", printed, re.MULTILINE)
    assert 3 == len(refused), printed
    assert all("schema=SCHEMA, streaming=True" in message for message in refused[:2])
    assert "the frame has a watermark, from withWatermark or from another operator" in refused[2]
