"""Pages that a step holds as a whole are summed once and not read again, and not one row comes out otherwise."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import HoppingWindows, SlidingWindows, WindowedAggregation
from operators import aggregates as agg
from operators.kinds import page_sums
from operators.runtime.local import LocalRunner
from state_backends.backends.memory import MemoryBackend
from state_backends.durability.durable import Durable
from state_backends.store import cutting

GRACE = 400
WINDOWS = {"sliding": SlidingWindows(1_000, GRACE), "hopping": HoppingWindows(1_000, 50, GRACE)}
RESULTS = {"n": agg.count(), "total": agg.sum("x"), "low": agg.min("x"), "last": agg.last("x")}
SEGMENTS = {"state.segment": "100 ms"}


@pytest.fixture(autouse=True)
def pages_of_few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that three keys with twenty records in a segment have many pages."""
    monkeypatch.setattr(cutting, "PAGE_ENTRIES", 4)


def operator(kind: str) -> WindowedAggregation:
    """Windows that are ten segments long."""
    return WINDOWS[kind].group_by("k").aggregate(**RESULTS)


def feed(seed: int, delay: int) -> Iterator[pa.Table]:
    """Batches of a few keys, one of them rare, with ties and with records that are up to `delay` ticks behind."""
    rng = np.random.default_rng(seed)
    for number in range(30):
        at = number * 100 + rng.integers(0, 100, 60) - rng.integers(0, delay + 1, 60)
        keys = np.where(rng.random(60) < 0.02, 9, rng.integers(0, 3, 60))
        yield pa.table(
            {"k": keys, "at": pa.array(at, pa.timestamp("ms")), "x": rng.normal(size=60) * 2.0**40}
        )


def emitted(kind: str, seed: int, delay: int, **state: Any) -> list[list[dict[str, Any]]]:
    """What comes out, batch by batch, and at the end."""
    with operator(kind).local_runner("at", options=SEGMENTS, **state) as runner:
        tables = [runner.process(table) for table in feed(seed, delay)]
        tables.append(runner.process(next(feed(0, 0)).slice(0, 0), stream_time=10**9))
    names = ["k", *(f"window.{bound}" for bound in ("start", "end"))]
    return [table.flatten().sort_by([(name, "ascending") for name in names]).to_pylist() for table in tables]


def read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every page is read."""
    monkeypatch.setattr(page_sums.PageSums, "has", lambda _, pages: np.zeros(len(pages), bool))


@pytest.mark.parametrize("delay", [0, GRACE, 3 * GRACE])
@pytest.mark.parametrize("kind", WINDOWS)
def test_rows_are_those_of_reading_every_page(monkeypatch: pytest.MonkeyPatch, kind: str, delay: int) -> None:
    """In order, with records that change pages in the middle of windows, and with records that are late."""
    summed = emitted(kind, seed=delay, delay=delay)
    read_whole(monkeypatch)
    assert emitted(kind, seed=delay, delay=delay) == summed


def test_pages_in_the_middle_of_windows_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step reads the pages where windows begin and end: little more than half of what it would read else."""
    read = {"pages": 0}
    get_many = MemoryBackend.get_many

    def counted(self: MemoryBackend, segment: int, keys: Any) -> Any:
        read["pages"] += len(keys)
        return get_many(self, segment, keys)

    monkeypatch.setattr(MemoryBackend, "get_many", counted)
    counts = []
    for prepare in (lambda _: None, read_whole):
        prepare(monkeypatch)
        read["pages"] = 0
        emitted("sliding", seed=1, delay=0)
        counts.append(read["pages"])
    assert counts[0] < 0.6 * counts[1]


def test_no_collected_lists_are_kept() -> None:
    """Sums of states without a fixed width would hold all that was collected: none is made."""
    listing = WINDOWS["sliding"].group_by("k").aggregate(all=agg.collect_list("x"))
    with listing.local_runner("at", options=SEGMENTS) as runner:
        assert 0 < sum(runner.process(table).num_rows for table in feed(1, 0))
        assert 0 == sums_of(runner).size
    with operator("sliding").local_runner("at", options=SEGMENTS) as runner:
        assert 0 < sum(runner.process(table).num_rows for table in feed(1, 0))
        assert 0 < sums_of(runner).size


def test_sums_take_no_more_memory_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of segments that were not read for longest go first, and what comes out stays the same."""
    expected = emitted("sliding", seed=5, delay=GRACE)
    monkeypatch.setattr(page_sums, "_MOST_BYTES", 500)
    with operator("sliding").local_runner("at", options=SEGMENTS) as runner:
        for table in feed(5, GRACE):
            runner.process(table)
            assert sums_of(runner).size <= 500
    assert emitted("sliding", seed=5, delay=GRACE) == expected


def sums_of(runner: LocalRunner) -> page_sums.PageSums:
    """The sums that an operator keeps."""
    assert runner._operator is not None
    kept = runner._operator.operator
    assert isinstance(kept, page_sums.SummingOperator)
    return kept._sums


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_an_aborted_batch_leaves_no_sum_behind(backend: str) -> None:
    """What a failed batch wrote into a page is not in the page's sum afterwards."""
    tables = list(feed(seed=3, delay=GRACE))
    found = []
    for aborts in (False, True):
        with operator("sliding").local_runner("at", backend=backend, options=SEGMENTS) as runner:
            found.append([_step(runner, tables, number, aborts).to_pylist() for number in range(len(tables))])
    assert found[0] == found[1]


def _step(runner: LocalRunner, tables: list[pa.Table], number: int, aborts: bool) -> pa.Table:
    if aborts and number % 4 == 3:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Durable, "commit", _full)
            with pytest.raises(OSError, match="disk is full"):
                runner.process(tables[(number + 7) % len(tables)])
    return runner.process(tables[number])


def _full(*_: Any) -> None:
    raise OSError("the disk is full")
