"""The most frequent categories of windows, against Python's sort."""

import random

import numpy as np
import pytest

from operators.aggregates.category_states import most_frequent


@pytest.mark.parametrize("highest", [1, 3, 1_000, 2**40, 2**61])
@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_the_most_frequent_come_first_and_ties_stay_in_order(highest: int, most: int) -> None:
    """Also of counts so high that window, count and place do not fit into one number; and of windows without categories."""
    chance = random.Random(highest)
    lengths = [chance.choice([0, 1, 2, 7, 40]) for _ in range(60)]
    window = np.repeat(np.arange(60), lengths)
    count = np.array([chance.randint(1, highest) for _ in window])
    wanted, begin = [], 0
    for length in lengths:
        rows = sorted(range(begin, begin + length), key=lambda row: (-count[row], row))
        wanted += rows[:most]
        begin += length
    rows, found = most_frequent(window, count, 60, most)
    assert wanted == rows.tolist()
    assert [min(length, most) for length in lengths] == found.tolist()


def test_no_windows_have_none() -> None:
    """Neither rows nor windows."""
    none = np.zeros(0, np.int64)
    assert [[], []] == [column.tolist() for column in most_frequent(none, none, 0, 5)]
