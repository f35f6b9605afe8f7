"""Orders of rows are the stable ones that a plain sort gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_backends.store.ordering import Runs, append_places, long_runs, row_order, take_runs
from tests.effort import examples

Rows = list[tuple[int, int]]
TIMES = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**17), 2**17),
    st.integers(-(2**40), 2**40),
    st.integers(-(2**60), 2**60),
)
KEYS = st.integers(0, 3) | st.integers(0, 2**18)


def columns(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Keys and times as arrays."""
    return np.array([key for key, _ in rows], np.int64), np.array([time for _, time in rows], np.int64)


def stable(rows: Rows) -> list[int]:
    """The stable order of the rows."""
    return sorted(range(len(rows)), key=lambda n: rows[n])


def assert_ordered(rows: Rows) -> None:
    """Assert that the order of the rows is the stable one."""
    order = row_order(*columns(rows))
    assert stable(rows) == (list(range(len(rows))) if order is None else order.tolist())


@pytest.mark.slow
@examples(3)
@given(st.lists(st.tuples(KEYS, TIMES), max_size=30))
def test_row_order_is_the_stable_order(rows: Rows) -> None:
    """Rows of any keys and times are put in the order of a stable sort by key, then time."""
    assert_ordered(rows)


@examples(2)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**63), 2**63 - 1)), max_size=8))
def test_row_order_of_any_int64(rows: Rows) -> None:
    """Times may be any 64-bit numbers."""
    assert_ordered(rows)


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_row_order_of_sorted_rows_is_none(count: int) -> None:
    """Rows that are in order already need none."""
    assert None is row_order(*columns([(n // 7, n % 7) for n in range(count)]))
    assert None is row_order(*columns([(3, 5)] * count))


@pytest.mark.parametrize("spread", [1, 1_000, 2**16, 2**20, 2**33, 2**50])
def test_row_order_of_many_rows(spread: int) -> None:
    """Twenty thousand rows with many ties keep their order among equals, whatever the times span."""
    rng = np.random.default_rng(spread)
    key, time = rng.integers(0, 300, 20_000), rng.integers(-20, 20, 20_000) * spread
    assert np.lexsort((time, key)).tolist() == row_order(key, time).tolist()


SORTED = st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=9).map(sorted)


def overlaps(parts: list[Rows]) -> bool:
    """Whether some key has a row that is older than one of its rows in an earlier part."""
    latest: dict[int, int] = {}
    for part in parts:
        if any(time < latest.get(key, time) for key, time in part):
            return True
        latest.update(dict(part))
    return False


@examples(3)
@given(st.lists(SORTED, min_size=1, max_size=4), st.lists(st.integers(0, 20), min_size=4, max_size=4))
def test_append_places_are_the_stable_order(parts: list[Rows], steps: list[int]) -> None:
    """Sorted sets that do not overlap are put together as a stable sort does; overlap is told by None."""
    parts = [[(key, time + shift) for key, time in part] for part, shift in zip(parts, steps, strict=False)]
    places = append_places([columns(part) for part in parts])
    if overlaps(parts):
        assert None is places
    else:
        assert places is not None
        joined = [row for part in parts for row in part]
        whole = np.empty(len(joined), np.int64)
        numbers = iter(np.split(np.arange(len(joined)), np.cumsum([len(part) for part in parts])[:-1]))
        for runs in places:
            runs.put([next(numbers)], [whole])
        assert whole.tolist() == stable(joined)


def test_append_places_of_few_rows_of_many_keys() -> None:
    """Where keys are numbered far beyond the rows, a sort is as quick."""
    far = [columns([(1_000_000, 1)]), columns([(1_000_000, 2)])]
    assert None is append_places(far)


@pytest.mark.parametrize("longest", [3, 1000])
def test_runs_of_rows(longest: int) -> None:
    """Runs are taken and put one row at a time where they are short, as slices where they are long, none of them lost."""
    rng = np.random.default_rng(longest)
    count = rng.integers(0, longest, 40)
    begin = np.cumsum(rng.integers(longest, 2 * longest, 40))
    numbers = [np.arange(int(begin[-1]) + longest), rng.random(int(begin[-1]) + longest)]
    rows = [n for a, b in zip(begin.tolist(), count.tolist(), strict=True) for n in range(a, a + b)]
    found = take_runs(numbers, begin, count)
    assert [column[rows].tolist() for column in numbers] == [column.tolist() for column in found]
    runs = long_runs(np.array(rows))
    assert (runs is None) == (longest < 10)
    if runs is not None:
        assert [column.tolist() for column in found] == [
            column.tolist() for column in take_runs(numbers, *runs)
        ]
    wholes = [np.zeros_like(column) for column in numbers]
    Runs(begin, count).put(found, wholes)
    expected = np.isin(np.arange(len(numbers[0])), rows)
    for column, whole in zip(numbers, wholes, strict=True):
        assert np.where(expected, column, 0).tolist() == whole.tolist()
