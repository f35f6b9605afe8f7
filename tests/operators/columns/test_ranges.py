"""Windows as ranges of panes, and their combination, against what plain loops give."""

from collections.abc import Callable, Sequence
from functools import reduce as fold

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.columns.ranges import State, combine_ranges, overlap_ranges, run_starts
from operators.kinds.bounds import distances
from operators.kinds.kind import Windows
from operators.kinds.sliding import sliding_windows
from serializers.arrays import fill

Pane = tuple[int, int]
TIMES = st.integers(-20, 20) | st.integers(-(2**60), 2**60)
PANES = st.lists(st.tuples(st.integers(0, 3), TIMES), max_size=25).map(sorted)
DISTINCT = st.sets(st.tuples(st.integers(0, 2), TIMES), max_size=20).map(sorted)
Ranges = Callable[[Callable[[State, State], State], State, np.ndarray, np.ndarray], State]


def columns(rows: Sequence[Pane]) -> tuple[np.ndarray, np.ndarray]:
    """Keys and times as arrays."""
    return np.array([key for key, _ in rows], np.int64), np.array([time for _, time in rows], np.int64)


class TestDistances:
    """The one coordinate in which near panes of a key can be searched."""

    @given(PANES, st.integers(0, 30) | st.integers(0, 2**55))
    def test_near_is_exact_and_far_is_far(self, panes: list[Pane], reach: int) -> None:
        """Distances of up to `reach` within a key are exact; longer ones, and to other keys, are more."""
        place = distances(*columns(panes), reach).tolist()
        assert sorted(place) == place
        for i, (key, time) in enumerate(panes):
            for j in range(i, len(panes)):
                near = key == panes[j][0] and panes[j][1] - time <= reach
                if near:
                    assert panes[j][1] - time == place[j] - place[i]
                else:
                    assert reach < place[j] - place[i]

    def test_nothing(self) -> None:
        """No panes have no places."""
        assert [] == distances(*columns([]), 5).tolist()

    def test_many_far_panes_with_long_reach(self) -> None:
        """Panes whose places would leave 64 bits are an error with the way out, never a wrapped place."""
        panes = [(key, 0) for key in range(40)]
        with pytest.raises(
            OverflowError, match=f"40 panes with windows of {2**58} ticks: choose a coarser tick"
        ):
            distances(*columns(panes), 2**58)

    def test_many_near_panes_with_long_reach(self) -> None:
        """Panes close to each other are no problem for a long reach, however many they are."""
        place = distances(*columns([(0, 5 * n) for n in range(1000)]), 2**58)
        assert list(range(0, 5000, 5)) == place.tolist()


class TestRunStarts:
    """Where runs of equal key and time begin."""

    @given(PANES)
    def test_runs(self, panes: list[Pane]) -> None:
        """A run begins at the first row and wherever the key or the time is another than before."""
        expected = [n for n, pane in enumerate(panes) if n == 0 or pane != panes[n - 1]]
        assert expected == run_starts(*columns(panes)).tolist()


class TestSlidingWindows:
    """Left and right windows of panes. (KIP-450)"""

    @given(DISTINCT, st.integers(1, 25) | st.integers(1, 2**50), st.data())
    def test_windows(self, panes: list[Pane], size: int, data: st.DataObject) -> None:
        """Each requested left window, and each right one with records and other bounds, contains its panes."""
        mask = st.lists(st.booleans(), min_size=len(panes), max_size=len(panes))
        left, right = data.draw(mask), data.draw(mask)
        windows = sliding_windows(*columns(panes), size, np.array(left, bool), np.array(right, bool))
        expected = []
        for n, (key, time) in enumerate(panes):
            if left[n]:
                expected.append((n, time, False, covered(panes, key, time - size, time)))
        for n, (key, time) in enumerate(panes):
            inside = covered(panes, key, time + 1, time + 1 + size)
            if right[n] and inside and (key, time + 1 + size) not in panes:
                expected.append((n, time + 1 + size, True, inside))
        found = zip(
            windows.pane.tolist(),
            windows.end.tolist(),
            is_right(panes, windows),
            ranges(windows),
            strict=True,
        )
        assert expected == list(found)

    def test_take(self) -> None:
        """Windows under a mask keep all that they are."""
        panes = [(0, 0), (0, 3), (1, 3)]
        every = np.ones(3, bool)
        windows = sliding_windows(*columns(panes), 5, every, every)
        taken = windows.take(np.array(is_right(panes, windows)))
        assert ([1], [6], [[1]], [0]) == (
            taken.start.tolist(), taken.end.tolist(), ranges(taken), taken.pane.tolist()
        )  # fmt: skip

    def test_kip_example(self) -> None:
        """Records at 1, 3 and 8 with size 5 make the windows [-4,1], [-2,3], [3,8], [2,7] and [4,9]."""
        every = np.ones(3, bool)
        windows = sliding_windows(*columns([(0, 1), (0, 3), (0, 8)]), 5, every, every)
        found = zip(windows.end.tolist(), ranges(windows), strict=True)
        assert [(1, [0]), (3, [0, 1]), (8, [1, 2]), (7, [1]), (9, [2])] == list(found)


def covered(panes: Sequence[Pane], key: int, start: int, end: int) -> list[int]:
    """The panes of the key from start to end."""
    return [n for n, (k, time) in enumerate(panes) if k == key and start <= time <= end]


def is_right(panes: Sequence[Pane], windows: Windows) -> list[bool]:
    """Whether each window is the right one of its pane, and begins after it."""
    return [
        start > panes[n][1] for n, start in zip(windows.pane.tolist(), windows.start.tolist(), strict=True)
    ]


