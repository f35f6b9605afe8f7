"""The command with operators whose module makes Columns of Spark when it is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
JOB = """
from pyspark.sql import functions as F
from operators import TumblingWindows, aggregates as agg

op = TumblingWindows("1 hour").group_by(F.lower("origin").alias("airport")).aggregate(n=agg.count(where=F.col("delay") > 0))
"""

PLAIN = """
from operators import TumblingWindows, aggregates as agg

op = TumblingWindows("1 hour").group_by("origin").aggregate(n=agg.count())
"""


def test_explain_starts_the_session_that_they_need(tmp_path: Path) -> None:
    """Also with a Parquet file, which needs none otherwise; an error of the module is still its own."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "broken.py").write_text(f"{JOB}\nassert op is None, 'of the module'")
    columns = {"origin": pa.string(), "at": pa.timestamp("us", "UTC"), "delay": pa.int32()}
    pq.write_table(pa.schema(columns.items()).empty_table(), tmp_path / "like.parquet")

    (tmp_path / "plain.py").write_text(PLAIN)

    def explain(module: str, *columns: str) -> subprocess.CompletedProcess[str]:
        call = [
            sys.executable,
            "-m",
            "operators",
            "explain",
            f"{module}:op",
            *(columns or ("--like", "like.parquet")),
        ]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [*call, "--event-time", "at"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    done = explain("job")
    assert (0, "") == (done.returncode, done.stderr)
    plain = explain("plain", "--schema", "origin string, at timestamp, delay int")
    assert (0, "") == (plain.returncode, plain.stderr)
    assert "by origin: string" in plain.stdout
    assert "by airport: string" in done.stdout
    assert "the highest event time, without grace" in done.stdout
    assert "each task aggregates its rows partially" in done.stdout
    assert "Spark's number of shuffle partitions" in done.stdout
    failed = explain("broken")
    assert "AssertionError: of the module" in failed.stderr
