"""What do keys cost that have open windows but no records?

A thousand active keys get a record in each batch, and each batch closes about two thousand of their windows. The idle keys have
one record each, spread over the whole grace period: they share segments with what closes and with what is written.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.data import operator
from benchmarks.marks import full
from benchmarks.measure import Measure
from operators.runtime.local import LocalRunner

ACTIVE, STEP_MS, GRACE_MS, MARGIN_MS = 1_000, 100, 60_000, 5_000
WARM, CLOCKED, AT_ONCE = 5, 25, 250_000


@pytest.mark.parametrize("idle", [10_000, 100_000, 1_000_000])
@pytest.mark.parametrize("backend", ["memory", full("rocksdb"), full("spark")])
def test_batches_beside_idle_keys(measure: Measure, backend: str, idle: int) -> None:
    with operator(10, grace_ms=GRACE_MS).local_runner(event_time="at", backend=backend) as runner:
        fill(runner, idle)
        numbers = iter(range(1, WARM + CLOCKED + 1))
        windows = measure(
            lambda: batch(runner, next(numbers)),
            section="idle keys",
            system=backend,
            rows=ACTIVE,
            rounds=CLOCKED,
            warmup=WARM,
            idle=idle,
        )
    assert windows > 1.5 * ACTIVE


def fill(runner: LocalRunner, idle: int) -> None:
    """Give the active keys what the batches close, and the idle keys a record each that outlives all batches."""
    closing = np.arange(-2_000, (WARM + CLOCKED + 2) * STEP_MS, STEP_MS)
    runner.process(rows(np.tile(np.arange(ACTIVE), len(closing)), np.repeat(closing, ACTIVE)), stream_time=0)
    for keys in parts(np.arange(ACTIVE, ACTIVE + idle)):
        spread = MARGIN_MS + (keys * 7_919) % (GRACE_MS - MARGIN_MS)
        runner.process(rows(keys, spread), stream_time=0)


def parts(keys: np.ndarray) -> Iterator[np.ndarray]:
    """The keys, so many at once."""
    for at in range(0, len(keys), AT_ONCE):
        yield keys[at : at + AT_ONCE]


def batch(runner: LocalRunner, number: int) -> int:
    """Feed a record of each active key, a step later than the last ones, and return the number of closed windows."""
    now = GRACE_MS + number * STEP_MS
    table = rows(np.arange(ACTIVE), np.full(ACTIVE, now))
    return runner.process(table, stream_time=now).num_rows


def rows(key: np.ndarray, at: np.ndarray) -> pa.Table:
    """A table of these keys and event times in ms."""
    return pa.table({"k": key, "at": pa.array(at, pa.timestamp("ms")), "v": at / 1_000})
