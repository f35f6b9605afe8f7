"""How fast are sliding windows without Spark, on which backend, with how many records per window?

Two windows come out for each record, left and right, in batches of 100,000, on one core.
"""

import pyarrow as pa
import pytest

from benchmarks.data import BATCH, KEYS, PER_WINDOW, RECORDS, operator, records
from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.operators.feeding import fed

LONG = 10_000
"""Records per window that a million records would not fill."""


@pytest.mark.parametrize("per_window", [n for n in PER_WINDOW if n != LONG])
@pytest.mark.parametrize("backend", ["memory", "rocksdb", full("spark")])
def test_on_close(measure: Measure, table: pa.Table, backend: str, per_window: int) -> None:
    windows = measure(
        lambda: fed(operator(per_window), table, backend),
        section="sliding windows, local",
        system=backend,
        rows=RECORDS,
        per_window=per_window,
        keys=KEYS,
    )
    check(windows, RECORDS, per_window)


@pytest.mark.parametrize("backend", ["memory", "rocksdb", full("spark")])
def test_long_windows(measure: Measure, backend: str) -> None:
    """What fills the first windows is not clocked."""
    filling, rounds = LONG * KEYS * 21 // 20, 4
    table = records(filling + (1 + rounds) * BATCH)
    coming = iter(range(filling, len(table), BATCH))
    with operator(LONG).local_runner(event_time="at", backend=backend) as runner:
        runner.process(table.slice(0, filling))
        windows = measure(
            lambda: runner.process(table.slice(next(coming), BATCH)).num_rows,
            section="sliding windows, local",
            system=backend,
            rows=BATCH,
            rounds=rounds,
            per_window=LONG,
            keys=KEYS,
        )
    check(windows, BATCH, 0)


def check(windows: int, rows: int, per_window: int) -> None:
    """Two windows for each record, but for right ones that are still open and times that are the same."""
    assert windows > 0.97 * (2 * rows - per_window * KEYS)


@pytest.mark.parametrize("per_window", [10, 1_000, full(100)])
@pytest.mark.parametrize("emit", ["on_close", "on_update"])
def test_emit(measure: Measure, table: pa.Table, emit: str, per_window: int) -> None:
    """On update, a window is emitted after each batch that changes it; on close, once."""
    windows = measure(
        lambda: fed(operator(per_window, emit=emit), table, "memory"),
        section="when windows are emitted",
        system="memory",
        rows=RECORDS,
        emit=emit,
        per_window=per_window,
    )
    check(windows, RECORDS, per_window)
