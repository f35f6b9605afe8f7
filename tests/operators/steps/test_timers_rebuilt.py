"""What is due is known again after a restart, however much is stored."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from operators import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.steps import page_timers, timers
from state_backends import chunks
from tests.effort import few

KINDS = {
    "sliding": SlidingWindows(size=50, grace=10),
    "tumbling": TumblingWindows(size=50, grace=10),
    "hopping": HoppingWindows(size=50, advance=20, grace=10),
    "session": SessionWindows(gap=30, grace=10),
}


def feed(kind: str, backend: str, directory: Path, restarts: int) -> list[dict[str, object]]:
    """All rows of a run of 30 batches with a restart every so many."""
    op = KINDS[kind].group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    rng, rows = np.random.default_rng(1), []
    with op.local_runner("at", backend=backend, directory=directory) as runner:
        for number in range(30):
            at = number * 20 + rng.integers(-30, 20, 100)
            table = pa.table({"k": rng.integers(0, 300, 100), "at": at, "v": rng.integers(0, 9, 100)})
            rows += runner.process(table).to_pylist()
            runner._operator.engine.state.check()
            if number % restarts == restarts - 1:
                runner.restart()
        rows += runner.process(table.slice(0, 0), stream_time=10_000).to_pylist()
        assert 0 == len(runner._operator.engine.state.timers.queue)
    return sorted(rows, key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("few_pages", [-1, 1_000])
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
@pytest.mark.parametrize("kind", few(KINDS, 3))
def test_timers_are_rebuilt_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, backend: str, few_pages: int
) -> None:
    """Restarts that read the store in small parts, and pack what they find, change no row; all at once or when it is due."""
    expected = feed(kind, backend, tmp_path / "undisturbed", 100)
    monkeypatch.setattr(page_timers, "_FEW_PAGES", few_pages)
    monkeypatch.setattr(chunks, "_MOST_BYTES", 1_000)
    monkeypatch.setattr(timers, "_LONG", 32)
    assert expected == feed(kind, backend, tmp_path / "restarted", 3)


@pytest.mark.slow
@pytest.mark.parametrize(("emit", "left"), [("on_close", [2, 1, 0, 0]), ("on_update", [3, 2, 1, 0])])
def test_large_state_is_read_batch_by_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emit: str, left: list[int]
) -> None:
    """After a restart, each batch reads one more segment; the number of keys is that of before until all are read."""
    monkeypatch.setattr(page_timers, "_FEW_PAGES", -1)
    monkeypatch.setattr(page_timers, "_LOOK_UP", 0)
    op = SlidingWindows(size=1_000_000).group_by("k").aggregate(n=agg.count()).emit(emit)
    options = {"state.segment": "1 minute"}
    with op.local_runner("at", backend="rocksdb", directory=tmp_path / "state", options=options) as runner:
        for segment in range(4):
            at = np.full(500, segment * 60_000)
            runner.process(pa.table({"k": np.arange(500) + 500 * segment, "at": at}))
        assert 2_000 == runner.metrics["live_keys"]
        runner.restart()
        unread = []
        for number in range(4):
            rows = runner.process(pa.table({"k": [number, 5_000 + number], "at": [240_000 + number] * 2}))
            assert 2_000 <= runner.metrics["live_keys"] <= 2_001 + number
            assert rows.num_rows >= 2
            unread.append(len(runner._operator.engine.state.timers._unknown))
        assert left == unread
        assert 2_004 == runner.metrics["live_keys"]


def test_batch_of_many_keys_reads_the_keys_of_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart, segments that have few pages for the keys of a batch are read, not asked for each key."""
    monkeypatch.setattr(page_timers, "_FEW_PAGES", -1)
    op = SlidingWindows(size=1_000_000).group_by("k").aggregate(n=agg.count()).emit("on_update")
    options = {"state.segment": "1 minute"}
    with op.local_runner("at", backend="rocksdb", directory=tmp_path / "state", options=options) as runner:
        for segment, keys in enumerate([100, 2_000, 100, 100]):
            runner.process(pa.table({"k": np.arange(keys), "at": np.full(keys, segment * 60_000)}))
        runner.restart()
        rows = runner.process(pa.table({"k": np.arange(50) + 90, "at": np.full(50, 240_000)}))
        assert [1] == list(runner._operator.engine.state.timers._unknown)
    assert {*range(90, 140)} == {*rows["k"].to_pylist()}
