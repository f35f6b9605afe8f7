"""How does the cost of a batch grow with the number of keys, when each batch touches all of them?

Sliding windows of ten records on average, batches of 100,000 in which all keys are equally frequent. What fills the first
windows is not clocked.
"""

import pyarrow as pa
import pytest

from benchmarks.data import BATCH, in_turn, operator
from benchmarks.marks import full
from benchmarks.measure import Measure

PER_WINDOW, CLOCKED = 10, 4
FILLING = PER_WINDOW + 1
"""Batches in which each key has a record more than a window holds, if it has one in each."""


@pytest.mark.parametrize("keys", [100, 10_000, 100_000])
@pytest.mark.parametrize("backend", ["memory", "rocksdb", full("spark")])
def test_all_touched(measure: Measure, backend: str, keys: int) -> None:
    batches = in_turn(FILLING + 1 + CLOCKED, keys)
    coming = iter(batches[FILLING:])
    with operator(PER_WINDOW).local_runner(event_time="at", backend=backend) as runner:
        runner.process(pa.concat_tables(batches[:FILLING]))
        windows = measure(
            lambda: runner.process(next(coming)).num_rows,
            section="number of keys",
            system=backend,
            rows=BATCH,
            rounds=CLOCKED,
            keys=keys,
        )
    assert windows > 1.6 * BATCH
