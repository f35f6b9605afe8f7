"""Does a stream get slower, or its checkpoint larger, as it grows older?

Batches of 2,000 rows, a state of some 10,000 panes throughout; Spark keeps what its last 20 batches need and cleans up every
five seconds. Counted are the checkpoint and the folder of snapshots.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.state.growth import EVERY, ROWS

ROOT = Path(__file__).parents[2]
BATCHES = 150
SECTION = "a stream that grows older"
Looks = dict[int, dict[str, Any]]


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Looks]:
    """What runs a query on a backend, once, and returns what was found at each look."""

    @cache
    def run(backend: str) -> Looks:
        folder = tmp_path_factory.mktemp(f"growth-{backend}")
        command = [sys.executable, "-m", "benchmarks.state.growth", backend, str(BATCHES), str(folder)]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"batches"')]
        return {one["batches"]: one for one in found}

    return run


@pytest.mark.parametrize("batches", [full(number) for number in range(EVERY, BATCHES + 1, EVERY)])
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_growth(measure: Measure, looks: Callable[[str], Looks], backend: str, batches: int) -> None:
    found = measure.benchmark.pedantic(looks, (backend,))
    one = found[batches]
    measure.taken([one["seconds"]], section=SECTION, system=backend, rows=ROWS, batches=batches)
    measure.note(kept_mb=one["kept_mb"])
    assert found[BATCHES]["kept_mb"] < 1.5 * found[BATCHES // 2]["kept_mb"]
