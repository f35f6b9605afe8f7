"""The calendar names exactly what is due, once."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from operators.kinds.calendar import NEVER, ClosingCalendar

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
    assert 15 > len(calendar._runs)
    for run in calendar._runs:
        assert np.all(np.diff(run.due) >= 0)
