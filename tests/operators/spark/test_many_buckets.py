"""More buckets than cores, and more cores than one: no bucket's values come to lie in those of another."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import soak


@pytest.mark.slow
@pytest.mark.parametrize("backend", [soak("memory"), "rocksdb", soak("spark")])
def test_eight_buckets_on_four_cores(tmp_path: Path, backend: str) -> None:
    """All that the stream has closed after fifteen batches is what the bounded frame says, and each process has two buckets."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.operators.spark.many_buckets", str(tmp_path), backend],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert 0 == done.returncode, done.stderr[-3_000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert 80 == len(told["bounded"])
    assert told["bounded"] == told["streamed"]
    assert [2] * 4 == told["buckets"]
