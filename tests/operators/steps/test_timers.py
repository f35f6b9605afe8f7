"""The queue names exactly what is due, once."""

import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.columns.records import NEVER
from operators.steps import timers as timers_module
from operators.steps.timers import TimerQueue

Entry = tuple[int, bytes, int]
"""Segment, key and due time."""


def add(queue: TimerQueue, segment: int, *pages: tuple[bytes, int]) -> None:
    """Enter pages of one segment."""
    queue.add(segment, [key for key, _ in pages], np.array([due for _, due in pages], np.int64))


def taken(queue: TimerQueue, close: int) -> dict[int, list[bytes]]:
    """What is due, with keys in order."""
    return {segment: sorted(keys) for segment, keys in queue.drain_due(close).items()}


def test_new_queue() -> None:
    """A queue without entries names nothing."""
    queue = TimerQueue()
    assert (0, {}) == (len(queue), queue.drain_due(NEVER))


def test_due_is_before_the_close_time() -> None:
    """A window that ends at the close time is not due; one that ends a tick before is."""
    queue = TimerQueue()
    add(queue, 3, (b"a", 9), (b"b", 10), (b"c", 11))
    assert {3: [b"a"]} == taken(queue, 10)
    assert {3: [b"b"]} == taken(queue, 11)
    assert {} == taken(queue, 11)
    assert {3: [b"c"]} == taken(queue, 99)
    assert 0 == len(queue)


def test_by_segment() -> None:
    """What is due comes by segment, the same key in each that names it."""
    queue = TimerQueue()
    add(queue, -1, (b"a", -5), (b"b", -6))
    add(queue, 0, (b"a", 3))
    add(queue, 9, (b"a", 95))
    assert {-1: [b"a", b"b"], 0: [b"a"]} == taken(queue, 50)
    assert 1 == len(queue)


def test_page_entered_twice() -> None:
    """A page that is due at two times is named once in one visit, and at each time in two."""
    queue = TimerQueue()
    add(queue, 0, (b"a", 1), (b"a", 2))
    assert {0: [b"a"]} == taken(queue, 5)
    add(queue, 0, (b"a", 6))
    add(queue, 0, (b"a", 7))
    assert [{0: [b"a"]}, {0: [b"a"]}, {}] == [taken(queue, close) for close in (7, 8, 9)]


def test_never_is_passed_over() -> None:
    """Pages that are due never are not entered."""
    queue = TimerQueue()
    add(queue, 0, (b"a", NEVER), (b"b", 5), (b"c", NEVER))
    assert 1 == len(queue)
    assert {0: [b"b"]} == taken(queue, NEVER)


def test_adding_nothing() -> None:
    """No pages, or only such as are never due, change nothing."""
    queue = TimerQueue()
    add(queue, 0)
    add(queue, 0, (b"a", NEVER))
    assert 0 == len(queue)


def test_clear() -> None:
    """A cleared queue names nothing, and can be filled again."""
    queue = TimerQueue()
    add(queue, 0, (b"a", 5))
    queue.clear()
    assert (0, {}) == (len(queue), queue.drain_due(NEVER))
    add(queue, 1, (b"b", 5))
    assert {1: [b"b"]} == taken(queue, 6)


def test_earlier_close_time() -> None:
    """A close time before the last one names nothing again."""
    queue = TimerQueue()
    add(queue, 0, (b"a", 5), (b"b", 20))
    assert {0: [b"a"]} == taken(queue, 10)
    assert {} == taken(queue, 3)
    assert {0: [b"b"]} == taken(queue, 30)


def test_arguments_are_left_alone() -> None:
    """The due times given are the same afterwards, and later changes to them are not seen."""
    queue, due = TimerQueue(), np.array([7, 3, 5])
    queue.add(0, [b"a", b"b", b"c"], due)
    assert [7, 3, 5] == due.tolist()
    due[:] = 0
    assert {0: [b"b", b"c"]} == taken(queue, 7)


PAGES = st.lists(st.tuples(st.binary(max_size=1), st.integers(-20, 20) | st.just(NEVER)), max_size=6)
STEPS = st.lists(st.tuples(st.integers(-2, 2), PAGES) | st.integers(-25, 25), max_size=30)


@given(STEPS)
def test_queue_is_a_list_of_timers(steps: list[tuple[int, list[tuple[bytes, int]]] | int]) -> None:
    """Whatever is entered and taken in whatever order, a visit names exactly the entries before it."""
    queue = TimerQueue()
    entries: list[Entry] = []
    for step in steps:
        if isinstance(step, int):
            expected: dict[int, set[bytes]] = {}
            for segment, key, due in entries:
                if due < step:
                    expected.setdefault(segment, set()).add(key)
            entries = [entry for entry in entries if entry[2] >= step]
            found = queue.drain_due(step)
            assert expected == {segment: set(keys) for segment, keys in found.items()}
            assert {segment: len(keys) for segment, keys in expected.items()} == {
                s: len(k) for s, k in found.items()
            }
        else:
            segment, pages = step
            add(queue, segment, *pages)
            entries += [(segment, key, due) for key, due in pages if due < NEVER]
        assert len(entries) == len(queue)


@pytest.mark.slow
def test_many_adds() -> None:
    """Of ten thousand additions none was named twice, none too early, and none was forgotten."""
    queue, rng = TimerQueue(), random.Random(1)
    due_of = {b"%d" % n: rng.randrange(10_000, 20_000) for n in range(10_000)}
    seen: list[tuple[bytes, int]] = []
    for step, (key, due) in enumerate(due_of.items()):
        add(queue, 0, (key, due))
        seen += [(key, 2 * step) for key in queue.drain_due(2 * step).get(0, [])]
    seen += [(key, 20_000) for key in queue.drain_due(20_000).get(0, [])]
    assert sorted(due_of) == sorted(key for key, _ in seen)
    assert all(due_of[key] < close for key, close in seen)


