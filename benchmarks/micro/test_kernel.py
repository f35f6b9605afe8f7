"""What do finding the windows of a million panes, and combining the panes of each window, cost?"""

import numpy as np
import pytest

from benchmarks.data import PER_WINDOW
from benchmarks.measure import Measure
from operators.columns.ranges import State, combine_ranges, overlap_ranges
from operators.kinds.sliding import sliding_windows

PANES, KEYS = 1_000_000, 100
SECTION = "kernel"


def plus(a: State, b: State) -> State:
    return (a[0] + b[0],)


def larger(a: State, b: State) -> State:
    return (np.maximum(a[0], b[0]),)


def ranges(length: int) -> tuple[np.ndarray, np.ndarray]:
    """The ranges of `length` panes that end at each pane."""
    hi = np.arange(1, PANES + 1)
    return np.maximum(hi - length, 0), hi


@pytest.mark.parametrize("per_window", PER_WINDOW)
def test_windows(measure: Measure, per_window: int) -> None:
    key = np.repeat(np.arange(KEYS), PANES // KEYS)
    time = np.tile(np.arange(PANES // KEYS) * 100, KEYS)
    every = np.ones(PANES, bool)
    windows = measure(
        lambda: sliding_windows(key, time, 100 * per_window - 1, every, every),
        section=SECTION,
        system="find windows",
        rows=PANES,
        per_window=per_window,
    )
    assert int((windows.hi - windows.lo).max()) == per_window


@pytest.mark.parametrize("per_window", PER_WINDOW)
def test_combine(measure: Measure, per_window: int) -> None:
    """Sums, without deducting."""
    lo, hi = ranges(per_window)
    values = np.arange(PANES)
    (sums,) = measure(
        lambda: combine_ranges(plus, (values,), lo, hi),
        section=SECTION,
        system="combine by doubling",
        rows=PANES,
        per_window=per_window,
    )
    running = np.concatenate([[0], np.cumsum(values)])
    assert (running[hi] - running[lo] == sums).all()


@pytest.mark.parametrize("per_window", PER_WINDOW)
def test_overlap(measure: Measure, per_window: int) -> None:
    lo, hi = ranges(per_window)
    values = np.random.default_rng(0).permutation(PANES)
    (largest,) = measure(
        lambda: overlap_ranges(larger, (values,), lo, hi),
        section=SECTION,
        system="overlap two blocks",
        rows=PANES,
        per_window=per_window,
    )
    assert values[lo[-1] : hi[-1]].max() == largest[-1]
