"""What does it cost to keep a state of 25 million panes (1.2 GB) durable, and to start again from it?"""

import statistics
from pathlib import Path

import pytest

from benchmarks.state import LargeState

MIB = 1 << 20


@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_change_of_one_percent(benchmark, tmp_path: Path, backend: str) -> None:
    benchmark.group = "a batch that changes 1 % of 2.5 million keys with ten panes each"
    state = LargeState(tmp_path, backend, keys=2_500_000)
    written: list[int] = []
    changed: list[int] = []

    def batch() -> tuple[tuple[object], dict[str, object]]:
        changes = state.change(0.01)
        changed.append(sum(len(key) + len(page) for key, page in changes.puts[0].items()))
        return (changes,), {}

    def commit(changes: object) -> None:
        state.commit(changes)
        written.append(state.written)

    benchmark.pedantic(commit, setup=batch, rounds=40)
    told = {
        "MiB changed": round(statistics.mean(changed) / MIB, 1),
        "MiB written, mean": round(statistics.mean(written) / MIB, 1),
        "MiB written, median": round(statistics.median(written) / MIB, 1),
    }
    benchmark.extra_info.update(told)
    print(f"\n{backend}: {told}")


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_restart(benchmark, tmp_path: Path, backend: str) -> None:
    benchmark.group = (
        "a worker without local state restores 10 million panes from the newest snapshot and the log"
    )
    state = LargeState(tmp_path, backend, keys=1_000_000)
    for _ in range(3):
        state.commit(state.change(0.01))
    numbers = iter(range(10))

    def restore() -> None:
        copy = state.opened(f"copy-{next(numbers)}")
        assert copy.align(state.journal, state.pointer).restored
        copy.close()

    benchmark.pedantic(restore, rounds=3)
    behind = state.pointer.number - state.pointer.newest.number
    print(f"\n{backend}: {benchmark.stats['median']:.1f} s, {behind} log entries after the snapshot")