@pytest.mark.slow
def test_runs_stay_few() -> None:
    """Entries are kept in few sorted runs, so that a visit stays cheap however many additions there were."""
    queue = TimerQueue()
    for n in range(5_000):
        add(queue, 0, (b"%d" % n, n * 7919 % 5003))
    check(queue)
    assert 8 * 5 > len(queue._segments[0]._runs)


def check(queue: TimerQueue) -> None:
    """Short runs are short, few and in order; long ones are packed, in order, and more than half of each is left."""
    for entries in queue._segments.values():
        levels = {run.level for run in entries._runs}
        assert all(0 < len(run) < timers_module._LONG for run in entries._runs)
        assert all(np.all(np.diff(run.due[run.used :]) >= 0) for run in entries._runs)
        assert 8 * (1 + max(levels, default=0)) > len(entries._runs)
        for run in entries._packed:
            after = run._after[run._used :].astype(np.int64)
            assert np.all(np.diff(after) >= 0)
            assert run._next == run._base + after[0]
            assert len(run._after) == len(run._keys) <= timers_module._MOST_PACKED
            assert not run.half_used


class Model:
    """A queue as a plain dictionary: the due times of each page."""

    def __init__(self) -> None:
        self.due: dict[tuple[int, bytes], list[int]] = {}

    def add(self, segment: int, keys: list[bytes], due: np.ndarray) -> None:
        for key, time in zip(keys, due.tolist(), strict=True):
            if time < NEVER:
                self.due.setdefault((segment, key), []).append(time)

    def drain_due(self, close: int) -> dict[int, set[bytes]]:
        named: dict[int, set[bytes]] = {}
        for (segment, key), times in list(self.due.items()):
            if min(times) < close:
                named.setdefault(segment, set()).add(key)
                self.due[segment, key] = [time for time in times if time >= close]
                if not self.due[segment, key]:
                    del self.due[segment, key]
        return named

    def __len__(self) -> int:
        return sum(map(len, self.due.values()))


KEYS = [b"", b"\0", b"\0\0", b"a", b"a\0", b"long" * 100, *(b"%d" % n for n in range(200))]


@pytest.mark.parametrize("seed", range(20))
def test_packed_runs_are_a_dictionary(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Packing, cutting, opening and merging of many runs change nothing, with ties, re-entries and entries due never."""
    monkeypatch.setattr(timers_module, "_LONG", 16)
    monkeypatch.setattr(timers_module, "_MOST_PACKED", 32)
    rng = np.random.default_rng(seed)
    queue, model, now = TimerQueue(), Model(), -1_000
    spread = int(rng.choice([3, 300, 70_000, 2**40]))
    packed = 0
    for _ in range(300):
        size = int(rng.choice([0, 1, 5, 40, 150]))
        keys = [KEYS[n] for n in rng.choice(len(KEYS), size, replace=False).tolist()]
        due = now + rng.integers(-spread // 10, spread, size)
        due[rng.random(size) < 0.1] = NEVER
        segment = int(rng.integers(-1, 2))
        queue.add(segment, keys, due)
        model.add(segment, keys, due)
        packed = max(packed, sum(len(entries._packed) for entries in queue._segments.values()))
        if rng.random() < 0.5:
            now += int(rng.integers(0, max(2, spread // 8)))
            found = queue.drain_due(now)
            assert model.drain_due(now) == {number: set(names) for number, names in found.items()}
            assert all(len(names) == len(set(names)) for names in found.values())
        assert len(model) == len(queue)
        for segment in range(-1, 2):
            left = [min(times) for (of, _), times in model.due.items() if of == segment]
            assert min(left, default=None) == queue.first_due(segment)
        check(queue)
    assert 5 < packed
    found = queue.drain_due(NEVER)
    assert model.drain_due(NEVER) == {number: set(names) for number, names in found.items()}
    assert (0, {}) == (len(queue), queue._segments)


@pytest.mark.slow
def test_long_runs() -> None:
    """Of some hundred thousand entries of a few large additions each is named at its time, whatever the close times."""
    rng = np.random.default_rng(1)
    queue, model = TimerQueue(), Model()
    for first in range(0, 300_000, 150_000):
        keys = [b"%d" % n for n in range(first, first + 150_000)]
        due = rng.integers(0, 1_000, len(keys))
        queue.add(0, keys, due)
        model.add(0, keys, due)
    for close in (0, 1, 300, 301, 900, 1_000):
        assert model.drain_due(close).get(0, set()) == set(queue.drain_due(close).get(0, []))
        assert len(model) == len(queue)
        check(queue)


@pytest.mark.slow
def test_many_entries_are_small() -> None:
    """A million entries cost little more than their keys, and spent ones give their room back."""
    queue, rng = TimerQueue(), np.random.default_rng(1)
    tracemalloc.start()
    arrow = pa.total_allocated_bytes()
    for first in range(0, 1_000_000, 20_000):
        keys = [b"%08d" % n for n in range(first, first + 20_000)]
        queue.add(0, keys, rng.integers(0, 1_000_000, len(keys)))

    def held() -> int:
        return tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - arrow

    del keys
    full = held()
    queue.drain_due(900_000)
    rest = held()
    tracemalloc.stop()
    assert 35_000_000 > full
    assert 9_000_000 > rest
