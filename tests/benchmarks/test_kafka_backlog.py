"""The comparison of ways to read a backlog runs, on few records."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.connectors
@pytest.mark.slow
def test_only_small_batches_make_records_late() -> None:
    """A line for each way."""
    command = [sys.executable, "-m", "benchmarks.kafka.backlog", "--records", "4000", "--batches", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr[-4_000:]
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout.strip())
    late = dict(re.findall(r"records, (.+?) *: ([\d,]+) late", done.stdout))
    assert ["5 batches", "one batch", "history"] == [*late]
    assert "0" != late["5 batches"]
    assert "0" == late["one batch"] == late["history"]
