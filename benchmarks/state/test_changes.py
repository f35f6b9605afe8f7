"""What does it cost to keep state durable, and to start again from it, as it grows?

Ten panes for each key, under the default policy with a folder for snapshots. A batch writes new pages for 1 % of the keys,
picked at random; a restart is that of a worker without local state.
"""

import statistics
from pathlib import Path

import pytest

from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.state.large import PANES, LargeState
from state_backends import WriteBatch

MIB = 1 << 20
SIZES = [10_000, 100_000, full(1_000_000), full(2_500_000)]
"""Keys: 100 thousand panes (5 MB) to 25 million (1.2 GB)."""


@pytest.mark.parametrize("keys", SIZES)
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_change_of_one_percent(measure: Measure, tmp_path: Path, backend: str, keys: int) -> None:
    state = LargeState(tmp_path, backend, keys)
    written: list[int] = []
    batches: list[WriteBatch] = [state.change(0.01) for _ in range(21)]

    def commit() -> None:
        state.commit(batches.pop())
        written.append(state.written)

    measure(
        commit,
        section="state: a batch that changes 1 % of the keys",
        system=backend,
        rows=keys // 100 * PANES,
        rounds=20,
        keys=keys,
    )
    measure.note(written_mib=round(statistics.mean(written) / MIB, 2))
    assert not batches


@pytest.mark.parametrize("keys", SIZES)
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_snapshot(measure: Measure, tmp_path: Path, backend: str, keys: int) -> None:
    """A batch that changes 1 % and then waits for its snapshot. One of rocksdb shares the files that are as they were."""
    state = LargeState(tmp_path, backend, keys)
    state.snapshot_each_batch()
    batches: list[WriteBatch] = [state.change(0.01) for _ in range(4)]
    written: list[int] = []

    def commit() -> None:
        state.commit(batches.pop())
        written.append(state.written)

    measure(commit, section="state: a snapshot", system=backend, rows=keys * PANES, rounds=3, keys=keys)
    measure.note(written_mib=round(statistics.median(written[1:]) / MIB, 2))
    assert not batches


@pytest.mark.parametrize("keys", SIZES)
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_restart(measure: Measure, tmp_path: Path, backend: str, keys: int) -> None:
    state = LargeState(tmp_path, backend, keys)
    for _ in range(3):
        state.commit(state.change(0.01))
    numbers = iter(range(10))

    def restore() -> bool:
        copy = state.opened(f"copy-{next(numbers)}")
        restored = not copy.align(state.journal, state.pointer).current
        copy.close()
        return restored

    restored = measure(
        restore, section="state: a restart without it", system=backend, rows=keys * PANES, keys=keys
    )
    assert restored
