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

GRACE = 400
WINDOWS = {"sliding": SlidingWindows(1_000, GRACE), "hopping": HoppingWindows(1_000, 50, GRACE)}
RESULTS = {"n": agg.count(), "total": agg.sum("x"), "low": agg.min("x"), "last": agg.last("x")}


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
    options = {"state.segment": "100 ms"}
    with operator(kind).local_runner("at", options=options, **state) as runner:
        tables = [runner.process(table) for table in feed(seed, delay)]
        tables.append(runner.process(next(feed(0, 0)).slice(0, 0), stream_time=10**9))
    names = ["k", *(f"window.{bound}" for bound in ("start", "end"))]
    return [table.flatten().sort_by([(name, "ascending") for name in names]).to_pylist() for table in tables]


@pytest.mark.parametrize("delay", [0, GRACE, 3 * GRACE])
@pytest.mark.parametrize("kind", WINDOWS)
def test_rows_are_those_of_reading_every_page(monkeypatch: pytest.MonkeyPatch, kind: str, delay: int) -> None:
    """In order, with records that change pages in the middle of windows, and with records that are late."""
    monkeypatch.setattr(page_sums, "_DENSE", 1)
    summed = emitted(kind, seed=delay, delay=delay)
    monkeypatch.setattr(page_sums, "_DENSE", 10**9)
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
    for dense in (1, 10**9):
        monkeypatch.setattr(page_sums, "_DENSE", dense)
        read["pages"] = 0
        emitted("sliding", seed=1, delay=0)
        counts.append(read["pages"])
    assert counts[0] < 0.6 * counts[1]


def test_no_collected_lists_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of states without a fixed width would hold all that was collected: none is made."""
    monkeypatch.setattr(page_sums, "_DENSE", 1)
    added = []
    monkeypatch.setattr(page_sums.PageSums, "_add", lambda *_: added.append(1))
    listing = WINDOWS["sliding"].group_by("k").aggregate(all=agg.collect_list("x"))
    with listing.local_runner("at", options={"state.segment": "100 ms"}) as runner:
        assert 0 < sum(runner.process(table).num_rows for table in feed(1, 0))
    assert [] == added


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_an_aborted_batch_leaves_no_sum_behind(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """What a failed batch wrote into a page is not in the page's sum afterwards."""
    monkeypatch.setattr(page_sums, "_DENSE", 1)
    tables = list(feed(seed=3, delay=GRACE))
    found = []
    for aborts in (False, True):
        with operator("sliding").local_runner(
            "at", backend=backend, options={"state.segment": "100 ms"}
        ) as runner:
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
