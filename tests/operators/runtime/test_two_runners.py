"""Two local runners on one directory: their batches come one after the other, or the second runner is refused."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from operators import TumblingWindows, WindowedAggregation
from operators import aggregates as agg
from state_backends import StateError

_SOON = 0.3


def records(value: int) -> pa.Table:
    """One record."""
    return pa.table({"time": pa.array([1], pa.int64()), "value": [value]})


_BEGUN = Event()


def slow_add(total: int, value: int) -> int:
    """Return the sum of both; for the value 1, say so and take time."""
    if value == 1:
        _BEGUN.set()
        Event().wait(_SOON)
    return total + value


def slow() -> WindowedAggregation:
    """Windows of all records."""
    return TumblingWindows(10).aggregate(total=agg.fold(0, slow_add, "value", type="bigint"))


@pytest.mark.parametrize("backend", ["memory", "spark"])
def test_no_batch_of_two_runners_is_lost(tmp_path: Path, backend: str) -> None:
    """A batch that another runner begins meanwhile waits for the end of this one, and builds on it."""
    _BEGUN.clear()
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        one, other = (stack.enter_context(slow().local_runner("time", backend, tmp_path)) for _ in range(2))
        one.process(records(100))
        other.process(records(1_000))
        first = pool.submit(one.process, records(1))
        assert _BEGUN.wait(60)
        other.process(records(10))
        first.result()
        (row,) = one.process(records(0).slice(0, 0), stream_time=10**6).to_pylist()
    assert 1_111 == row["total"]


def test_a_copy_that_another_runner_holds_is_refused(tmp_path: Path) -> None:
    """RocksDB lets one process open its files once: the error says so, and the first runner goes on."""
    with slow().local_runner("time", "rocksdb", tmp_path) as one:
        one.process(records(100))
        with (
            slow().local_runner("time", "rocksdb", tmp_path) as other,
            pytest.raises(StateError) as raised,
        ):
            other.process(records(10))
        one.process(records(1_000))
        (row,) = one.process(records(0).slice(0, 0), stream_time=10**6).to_pylist()
    print(raised.value)  # noqa: T201 - what the user sees
    assert str(tmp_path) in str(raised.value)
    assert 1_100 == row["total"]


@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_what_else_is_in_the_directory_stays(tmp_path: Path, backend: str) -> None:
    """Also a folder with the name of that of temporary files."""
    mine = tmp_path / f"state-{backend}-snapshots" / "mine"
    mine.mkdir(parents=True)
    (mine / "chapter").write_text("one")
    options = {"state.snapshots.folder": tmp_path / "snapshots", "state.snapshots.bytes": 1}
    for _ in range(2):
        with slow().local_runner("time", backend, tmp_path, options) as runner:
            runner.process(records(100))
            runner.process(records(100))
    assert (mine / "chapter").read_text() == "one"
