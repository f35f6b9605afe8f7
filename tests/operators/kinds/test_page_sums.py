"""Pages that a step holds as a whole are summed once and not read again, and not one row comes out otherwise."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import HoppingWindows, RollingAggregation, RollingWindows, SlidingWindows, WindowedAggregation
from operators import aggregates as agg
from operators.runtime.local import LocalRunner
from operators.steps import page_sums
from state_backends.backends.memory import MemoryBackend
from state_backends.durability.durable import Durable
from state_backends.store import cutting
from tests.effort import few, slow

GRACE = 400


def _added(largest: list[float], x: float) -> list[float]:
    """The three largest; the list that it is given is changed."""
    largest.append(x)
    largest.sort(reverse=True)
    del largest[3:]
    return largest


def _merged(left: list[float], right: list[float]) -> list[float]:
    left += right
    left.sort(reverse=True)
    del left[3:]
    right.clear()
    return left


LOOKBACKS = {"short": 300, "long": 1_000}
WINDOWS: dict[str, SlidingWindows | HoppingWindows | RollingWindows] = {
    "sliding": SlidingWindows(1_000, GRACE),
    "hopping": HoppingWindows(1_000, 50, GRACE),
    "rolling": RollingWindows(LOOKBACKS, GRACE),
    "rolling, without its start": RollingWindows(LOOKBACKS, GRACE, closed="right"),
    "rolling, without its end": RollingWindows(LOOKBACKS, GRACE, closed="left"),
    "rolling, with a lifetime": RollingWindows({**LOOKBACKS, "ever": "lifetime"}, GRACE),
}
FIXED = {"n": agg.count(), "total": agg.sum("x"), "low": agg.min("x"), "last": agg.last("x")}
PACKED = {
    "n": agg.count(),
    "different": agg.approx_count_distinct("x"),
    "greatest": agg.max("text"),
    "largest": agg.fold(list, _added, "x", type="array<double>", merge=_merged),
}
RESULTS = {"fixed": FIXED, "packed": PACKED, "listed": {"all": agg.collect_list("x")}}
CASES = [("fixed", 0), ("fixed", GRACE), ("fixed", 3 * GRACE), ("packed", GRACE), ("listed", GRACE)]
SEGMENTS = {"state.segment": "100 ms"}


@pytest.fixture(autouse=True)
def pages_of_few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that three keys with twenty records in a segment have many pages."""
    monkeypatch.setattr(cutting, "PAGE_ENTRIES", 4)


def operator(kind: str, results: str = "fixed") -> WindowedAggregation | RollingAggregation:
    """Windows that are ten segments long."""
    return WINDOWS[kind].group_by("k").aggregate(**RESULTS[results])


def feed(seed: int, delay: int) -> Iterator[pa.Table]:
    """Batches of a few keys, one of them rare, with ties and with records that are up to `delay` ticks behind."""
    rng = np.random.default_rng(seed)
    for number in range(30):
        at = number * 100 + rng.integers(0, 100, 60) - rng.integers(0, delay + 1, 60)
        keys = np.where(rng.random(60) < 0.02, 9, rng.integers(0, 3, 60))
        times, x = pa.array(at, pa.timestamp("ms")), rng.normal(size=60) * 2.0**40
        yield pa.table({"k": keys, "at": times, "x": x, "text": x.astype(str)})


def emitted(
    kind: str, seed: int, delay: int, results: str = "fixed", **state: Any
) -> list[list[dict[str, Any]]]:
    """What comes out, batch by batch, and at the end."""
    with operator(kind, results).local_runner("at", options=SEGMENTS, **state) as runner:
        tables = [runner.process(table) for table in feed(seed, delay)]
        tables.append(runner.process(next(feed(0, 0)).slice(0, 0), stream_time=10**9))
    names = ["k", "at", "x"] if "at" in tables[0].column_names else ["k", "window.start", "window.end"]
    return [table.flatten().sort_by([(name, "ascending") for name in names]).to_pylist() for table in tables]


def read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every page is read."""
    monkeypatch.setattr(page_sums.PageSums, "has", staticmethod(lambda pages: np.zeros(len(pages), bool)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "results", "delay"),
    few(
        [
            (kind, *case)
            for kind in WINDOWS
            for case in CASES
            if not (
                "lifetime" in kind and case[0] == "listed"
            )  # It is refused, since it would grow without end.
        ],
        12,
        names=3,
    ),
)
def test_rows_are_those_of_reading_every_page(
    monkeypatch: pytest.MonkeyPatch, kind: str, results: str, delay: int
) -> None:
    """In order, with records that change pages in the middle of windows, and with records that are late."""
    summed = emitted(kind, delay, delay, results)
    assert any(summed)
    read_whole(monkeypatch)
    assert emitted(kind, delay, delay, results) == summed


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("results", "most"), [("fixed", 500), ("packed", 6_000)])
def test_sums_take_no_more_memory_than_they_may(
    monkeypatch: pytest.MonkeyPatch, results: str, most: int
) -> None:
    """Those of segments that were not read lately go first, then new ones, and what comes out stays the same."""
    expected = emitted("sliding", 5, GRACE, results)
    monkeypatch.setattr(page_sums, "_MOST_BYTES", most)
    with operator("sliding", results).local_runner("at", options=SEGMENTS) as runner:
        sizes = []
        for table in feed(5, GRACE):
            runner.process(table)
            sizes.append(sums_of(runner).size)
    assert 0 < max(sizes) <= most
    assert emitted("sliding", 5, GRACE, results) == expected


@pytest.mark.slow
def test_sums_go_with_the_segments_that_no_window_needs() -> None:
    """Also packed ones: after a pause of longer than a window nothing of what was before is kept."""
    with operator("sliding", "packed").local_runner("at", options=SEGMENTS) as runner:
        for table in feed(1, 0):
            runner.process(table)
        assert 0 < sums_of(runner).size
        runner.process(next(feed(0, 0)).slice(0, 0), stream_time=10**9)
        assert 0 == sums_of(runner).size


def sums_of(runner: LocalRunner) -> page_sums.PageSums:
    """The sums that an operator keeps."""
    assert runner._operator is not None
    sums = runner._operator.engine.state.sums
    assert sums is not None
    return sums


@pytest.mark.slow
@pytest.mark.parametrize("backend", [slow("memory"), "rocksdb"])
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


def _full(*_: Any, **__: Any) -> None:
    raise OSError("the disk is full")
