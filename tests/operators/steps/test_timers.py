"""The calendar names exactly what is due, once."""

import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.steps import timers as calendar_module
from operators.steps.timers import NEVER, ClosingCalendar

Entry = tuple[int, bytes, int]
"""Segment, key and due time."""


def add(calendar: ClosingCalendar, segment: int, *pages: tuple[bytes, int]) -> None:
    """Enter pages of one segment."""
    calendar.add(segment, [key for key, _ in pages], np.array([due for _, due in pages], np.int64))


def taken(calendar: ClosingCalendar, close: int) -> dict[int, list[bytes]]:
    """What is due, with keys in order."""
    return {segment: sorted(keys) for segment, keys in calendar.take_due(close).items()}


def test_new_calendar() -> None:
    """A calendar without entries names nothing."""
    calendar = ClosingCalendar()
    assert (0, {}) == (len(calendar), calendar.take_due(NEVER))


def test_due_is_before_the_close_time() -> None:
    """A window that ends at the close time is not due; one that ends a tick before is."""
    calendar = ClosingCalendar()
    add(calendar, 3, (b"a", 9), (b"b", 10), (b"c", 11))
    assert {3: [b"a"]} == taken(calendar, 10)
    assert {3: [b"b"]} == taken(calendar, 11)
    assert {} == taken(calendar, 11)
    assert {3: [b"c"]} == taken(calendar, 99)
    assert 0 == len(calendar)


def test_by_segment() -> None:
    """What is due comes by segment, the same key in each that names it."""
    calendar = ClosingCalendar()
    add(calendar, -1, (b"a", -5), (b"b", -6))
    add(calendar, 0, (b"a", 3))
    add(calendar, 9, (b"a", 95))
    assert {-1: [b"a", b"b"], 0: [b"a"]} == taken(calendar, 50)
    assert 1 == len(calendar)


def test_page_entered_twice() -> None:
    """A page that is due at two times is named once in one visit, and at each time in two."""
    calendar = ClosingCalendar()
    add(calendar, 0, (b"a", 1), (b"a", 2))
    assert {0: [b"a"]} == taken(calendar, 5)
    add(calendar, 0, (b"a", 6))
    add(calendar, 0, (b"a", 7))
    assert [{0: [b"a"]}, {0: [b"a"]}, {}] == [taken(calendar, close) for close in (7, 8, 9)]


def test_never_is_passed_over() -> None:
    """Pages that are due never are not entered."""
    calendar = ClosingCalendar()
    add(calendar, 0, (b"a", NEVER), (b"b", 5), (b"c", NEVER))
    assert 1 == len(calendar)
    assert {0: [b"b"]} == taken(calendar, NEVER)


def test_adding_nothing() -> None:
    """No pages, or only such as are never due, change nothing."""
    calendar = ClosingCalendar()
    add(calendar, 0)
    add(calendar, 0, (b"a", NEVER))
    assert 0 == len(calendar)


def test_clear() -> None:
    """A cleared calendar names nothing, and can be filled again."""
    calendar = ClosingCalendar()
    add(calendar, 0, (b"a", 5))
    calendar.clear()
    assert (0, {}) == (len(calendar), calendar.take_due(NEVER))
    add(calendar, 1, (b"b", 5))
    assert {1: [b"b"]} == taken(calendar, 6)


def test_earlier_close_time() -> None:
    """A close time before the last one names nothing again."""
    calendar = ClosingCalendar()
    add(calendar, 0, (b"a", 5), (b"b", 20))
    assert {0: [b"a"]} == taken(calendar, 10)
    assert {} == taken(calendar, 3)
    assert {0: [b"b"]} == taken(calendar, 30)


def test_arguments_are_left_alone() -> None:
    """The due times given are the same afterwards, and later changes to them are not seen."""
    calendar, due = ClosingCalendar(), np.array([7, 3, 5])
    calendar.add(0, [b"a", b"b", b"c"], due)
    assert [7, 3, 5] == due.tolist()
    due[:] = 0
    assert {0: [b"b", b"c"]} == taken(calendar, 7)


PAGES = st.lists(st.tuples(st.binary(max_size=1), st.integers(-20, 20) | st.just(NEVER)), max_size=6)
STEPS = st.lists(st.tuples(st.integers(-2, 2), PAGES) | st.integers(-25, 25), max_size=30)


@given(STEPS)
def test_calendar_is_a_list_of_entries(steps: list[tuple[int, list[tuple[bytes, int]]] | int]) -> None:
    """Whatever is entered and taken in whatever order, a visit names exactly the entries before it."""
    calendar = ClosingCalendar()
    entries: list[Entry] = []
    for step in steps:
        if isinstance(step, int):
            expected: dict[int, set[bytes]] = {}
            for segment, key, due in entries:
                if due < step:
                    expected.setdefault(segment, set()).add(key)
            entries = [entry for entry in entries if entry[2] >= step]
            found = calendar.take_due(step)
            assert expected == {segment: set(keys) for segment, keys in found.items()}
            assert {segment: len(keys) for segment, keys in expected.items()} == {
                s: len(k) for s, k in found.items()
            }
        else:
            segment, pages = step
            add(calendar, segment, *pages)
            entries += [(segment, key, due) for key, due in pages if due < NEVER]
        assert len(entries) == len(calendar)


