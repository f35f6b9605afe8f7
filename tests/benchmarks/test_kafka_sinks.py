"""The comparison of the two sinks of Kafka runs, on few rows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.connectors
@pytest.mark.slow
def test_both_sinks_write_their_batches() -> None:
    """A line for each of them, with its time."""
    command = [sys.executable, "-m", "benchmarks.kafka.sinks", "--rows", "200"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr[-4_000:]
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout.strip())
    assert ["KafkaSink", "Spark's"] == re.findall(r"^ +200 rows, (\S+) *: \d", done.stdout, re.MULTILINE)