def ranges(windows) -> list[list[int]]:
    """The panes of each window."""
    return [list(range(lo, hi)) for lo, hi in zip(windows.lo.tolist(), windows.hi.tolist(), strict=True)]


@st.composite
def rows_and_ranges(draw: st.DrawFn, least: int = 1) -> tuple[int, list[tuple[int, int]]]:
    """A number of rows and some ranges over them, none empty."""
    rows = draw(st.integers(least, 70))
    lo = st.integers(0, rows - 1)
    return rows, draw(
        st.lists(lo.flatmap(lambda a: st.tuples(st.just(a), st.integers(a + 1, rows))), max_size=20)
    )


def arrays(pairs: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Ranges as two arrays."""
    return np.array([lo for lo, _ in pairs], np.int64), np.array([hi for _, hi in pairs], np.int64)


def joined(left: State, right: State) -> State:
    """Lists put one after another: associative, not commutative."""
    return (np.add(left[0], right[0]),)


class TestCombineRanges:
    """Range-combine by doubling."""

    @given(rows_and_ranges())
    def test_order_is_kept(self, case: tuple[int, list[tuple[int, int]]]) -> None:
        """Every row of a range is combined once, in order."""
        rows, pairs = case
        (found,) = combine_ranges(joined, (fill([[n] for n in range(rows)]),), *arrays(pairs))
        assert [list(range(lo, hi)) for lo, hi in pairs] == found.tolist()

    @given(rows_and_ranges(), st.data())
    def test_columns_are_combined_together(
        self, case: tuple[int, list[tuple[int, int]]], data: st.DataObject
    ) -> None:
        """A state of several columns is combined as one: affine maps, whose order matters."""
        rows, pairs = case
        number = st.lists(st.integers(-3, 3), min_size=rows, max_size=rows)
        a, b = np.array(data.draw(number), np.int64), np.array(data.draw(number), np.int64)

        def then(left: State, right: State) -> State:
            return left[0] * right[0], left[1] * right[0] + right[1]  # type: ignore[operator]

        expected = [fold(then, [(a[n], b[n]) for n in range(lo, hi)]) for lo, hi in pairs]
        found = combine_ranges(then, (a, b), *arrays(pairs))
        assert expected == list(zip(*(column.tolist() for column in found), strict=True))

    @pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9, 63, 64, 65, 1000])
    def test_every_length(self, length: int) -> None:
        """Ranges of one length at every place are right, on the edges too."""
        values = np.arange(1100)
        lo = np.arange(1100 - length + 1)
        (found,) = combine_ranges(lambda a, b: (a[0] + b[0],), (values,), lo, lo + length)
        assert [sum(range(a, a + length)) for a in lo.tolist()] == found.tolist()

    def test_dtypes_are_kept(self) -> None:
        """Results have the dtypes of the state, without any range too."""
        state = (np.arange(3), np.arange(3.0), fill([[1], [2], [3]]))
        for pairs in ([], [(0, 3)]):
            found = combine_ranges(
                lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)), state, *arrays(pairs)
            )
            assert [column.dtype for column in state] == [column.dtype for column in found]
            assert [len(pairs)] * 3 == [*map(len, found)]

    def test_nothing_at_all(self) -> None:
        """No rows and no ranges are an empty result."""
        (found,) = combine_ranges(joined, (fill([]),), *arrays([]))
        assert [] == found.tolist()


class TestOverlapRanges:
    """Range-combine by two overlapping blocks."""

    @given(rows_and_ranges(), st.data(), st.sampled_from([np.minimum, np.maximum, np.fmin]))
    def test_idempotent_combine(
        self, case: tuple[int, list[tuple[int, int]]], data: st.DataObject, ufunc: np.ufunc
    ) -> None:
        """The smallest or largest of each range is that of its rows."""
        rows, pairs = case
        values = data.draw(st.lists(st.integers(-9, 9), min_size=rows, max_size=rows))
        plain = {np.minimum: min, np.maximum: max, np.fmin: min}[ufunc]
        state = (np.array(values, np.float64 if ufunc is np.fmin else np.int64),)
        (found,) = overlap_ranges(lambda a, b: (ufunc(a[0], b[0]),), state, *arrays(pairs))
        assert [plain(values[lo:hi]) for lo, hi in pairs] == found.tolist()

    @pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9, 63, 64, 65, 1000])
    def test_every_length(self, length: int) -> None:
        """Ranges of one length at every place are right, on the edges too."""
        values = np.arange(1100) * 7919 % 1009
        lo = np.arange(1100 - length + 1)
        (found,) = overlap_ranges(lambda a, b: (np.maximum(a[0], b[0]),), (values,), lo, lo + length)
        assert [max(values[a : a + length]) for a in lo.tolist()] == found.tolist()

    def test_nothing_at_all(self) -> None:
        """No ranges are an empty result of the state's dtype."""
        (found,) = overlap_ranges(joined, (np.arange(3),), *arrays([]))
        assert (np.int64, 0) == (found.dtype, len(found))


@pytest.mark.parametrize("ranges_of", [combine_ranges, overlap_ranges])
def test_state_is_left_alone(ranges_of: Ranges) -> None:
    """Neither the state nor the ranges are changed."""
    state, (lo, hi) = (np.arange(20) * 7 % 20,), arrays([(0, 20), (3, 9), (19, 20)])
    before = [column.copy() for column in (*state, lo, hi)]
    ranges_of(lambda a, b: (np.maximum(a[0], b[0]),), state, lo, hi)
    assert [column.tolist() for column in before] == [column.tolist() for column in (*state, lo, hi)]
