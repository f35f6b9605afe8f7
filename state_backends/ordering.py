"""Stable orders of rows by key number and time, without comparing where counting is enough."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_DIGIT_BITS = 16
_MOST_DIGITS = 5


def row_order(key: Ints, time: Ints) -> Ints | None:
    """Return the stable order by key, then time, or None if the rows are in it already.

    Args:
        key: shape (n,), int64, not negative, small numbers.
        time: shape (n,), int64.

    Cost: one counting pass for each 16 bits that the values span, O(n) each; a comparison sort if they span many.
    """
    if len(key) < 2:
        return None
    earlier = time[1:] < time[:-1]
    if not ((key[1:] < key[:-1]) | ((key[1:] == key[:-1]) & earlier)).any():
        return None
    low, high = int(time.min()), int(time.max())
    digits = [(key, 0, int(key.max()).bit_length())]
    if earlier.any():
        digits.insert(0, (time, low, (high - low).bit_length()))
    passes = [(values, base, shift) for values, base, bits in digits for shift in range(0, bits, _DIGIT_BITS)]
    if len(passes) > _MOST_DIGITS:
        return np.lexsort((time, key))
    order: Ints | None = None
    for values, base, shift in passes:
        digit = ((values - base).view(np.uint64) >> np.uint64(shift)).astype(np.uint16)
        step = np.argsort(digit if order is None else digit[order], kind="stable")
        order = step if order is None else order[step]
    return order


def append_order(key: Ints, time: Ints, more_key: Ints, more_time: Ints) -> Ints | None:
    """Return the order of two sorted sets of rows put one after another, or None if they overlap in time.

    Overlap means that some key has a row in the second set that is older than one of its rows in the first. Equal times
    do not overlap: the first set's rows come first. O(rows + keys).
    """
    size = 1 + max(int(key[-1]) if len(key) else 0, int(more_key[-1]) if len(more_key) else 0)
    counts, more_counts = np.bincount(key, minlength=size), np.bincount(more_key, minlength=size)
    ends, more_ends = np.cumsum(counts), np.cumsum(more_counts)
    both = (counts > 0) & (more_counts > 0)
    if (time[ends[both] - 1] > more_time[(more_ends - more_counts)[both]]).any():
        return None
    order = np.empty(len(key) + len(more_key), np.int64)
    first = np.arange(len(key))
    second = np.arange(len(more_key))
    order[first + (more_ends - more_counts)[key]] = first
    order[second + ends[more_key]] = second + len(key)
    return order
