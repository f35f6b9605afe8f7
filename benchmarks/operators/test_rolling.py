"""How fast are aggregates beside each record, over one lookback or three, on which backend, and when rows have to wait?

Five results for each record and lookback, in batches of 100,000, on one core.
"""

import pyarrow as pa
import pytest

from benchmarks.data import GAP_MS, KEYS, RECORDS, rolling
from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.operators.feeding import fed

LOOKBACKS = {1: (1_000,), 3: (10, 100, 1_000)}


@pytest.mark.parametrize("lookbacks", LOOKBACKS)
@pytest.mark.parametrize("backend", ["memory", "rocksdb", full("spark")])
def test_on_close(measure: Measure, table: pa.Table, backend: str, lookbacks: int) -> None:
    rows = measure(
        lambda: fed(rolling(*LOOKBACKS[lookbacks]), table, backend),
        section="rolling windows, local",
        system=backend,
        rows=RECORDS,
        lookbacks=lookbacks,
        keys=KEYS,
    )
    assert rows > 0.99 * RECORDS


@pytest.mark.parametrize("way", ["grace of 100 records", "on arrival"])
def test_when_rows_come(measure: Measure, table: pa.Table, way: str) -> None:
    """A row that waits for a batch or more is packed, stored and read again."""
    given = {"emit": "on_arrival"} if way == "on arrival" else {"grace_ms": 100 * GAP_MS}
    rows = measure(
        lambda: fed(rolling(*LOOKBACKS[3], **given), table, "memory"),
        section="rolling windows, local",
        system=f"memory, {way}",
        rows=RECORDS,
        lookbacks=3,
        keys=KEYS,
    )
    assert rows > 0.8 * RECORDS