def test_many_adds() -> None:
    """Of ten thousand additions none was named twice, none too early, and none was forgotten."""
    calendar, rng = ClosingCalendar(), random.Random(1)
    due_of = {b"%d" % n: rng.randrange(10_000, 20_000) for n in range(10_000)}
    seen: list[tuple[bytes, int]] = []
    for step, (key, due) in enumerate(due_of.items()):
        add(calendar, 0, (key, due))
        seen += [(key, 2 * step) for key in calendar.take_due(2 * step).get(0, [])]
    seen += [(key, 20_000) for key in calendar.take_due(20_000).get(0, [])]
    assert sorted(due_of) == sorted(key for key, _ in seen)
    assert all(due_of[key] < close for key, close in seen)


def test_runs_stay_few() -> None:
    """Entries are kept in few sorted runs, so that a visit stays cheap however many additions there were."""
    calendar = ClosingCalendar()
    for n in range(5_000):
        add(calendar, 0, (b"%d" % n, n * 7919 % 5003))
    check(calendar)
    assert 8 * 5 > len(calendar._segments[0]._runs)


def check(calendar: ClosingCalendar) -> None:
    """Short runs are short, few and in order; long ones are packed, in order, and more than half of each is left."""
    for entries in calendar._segments.values():
        levels = {run.level for run in entries._runs}
        assert all(0 < len(run) < calendar_module._LONG for run in entries._runs)
        assert all(np.all(np.diff(run.due[run.used :]) >= 0) for run in entries._runs)
        assert 8 * (1 + max(levels, default=0)) > len(entries._runs)
        for run in entries._packed:
            after = run._after[run._used :].astype(np.int64)
            assert np.all(np.diff(after) >= 0)
            assert run._next == run._base + after[0]
            assert len(run._after) == len(run._keys) <= calendar_module._MOST_PACKED
            assert not run.half_spent


class Model:
    """A calendar as a plain dictionary: the due times of each page."""

    def __init__(self) -> None:
        self.due: dict[tuple[int, bytes], list[int]] = {}

    def add(self, segment: int, keys: list[bytes], due: np.ndarray) -> None:
        for key, time in zip(keys, due.tolist(), strict=True):
            if time < NEVER:
                self.due.setdefault((segment, key), []).append(time)

    def take_due(self, close: int) -> dict[int, set[bytes]]:
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
    monkeypatch.setattr(calendar_module, "_LONG", 16)
    monkeypatch.setattr(calendar_module, "_MOST_PACKED", 32)
    rng = np.random.default_rng(seed)
    calendar, model, now = ClosingCalendar(), Model(), -1_000
    spread = int(rng.choice([3, 300, 70_000, 2**40]))
    packed = 0
    for _ in range(300):
        size = int(rng.choice([0, 1, 5, 40, 150]))
        keys = [KEYS[n] for n in rng.choice(len(KEYS), size, replace=False).tolist()]
        due = now + rng.integers(-spread // 10, spread, size)
        due[rng.random(size) < 0.1] = NEVER
        segment = int(rng.integers(-1, 2))
        calendar.add(segment, keys, due)
        model.add(segment, keys, due)
        packed = max(packed, sum(len(entries._packed) for entries in calendar._segments.values()))
        if rng.random() < 0.5:
            now += int(rng.integers(0, max(2, spread // 8)))
            found = calendar.take_due(now)
            assert model.take_due(now) == {number: set(names) for number, names in found.items()}
            assert all(len(names) == len(set(names)) for names in found.values())
        assert len(model) == len(calendar)
        check(calendar)
    assert 5 < packed
    found = calendar.take_due(NEVER)
    assert model.take_due(NEVER) == {number: set(names) for number, names in found.items()}
    assert (0, {}) == (len(calendar), calendar._segments)


def test_long_runs() -> None:
    """Of some hundred thousand entries of a few large additions each is named at its time, whatever the close times."""
    rng = np.random.default_rng(1)
    calendar, model = ClosingCalendar(), Model()
    for first in range(0, 300_000, 150_000):
        keys = [b"%d" % n for n in range(first, first + 150_000)]
        due = rng.integers(0, 1_000, len(keys))
        calendar.add(0, keys, due)
        model.add(0, keys, due)
    for close in (0, 1, 300, 301, 900, 1_000):
        assert model.take_due(close).get(0, set()) == set(calendar.take_due(close).get(0, []))
        assert len(model) == len(calendar)
        check(calendar)


def test_many_entries_are_small() -> None:
    """A million entries cost little more than their keys, and spent ones give their room back."""
    calendar, rng = ClosingCalendar(), np.random.default_rng(1)
    tracemalloc.start()
    arrow = pa.total_allocated_bytes()
    for first in range(0, 1_000_000, 20_000):
        keys = [b"%08d" % n for n in range(first, first + 20_000)]
        calendar.add(0, keys, rng.integers(0, 1_000_000, len(keys)))

    def held() -> int:
        return tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - arrow

    del keys
    full = held()
    calendar.take_due(900_000)
    rest = held()
    tracemalloc.stop()
    assert 35_000_000 > full
    assert 9_000_000 > rest
