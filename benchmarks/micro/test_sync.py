"""What does it cost a local runner that each batch is on the disk when `process` returns?"""

from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.measure import Measure
from operators import TumblingWindows
from operators import aggregates as agg

OPERATOR = TumblingWindows(1_000).group_by("k").aggregate(n=agg.count(), s=agg.sum("v"))
ROUNDS = {100: 99, 100_000: 15}
SECTION = "a sync for each batch"


def batch(number: int, rows: int) -> pa.Table:
    """Half a window's records of random keys, as many as there are records."""
    rng = np.random.default_rng(number)
    at = rng.integers(number * 500, number * 500 + 500, rows)
    return pa.table({"k": rng.integers(0, rows, rows), "at": at, "v": rng.integers(0, 9, rows)})


@pytest.mark.parametrize("rows", ROUNDS)
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
@pytest.mark.parametrize("waits", [True, False], ids=["with", "without"])
def test_batches(measure: Measure, backend: str, rows: int, waits: bool, tmp_path: Path) -> None:
    batches = [batch(number, rows) for number in range(ROUNDS[rows] + 3)]
    numbers = count()
    with OPERATOR.local_runner("at", backend, tmp_path, {"state.sync": str(waits).lower()}) as runner:
        for _ in range(2):
            runner.process(batches[next(numbers)])
        measure(
            lambda: runner.process(batches[next(numbers)]),
            section=SECTION,
            system=f"{backend} {'with' if waits else 'without'} a sync",
            rows=rows,
            rounds=ROUNDS[rows],
            records=f"{rows:,}",
        )
        assert runner.counters.rows == rows * next(numbers)
