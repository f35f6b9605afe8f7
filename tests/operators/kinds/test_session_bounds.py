"""Where sessions begin, on columns, against a walk through the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.kinds.bounds import running_max, session_starts
from tests.effort import examples

Row = tuple[int, int, int]
"""Key, time, and the ticks for which the row waits."""

NEAR = st.integers(-20, 40)
WAITS = st.sampled_from([0, 1, 2, 3, 10]) | st.integers(0, 60)
ROWS = st.lists(st.tuples(st.integers(0, 2), NEAR, WAITS), max_size=40).map(sorted)
FAR = st.lists(
    st.tuples(st.integers(0, 2), NEAR | st.integers(-(2**60), 2**60), WAITS | st.integers(0, 2**59)),
    max_size=20,
).map(sorted)
LONGEST = st.none() | st.integers(0, 50) | st.sampled_from([2**58, 2**59 - 1])


def columns(rows: list[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, times, and the ticks up to which rows wait, as arrays."""
    key, time, waits = np.array(rows, np.int64).reshape(-1, 3).T
    return key, time, time + waits


def walk(rows: list[Row], longest: int | None) -> list[int]:
    """Where sessions begin, found row by row."""
    starts: list[int] = []
    until = 0
    for number, (key, time, waits) in enumerate(rows):
        begins = not starts or rows[starts[-1]][0] != key or time > until
        if not begins and longest is not None:
            begins = time - rows[starts[-1]][1] > longest
        if begins:
            starts.append(number)
            until = time + waits
        until = max(until, time + waits)
    return starts


class TestSessionStarts:
    """Rows cut into sessions."""

    @pytest.mark.slow
    @examples(10)
    @given(ROWS, LONGEST)
    def test_sessions_are_those_of_a_walk(self, rows: list[Row], longest: int | None) -> None:
        """With ties, equal ends, and rows that wait for long before others that do not."""
        assert walk(rows, longest) == session_starts(*columns(rows), longest).tolist()

    @examples(3)
    @given(FAR, LONGEST)
    def test_times_far_apart_and_long_waits_are_no_special_case(
        self, rows: list[Row], longest: int | None
    ) -> None:
        """Times up to 2**60 ticks from zero, waits and lengths up to 2**59."""
        assert walk(rows, longest) == session_starts(*columns(rows), longest).tolist()

    @given(st.lists(st.tuples(st.integers(0, 2), NEAR), max_size=40).map(sorted), st.integers(0, 12), LONGEST)
    def test_rows_that_all_wait_equally_long(
        self, pairs: list[tuple[int, int]], gap: int, longest: int | None
    ) -> None:
        """As with a fixed gap."""
        rows = [(key, time, gap) for key, time in pairs]
        assert walk(rows, longest) == session_starts(*columns(rows), longest).tolist()

    @pytest.mark.parametrize(
        ("rows", "longest", "starts"),
        [
            ([], None, []),
            ([], 0, []),
            ([(0, 5, 0)], 0, [0]),
            ([(0, 0, 5), (0, 5, 5), (0, 11, 5)], None, [0, 2]),  # exactly the gap apart, and one tick more
            ([(0, 0, 100), (0, 1, 1), (0, 50, 1), (0, 100, 0)], None, [0]),  # the first row's wait bridges
            ([(0, 0, 100), (0, 1, 1), (0, 50, 1), (0, 51, 1)], 0, [0, 1, 2, 3]),
            ([(0, 0, 100), (0, 11, 1), (0, 20, 1), (0, 21, 1)], 10, [0, 1, 2]),  # the cut takes the wait away
            ([(0, 0, 9), (0, 0, 9), (0, 0, 1)], 0, [0]),  # ties are never cut
            ([(0, 0, 9), (1, 1, 9), (1, 2, 9)], None, [0, 1]),
        ],
    )
    def test_by_example(self, rows: list[Row], longest: int | None, starts: list[int]) -> None:
        """Edges, one by one."""
        assert starts == session_starts(*columns(rows), longest).tolist()

    def test_many_keys_with_a_great_length(self) -> None:
        """A length that would leave 64 bits if added up over keys is no matter."""
        key = np.repeat(np.arange(1_000), 2)
        time = np.tile(np.array([0, 2**59]), 1_000)
        assert list(range(2_000)) == session_starts(key, time, time + 2**59, 2**58).tolist()

    def test_arguments_are_left_alone(self) -> None:
        """Nothing is written to the columns."""
        given_columns = columns([(0, 0, 100), (0, 11, 1), (0, 20, 1), (1, 21, 1)])
        before = [column.copy() for column in given_columns]
        session_starts(*given_columns, 10)
        assert [column.tolist() for column in before] == [column.tolist() for column in given_columns]


class TestRunningMax:
    """The largest value so far in each group."""

    @given(
        st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5) | st.integers(-(2**61), 2**61)), max_size=40)
    )
    def test_is_that_of_a_loop(self, pairs: list[tuple[int, int]]) -> None:
        """Ties and groups of one among them."""
        pairs.sort(key=lambda pair: pair[0])
        expected: list[int] = []
        for number, (group, value) in enumerate(pairs):
            goes_on = number > 0 and pairs[number - 1][0] == group
            expected.append(max(expected[-1], value) if goes_on else value)
        group, value = np.array(pairs, np.int64).reshape(-1, 2).T
        assert expected == running_max(group, value).tolist()

    def test_ascending_values_are_returned_as_they_are(self) -> None:
        """Without a copy."""
        value = np.array([1, 2, 2, 0, 5])
        assert running_max(np.array([0, 0, 0, 1, 1]), value) is value
