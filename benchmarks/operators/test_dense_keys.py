"""What does a record cost whose key has many records already?

Each batch brings one record of each key, ten seconds of event time later than the one before, while a key has from one to a
million records within its longest window. Noted beside the time: the bytes that the changelog and the backend get for a row.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.operators.busy import KINDS, STEP_MS, table

HOUR_MS = 3_600_000
MOST_ROWS, MOST_KEPT = 2_000, 1_000_000
ROUNDS = 30


def batches(keys: int, kept: int) -> Iterator[pa.Table]:
    """The records of an hour in batches of at most 100,000, then batches of one record of each key."""
    numbers = np.arange(keys)
    at = np.sort(np.random.default_rng(1).integers(0, HOUR_MS, keys * kept))
    for begin in range(0, len(at), 100_000):
        times = at[begin : begin + 100_000]
        yield table(np.resize(np.roll(numbers, -begin % keys), len(times)), times)
    for number in range(ROUNDS + 10):
        yield table(numbers, np.full(keys, HOUR_MS + number * STEP_MS))


@pytest.mark.parametrize("entries", [1, 10, 1_000, full(100_000), full(1_000_000)])
@pytest.mark.parametrize("backend", ["memory", full("rocksdb"), full("spark")])
@pytest.mark.parametrize("kind", KINDS)
def test_record_of_a_busy_key(
    measure: Measure, tmp_path: Path, kind: str, backend: str, entries: int
) -> None:
    keys = min(MOST_ROWS, max(1, MOST_KEPT // entries))
    tables = batches(keys, entries)
    with KINDS[kind]().local_runner("at", backend=backend, directory=tmp_path) as runner:
        for _ in range(-(-keys * entries // 100_000) + 9):
            runner.process(next(tables))
        logged: list[float] = []
        changed: list[float] = []

        def step() -> None:
            runner.process(next(tables))
            logged.append(runner.metrics["logged_bytes"] / keys)
            changed.append(runner.metrics["changed_bytes"] / keys)

        measure.processor(
            step,
            section="operators: a record of a busy key",
            system=backend,
            rows=keys,
            rounds=ROUNDS,
            kind=kind,
            entries=entries,
        )
        measure.note(logged=round(float(np.mean(logged))), changed=round(float(np.mean(changed))))
