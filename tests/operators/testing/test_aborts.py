"""Local runners that abort batches and go on elsewhere: nothing that was not committed is ever seen."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from state_backends.backends.memory import MemoryBackend
from state_backends.backends.rocksdb import RocksDBBackend

BACKENDS = ("memory", "rocksdb", "spark")
KINDS = {
    "sliding": SlidingWindows(15, grace=10),
    "hopping": HoppingWindows(15, 4, grace=10),
    "session": SessionWindows(6, grace=10),
}
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.int64())])
END = 2**40


def batch(*times: int, key: str = "a") -> pa.Table:
    """Records of one key."""
    return pa.table([pa.array([key] * len(times), pa.string()), pa.array(times, pa.int64())], schema=SCHEMA)


def batches(chance: random.Random) -> list[tuple[pa.Table, int | None]]:
    """Batches out of order, and an end of time."""
    times = [[n * 20 + chance.randrange(-30, 30) for _ in range(chance.randrange(6))] for n in range(8)]
    return [*((batch(*some, key=chance.choice("ab")), None) for some in times), (batch(), END)]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Each built-in backend."""
    return str(request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_aborted_batches_and_other_backends_change_no_row(kind: str, backend: str, tmp_path: Path) -> None:
    """With attempts that fail, restarts and moves to other backends, rows and counts are those of an undisturbed run."""
    chance = random.Random(f"{kind} {backend}")
    operator = KINDS[kind].group_by("k").aggregate(n=agg.count()).emit("on_update")
    feed = batches(chance)
    with operator.local_runner("at") as alone:
        expected = [alone.process(*step) for step in feed]
    with operator.local_runner("at", backend, tmp_path, {"state.snapshots.bytes": "1k"}) as runner:
        for step, rows in zip(feed, expected, strict=True):
            if chance.random() < 0.4:
                runner.restart(chance.choice([None, *BACKENDS]))
            if chance.random() < 0.5:
                runner.abort(*chance.choice(feed))
            if chance.random() < 0.5:
                assert rows == runner.abort(*step)
            assert rows == runner.process(*step)
        assert runner.counters == alone.counters
        assert runner.store.is_empty()


def test_copy_is_ahead_after_an_abort_and_comes_back(backend: str) -> None:
    """The attempt's writes are in the local copy until the next batch, which restores what was committed."""
    with (
        SlidingWindows(10, grace=100)
        .group_by("k")
        .aggregate(n=agg.count())
        .local_runner("at", backend) as runner
    ):
        runner.process(batch(1))
        runner.abort(batch(2, 3, key="b"))
        ahead = entries(runner)
        runner.process(batch())
        back = entries(runner)

    assert (3, 1) == (ahead, back)


def entries(runner: Any) -> int:
    """Number of panes in the store."""
    return sum(len(found.key) for _, found in runner.store.scan())


def test_first_batch_may_be_aborted(backend: str) -> None:
    """Then the operator is bound, and there is no state."""
    with SlidingWindows(10).aggregate(n=agg.count()).emit("on_update").local_runner("at", backend) as runner:
        assert [1] == runner.abort(batch(1)).column("n").to_pylist()
        assert [1] == runner.process(batch(1)).column("n").to_pylist()
        assert (1, 1) == (runner.counters.rows, runner.counters.windows)


def test_error_in_an_aborted_batch_leaves_no_trace() -> None:
    """As with any batch that fails, the next one finds what was committed."""
    operator = TumblingWindows(10).aggregate(total=agg.sum("v")).emit("on_update")
    with operator.local_runner("at") as runner:
        runner.process(pa.table({"at": [1], "v": [1]}))
        with pytest.raises(ArithmeticError):
            runner.abort(pa.table({"at": [2, 3], "v": [2**62, 2**62]}))
        assert [3] == runner.process(pa.table({"at": [4], "v": [2]})).column("total").to_pylist()


def test_restart_goes_on_with_another_backend(tmp_path: Path) -> None:
    """State that one backend wrote is there on the next; an unknown one is refused, and nothing is changed."""
    operator = SlidingWindows(10).aggregate(n=agg.count()).emit("on_update")
    with operator.local_runner("at", "memory", tmp_path) as runner:
        runner.process(batch(1))
        with pytest.raises(ValueError, match="unknown state backend 'rocks'"):
            runner.restart("rocks")
        assert isinstance(runner._operator.backend, MemoryBackend)
        runner.restart("rocksdb")
        assert [2] == runner.process(batch(1)).column("n").to_pylist()
        assert isinstance(runner._operator.backend, RocksDBBackend)
        runner.restart()
        assert [3] == runner.process(batch(1)).column("n").to_pylist()
        assert isinstance(runner._operator.backend, RocksDBBackend)
