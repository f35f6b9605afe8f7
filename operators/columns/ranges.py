"""Windows over sorted panes, on whole columns: which panes a window covers, and their combination.

Panes are sorted by key number and time. A window is a range [lo, hi) of them. Nothing here touches stores or Spark.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from serializers.arrays import rows_between
from state_backends.store.ordering import row_order

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
State = tuple[npt.NDArray[Any], ...]
Combine = Callable[[State, State], State]


def distances(key: Ints, time: Ints, reach: int) -> Ints:
    """Return one ascending coordinate per pane in which distances of up to `reach` ticks within a key are exact.

    Gaps longer than `reach`, and steps to another key, are cut to `reach + 1`: so far-apart times and many keys share
    one column that can be searched, without overflow and without a loop over the empty time between.

    Args:
        key: shape (n,), int64, ascending.
        time: shape (n,), int64, ascending within a key.
        reach: the longest distance that will be asked for, in ticks.

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


def run_starts(key: Ints, time: Ints) -> Ints:
    """Return where each run of equal (key, time) begins, in sorted rows."""
    if not len(key):
        return np.empty(0, np.int64)
    change = np.empty(len(key), bool)
    change[0] = True
    np.not_equal(key[1:], key[:-1], out=change[1:])
    change[1:] |= time[1:] != time[:-1]
    return np.flatnonzero(change)


def running_max(group: Ints, value: Ints) -> Ints:
    """Return the largest value so far in each group. One sort, if the values do not ascend already.

    Args:
        group: shape (n,), int64, ascending.
        value: shape (n,), int64.
    """
    order = row_order(group, value)
    if order is None:
        return value
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))  # every rank of a group is above all those of the groups before
    return value[order[np.maximum.accumulate(rank)]]


def session_starts(key: Ints, start: Ints, end: Ints, longest: int | None = None) -> Ints:
    """Return where each session begins: a row begins one if it starts after every earlier row's end.

    Args:
        key, start: shape (n,), int64: rows sorted by key and start.
        end: shape (n,), int64: the tick up to which each row's session waits for the next one, not before its start.
        longest: if given, a row that starts more than this many ticks after its session's first begins the next session.

    Cost: O(n) array work; with `longest` a step in Python for every session that had to be cut.
    """
    begins = np.ones(len(key), bool)
    begins[1:] = (key[1:] != key[:-1]) | (start[1:] > running_max(key, end)[:-1])
    first = np.flatnonzero(begins)
    if longest is None or not len(first):
        return first
    limit = np.append(first[1:], len(key))
    long = start[limit - 1] - start[first] > longest
    if not long.any():
        return first
    ascending = bool((begins[1:] | (end[1:] >= end[:-1])).all())
    cuts, starts = [], start.tolist()

    def next_cut(row: int, stop: int) -> int:
        cut = bisect_right(starts, starts[row] + longest, row, stop)
        return cut if ascending else row + _first_gap(start[row:cut], end[row:cut])

    for cut, stop in zip(first[long].tolist(), limit[long].tolist(), strict=True):
        while (cut := next_cut(cut, stop)) < stop:
            cuts.append(cut)
    return np.sort(np.concatenate([first, np.array(cuts, np.int64)]))


def _first_gap(start: Ints, end: Ints) -> int:
    """Where the first row is that starts after the ends of all rows before it, or the number of rows."""
    gap = start[1:] > np.maximum.accumulate(end[:-1])
    return int(gap.argmax()) + 1 if gap.any() else len(start)


