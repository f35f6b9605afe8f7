"""Searches in sorted panes, and where sessions begin."""

from bisect import bisect_right

import numpy as np

from operators.columns.ranges import Ints
from state_backends.store.ordering import row_order


def distances(key: Ints, time: Ints, reach: int) -> Ints:
    """Return one ascending coordinate per pane in which distances of up to `reach` ticks within a key are exact.

    Longer distances, and the distance to the next key, count as `reach + 1`. So one column can be searched for all keys, and
    times that are far apart do not overflow:

        key and time    a 0    a 3    a 1,000    b 2
        reach 10          0      3         14     25

    Args:
        key: shape (n,), int64, ascending.
        time: shape (n,), int64, ascending within a key.
        reach: the longest distance that is searched for, in ticks.

    Raises:
        OverflowError: n * reach is beyond 64 bits.
    """
    gap = np.empty(len(key), np.int64)
    if not len(key):
        return gap
    gap[0] = 0
    np.subtract(time[1:], time[:-1], out=gap[1:])
    gap[1:][key[1:] != key[:-1]] = reach + 1
    np.minimum(gap, reach + 1, out=gap)
    if len(key) * (reach + 1) >= 2**63 and float(gap.sum(dtype=np.float64)) >= 2.0**62:
        raise OverflowError(f"{len(key)} panes with windows of {reach} ticks: choose a coarser tick")
    return np.cumsum(gap)


def running_max(group: Ints, value: Ints) -> Ints:
    """Return the largest value so far in each group. Takes one sort unless the values ascend.

    Args:
        group: shape (n,), int64, ascending.
        value: shape (n,), int64.
    """
    order = row_order(group, value)
    if order is None:
        return value
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))  # all ranks of a group are above those of earlier groups
    return value[order[np.maximum.accumulate(rank)]]


def session_starts(key: Ints, start: Ints, waits: Ints, longest: int | None = None) -> Ints:
    """Return where each session begins: at a row that starts after the end of every earlier row of its key.

    Args:
        key, start: shape (n,), int64: rows sorted by key and start.
        waits: shape (n,), int64: the tick until which each row's session waits for the next row; not before its start.
        longest: if given, a row that starts more than this many ticks after the first row of its session begins a session.

    Cost: O(n) array operations; with `longest`, also a step in Python for each session that is cut.
    """
    begins = np.ones(len(key), bool)
    begins[1:] = (key[1:] != key[:-1]) | (start[1:] > running_max(key, waits)[:-1])
    first = np.flatnonzero(begins)
    if longest is None or not len(first):
        return first
    limit = np.append(first[1:], len(key))
    long = start[limit - 1] - start[first] > longest
    if not long.any():
        return first
    ascending = bool((begins[1:] | (waits[1:] >= waits[:-1])).all())
    cuts, starts = [], start.tolist()

    def next_cut(row: int, stop: int) -> int:
        cut = bisect_right(starts, starts[row] + longest, row, stop)
        return cut if ascending else row + _first_gap(start[row:cut], waits[row:cut])

    for cut, stop in zip(first[long].tolist(), limit[long].tolist(), strict=True):
        while (cut := next_cut(cut, stop)) < stop:
            cuts.append(cut)
    return np.sort(np.concatenate([first, np.array(cuts, np.int64)]))


def _first_gap(start: Ints, waits: Ints) -> int:
    """The first row that starts after the ends of all rows before it, or the number of rows."""
    gap = start[1:] > np.maximum.accumulate(waits[:-1])
    return int(gap.argmax()) + 1 if gap.any() else len(start)
