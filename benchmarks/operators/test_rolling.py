"""How fast are aggregates beside each record, over one lookback or three, on which backend, and when rows have to wait?

Five results for each record and lookback, in batches of 100,000, on one core.
"""

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.data import BATCH, GAP_MS, KEYS, RECORDS, five_aggregates, rolling
from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.operators.feeding import fed
from operators import RollingWindows

LIVE_KEYS, MINUTE_MS = 1_000_000, 60_000
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


def test_lifetimes(measure: Measure) -> None:
    """A million keys with a lifetime each, on rocksdb: batches of records of random keys; bytes of a key beside them."""
    rng, rounds = np.random.default_rng(0), 4
    windows = RollingWindows({"1m": "1 minute", "ever": "lifetime"})
    operator = windows.group_by("k").aggregate(**five_aggregates())
    filling = [np.arange(at, at + BATCH) for at in range(0, LIVE_KEYS, BATCH)]
    keys = [*filling, *(rng.integers(0, LIVE_KEYS, BATCH) for _ in range(2 + rounds))]
    tables = (_at_minute(number, key) for number, key in enumerate(keys))
    with operator.local_runner(event_time="at", backend="rocksdb") as runner:
        for _ in range(len(filling) + 1):
            runner.process(next(tables))
        rows = measure(
            lambda: runner.process(next(tables)).num_rows,
            section="a million lifetimes",
            system="rocksdb",
            rows=BATCH,
            rounds=rounds,
            keys=LIVE_KEYS,
        )
        measure.note(bytes_a_key=round(runner.metrics["state_bytes"] / runner.metrics["live_keys"]))
    assert rows > 0.99 * BATCH


def _at_minute(number: int, key: np.ndarray) -> pa.Table:
    """Records of these keys, spread over a minute."""
    at = number * 2 * MINUTE_MS + np.sort(np.arange(len(key)) * MINUTE_MS // len(key))
    return pa.table({"k": key, "at": pa.array(at, pa.timestamp("ms")), "v": key / 7})