def spread(lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """Return every row of the ranges [lo, hi): the number of its range, and the row."""
    length = hi - lo
    return np.repeat(np.arange(len(lo)), length), rows_between(lo, length)


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows as ranges of panes.

    Attributes:
        lo, hi: shape (n,), int64: the panes [lo, hi) that each window covers.
        pane: shape (n,), int64: the pane that defines the window.
        end: shape (n,), int64: last tick of the window.
        right: shape (n,), bool: whether it is the right window of its pane.
    """

    lo: Ints
    hi: Ints
    pane: Ints
    end: Ints
    right: npt.NDArray[np.bool_]

    def take(self, rows: npt.NDArray[np.bool_]) -> "Windows":
        """Return the windows under the mask."""
        return Windows(self.lo[rows], self.hi[rows], self.pane[rows], self.end[rows], self.right[rows])


def sliding_windows(
    key: Ints, time: Ints, size: int, left: npt.NDArray[np.bool_], right: npt.NDArray[np.bool_]
) -> Windows:
    """Return the left windows [t - size, t] and the non-empty right windows [t + 1, t + 1 + size] of some panes.

    A right window with the bounds of some pane's left window is left out: it is the same window. (KIP-450)

    Args:
        key, time: the panes, sorted, one per distinct (key, time).
        size: window size in ticks.
        left, right: masks of the panes whose left and right windows are wanted.

    Cost: two binary searches over sorted queries.
    """
    place = distances(key, time, size + 1)
    a, b = np.flatnonzero(left), np.flatnonzero(right)
    lo = np.searchsorted(place, place[a] - size, "left")
    beyond = place[b] + (size + 1)
    hi = np.searchsorted(place, beyond, "right")
    wanted = np.flatnonzero((hi > b + 1) & (place[hi - 1] != beyond))
    b, hi = b[wanted], hi[wanted]
    return Windows(
        np.concatenate([lo, b + 1]),
        np.concatenate([a + 1, hi]),
        np.concatenate([a, b]),
        np.concatenate([time[a], time[b] + (size + 1)]),
        np.repeat([False, True], [len(a), len(b)]),
    )


def combine_ranges(combine: Combine, state: State, lo: Ints, hi: Ints) -> State:
    """Return each range's combination by doubling, in order, without subtraction.

    Level j holds the combination of 2**j neighbours; a range adds the levels of its length's binary digits from left to
    right. O(log(longest)) array passes for any associative `combine`. (Range queries by doubling; DESIGN.md section 7)

    Args:
        combine: associative, on columns.
        state: the panes' states, columns of length n.
        lo, hi: shape (m,), int64: ranges [lo, hi), none empty.
    """
    length, position = hi - lo, lo.copy()
    result = tuple(np.empty(len(lo), column.dtype) for column in state)
    level, width = state, 1
    while True:
        chosen = (length & width) != 0
        begun = (length & (width - 1)) != 0
        first, later = np.flatnonzero(chosen & ~begun), np.flatnonzero(chosen & begun)
        _assign(result, first, _rows(level, position[first]))
        if len(later):
            _assign(result, later, combine(_rows(result, later), _rows(level, position[later])))
        position[chosen] += width
        if not len(length) or width * 2 > int(length.max()):
            return result
        level, width = _doubled(combine, level, width), width * 2


def overlap_ranges(combine: Combine, state: State, lo: Ints, hi: Ints) -> State:
    """Return each range's combination for an idempotent `combine` (min, max): two overlapping blocks of 2**j.

    Arguments as `combine_ranges`. O(log(longest)) array passes, each range is touched once. (Sparse table)
    """
    result = tuple(np.empty(len(lo), column.dtype) for column in state)
    if not len(lo):
        return result
    power = _powers(hi - lo)
    level, last = state, int(power.max())
    for exponent in range(last + 1):
        rows, width = np.flatnonzero(power == exponent), 1 << exponent
        if len(rows) == len(lo):
            return combine(_rows(level, lo), _rows(level, hi - width))
        if len(rows):
            _assign(result, rows, combine(_rows(level, lo[rows]), _rows(level, hi[rows] - width)))
        if exponent < last:
            level = _doubled(combine, level, width)
    return result


def _powers(length: Ints) -> npt.NDArray[np.int8]:
    """The exponent of the largest power of two that is not above each length."""
    _, exponent = np.frexp(length.astype(np.float64))
    return (exponent - 1).astype(np.int8)


def prefix_difference(column: npt.NDArray[Any], lo: Ints, hi: Ints) -> npt.NDArray[Any]:
    """Return the sum of each range by deducting prefixes: exact for integers, O(1) a range.

    A prefix may wrap beyond 64 bits; the difference is right all the same as long as the sum itself fits.
    """
    prefix = np.empty(len(column) + 1, column.dtype)
    prefix[0] = 0
    np.cumsum(column, out=prefix[1:])
    total = prefix[hi]
    total -= prefix[lo]
    return total


def _doubled(combine: Combine, level: State, width: int) -> State:
    return combine(tuple(c[:-width] for c in level), tuple(c[width:] for c in level))


def _rows(state: State, rows: Ints) -> State:
    return tuple(column[rows] for column in state)


def _assign(result: State, rows: Ints, values: State) -> None:
    for target, value in zip(result, values, strict=True):
        target[rows] = value
