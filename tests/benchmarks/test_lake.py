"""The comparison of what writes tables of windows runs, on few rows."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    options = "--rows 2000 --changed 100 --tries 1 --batches 6 --out"
    command = [sys.executable, "-m", "benchmarks.lake", *options.split(), str(tmp_path / "out.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr[-4_000:]
    found = json.loads((tmp_path / "out.json").read_text())
    assert [*WRITERS] == [row["writer"] for row in found["batches"]]
    assert len(WRITERS) == len(re.findall(r'"seconds": \d', done.stdout))
    for row in found["left"]:
        assert row["files after maintenance"]["data"] <= row["files"]["data"]
