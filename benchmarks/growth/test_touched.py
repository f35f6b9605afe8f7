"""What does a row cost if a batch touches all of 100,000 keys, a few records each?

Batches of 250,000 rows on memory, by processor time: tumbling windows of 10 batches, so that nine of ten batches only
change pages, and sliding windows of 10 records, two of which close with each row.
"""

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.data import five_aggregates
from benchmarks.measure import Measure
from operators import SlidingWindows, TumblingWindows

SECTION = "100,000 keys in each batch"
KEYS, ROWS, BATCHES = 100_000, 250_000, 10
SPAN_MS = 250_000
"""Time of a batch: a key has a record in 100 seconds."""
KINDS = {
    "tumbling": TumblingWindows(BATCHES * SPAN_MS),
    "sliding": SlidingWindows(10 * SPAN_MS * KEYS // ROWS),
}


def batches(count: int) -> list[pa.Table]:
    """Return batches in order of event time with every key in each."""
    rng = np.random.default_rng(0)
    return [_batch(rng, number) for number in range(count)]


def _batch(rng: np.random.Generator, number: int) -> pa.Table:
    at = np.sort(rng.integers(number * SPAN_MS, (number + 1) * SPAN_MS, ROWS))
    key = rng.permutation(np.arange(ROWS) % KEYS)
    return pa.table({"k": key, "at": pa.array(at, pa.timestamp("ms")), "v": rng.random(ROWS)})


@pytest.mark.parametrize("kind", KINDS)
def test_touched(measure: Measure, kind: str) -> None:
    """As many batches as a tumbling window has, so that each window closes once."""
    operator = KINDS[kind].group_by("k").aggregate(**five_aggregates())
    tables = batches(BATCHES + 2)
    with operator.local_runner(event_time="at", backend="memory") as runner:
        runner.process(pa.concat_tables(tables[:2]))

        def work() -> int:
            return sum(runner.process(table).num_rows for table in tables[2:])

        windows = measure.processor(
            work, section=SECTION, system="memory", rows=BATCHES * ROWS, rounds=1, warmup=0, kind=kind
        )
    assert windows >= KEYS
