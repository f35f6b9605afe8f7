"""Ranges of rows in columns, and the combination of the states in each range.

Windows over sorted panes are such ranges. No stores and no Spark.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from serializers.arrays import rows_between

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
State = tuple[npt.NDArray[Any], ...]
Combine = Callable[[State, State], State]


def run_starts(key: Ints, time: Ints) -> Ints:
    """Return where each run of equal (key, time) begins, in sorted rows."""
    if not len(key):
        return np.empty(0, np.int64)
    change = np.empty(len(key), bool)
    change[0] = True
    np.not_equal(key[1:], key[:-1], out=change[1:])
    change[1:] |= time[1:] != time[:-1]
    return np.flatnonzero(change)


def key_edges(key: Ints) -> tuple[Ints, Ints]:
    """Return the first and the last row of each key, in rows sorted by key, which are 0 or more."""
    first = np.flatnonzero(np.diff(key, prepend=-1))
    return first, np.append(first[1:], len(key))[: len(first)] - 1


def rows_of_ranges(lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """Return every row of the ranges [lo, hi): the number of its range, and the row."""
    length = hi - lo
    return np.repeat(np.arange(len(lo)), length), rows_between(lo, length)


def combine_ranges(combine: Combine, state: State, lo: Ints, hi: Ints) -> State:
    """Return each range's combination by doubling, in order, without subtraction.

    Level j holds the combination of 2**j neighbours; a range adds the levels of its length's binary digits from left to
    right. O(log(longest)) array passes for any associative `combine`. (Range queries by doubling)

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
        level, width = _double(combine, level, width), width * 2


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
            level = _double(combine, level, width)
    return result


def _powers(length: Ints) -> npt.NDArray[np.int8]:
    """The exponent of the largest power of two that is not above each length."""
    _, exponent = np.frexp(length.astype(np.float64))
    return (exponent - 1).astype(np.int8)


def prefix_difference(column: npt.NDArray[Any], lo: Ints, hi: Ints) -> npt.NDArray[Any]:
    """Return the sum of each range as the difference of two prefix sums: exact for integers, O(1) for a range.

    A prefix sum may overflow 64 bits. The difference is right as long as the sum of the range fits.
    """
    prefix = np.empty(len(column) + 1, column.dtype)
    prefix[0] = 0
    np.cumsum(column, out=prefix[1:])
    total = prefix[hi]
    total -= prefix[lo]
    return total


def _double(combine: Combine, level: State, width: int) -> State:
    return combine(tuple(c[:-width] for c in level), tuple(c[width:] for c in level))


def _rows(state: State, rows: Ints) -> State:
    return tuple(column[rows] for column in state)


def _assign(result: State, rows: Ints, values: State) -> None:
    for target, value in zip(result, values, strict=True):
        target[rows] = value
