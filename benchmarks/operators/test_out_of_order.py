"""How does cost grow with the share of records that come late, and with how late they come?

Sliding windows of a hundred records on average; the grace is as long as the longest delay, so no record is dropped.
"""

import pyarrow as pa
import pytest

from benchmarks.data import GAP_MS, KEYS, RECORDS, delayed, operator, records
from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.operators.feeding import fed

POINTS = [
    (0.0, 100), (0.01, 100), (0.1, 100), (0.5, 100),
    (0.1, 10), (0.1, 1_000), full(0.1, 10_000), full(1.0, 100),
]  # fmt: skip
"""Share of records that come late, and the longest delay in records of the same key."""


@pytest.mark.parametrize(("share", "distance"), POINTS)
@pytest.mark.parametrize("backend", ["memory", full("rocksdb")])
def test_delay(measure: Measure, table: pa.Table, backend: str, share: float, distance: int) -> None:
    longest = distance * GAP_MS
    # What is held back until the end by the grace is a third of all at most.
    arriving = delayed(
        table if 3 * distance * KEYS <= RECORDS else records(3 * distance * KEYS), share, longest
    )
    rows = len(arriving)
    windows = measure(
        lambda: fed(operator(100, grace_ms=longest), arriving, backend),
        section="records out of order",
        system=backend,
        rows=rows,
        share=share,
        distance=distance,
    )
    assert windows > 1.6 * (rows - distance * KEYS) * 0.98
