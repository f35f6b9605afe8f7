"""The comparison of what writes tables of windows runs, on few rows."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.lake.__main__ import sizes
from benchmarks.lake.tables import with_tables
from benchmarks.lake.writers import WRITERS
from examples.kafka.jars import MissingError
from tests.lake.environment import jars
from tests.operators.sinks.postgres_server import programs

ROOT = Path(__file__).parents[2]


@pytest.mark.connectors
@pytest.mark.slow
@pytest.mark.soak
def test_each_writer_writes_its_batches(tmp_path: Path) -> None:
    """A figure for each of them, and what is left of small batches in both formats."""
    try:
        jars()
    except MissingError as error:
        pytest.skip(str(error))
    if programs() is None:
        pytest.skip("no PostgreSQL server is installed")
    options = "--rows 2000 --changed 100 --tries 1 --warm 1 --batches 6 --out"
    command = [sys.executable, "-m", "benchmarks.lake", *options.split(), str(tmp_path / "out.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr[-4_000:]
    found = json.loads((tmp_path / "out.json").read_text())
    assert [*WRITERS] == [row["writer"] for row in found["batches"]]
    assert len(WRITERS) == len(re.findall(r'"seconds": \d', done.stdout))
    for row in found["left"]:
        assert row["files after maintenance"]["data"] <= row["files"]["data"]


def test_the_tables_of_the_page() -> None:
    """A line for each table, with the rows/s of the largest batch, and what is left in both formats."""
    batches = [
        {"writer": "one", "rows": 10_000, "changed": 1_000, "seconds": 0.52},
        {"writer": "one", "rows": 10_000_000, "changed": 1_000, "seconds": 2},
        {"writer": "one", "rows": 10_000_000, "changed": 2_000_000, "seconds": 50.0},
    ]
    merges = {"first merges": 1, "last merges": 2.25, "merges after maintenance": 1.1}
    counts = {
        "files": {"data": 1_200, "metadata": 60},
        "files after maintenance": {"data": 30, "metadata": 7},
    }
    left = {"format": "delta", "batches": 1_440, **counts, "seconds of maintenance": 9.0, **merges}
    figures = {"batches": batches, "left": [left, {**left, "format": "iceberg"}]}
    page = "a\n<!-- figures: lake -->\nold\n<!-- end of figures -->\nb"
    lines = with_tables(page, figures).splitlines()
    assert "old" not in lines
    assert "| one, table of 10,000 rows | 0.5 s |  |" in lines
    assert "| one, table of 10,000,000 rows | 2.0 s | 50.0 s, 40,000/s |" in lines
    assert "|  | Delta | Iceberg |" in lines
    assert "| files of data and of metadata | 1,200, 60 | 1,200, 60 |" in lines
    assert lines[-4].endswith("| 1.0 s, 2.2 s, 1.1 s | 1.0 s, 2.2 s, 1.1 s |")
    assert [*"ab"] == [lines[0], lines[-1]]


def test_batches_that_tell_nothing_are_left_out() -> None:
    """Those that would only fill a small table, and large ones that read all days anyway."""
    asked = [1_000, 100_000, 2_000_000]
    assert asked[:2] == sizes("merge_to, Delta", 10_000, asked)
    assert asked == sizes("merge_to, Delta", 10_000_000, asked)
    assert asked[:2] == sizes("merge_to, Delta, without days", 10_000_000, asked)
