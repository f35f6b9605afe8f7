"""Stable orders of rows by key number and time, without comparing where counting is enough."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from serializers.arrays import rows_between
from serializers.pages import Column

Ints = npt.NDArray[np.int64]
_DIGIT_BITS = 16
_MOST_DIGITS = 5
_FEW_COUNTS, _MOST_COUNTS = 1024, 8
_LONG_RUN = 64
"""Rows of a run that are copied in no more time as a slice than one by one."""


def row_order(key: Ints, time: Ints) -> Ints | None:
    """Return the stable order by key, then time, or None if the rows are in that order already.

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


@dataclass(frozen=True, slots=True)
class Runs:
    """Where the rows of one set go in another, by runs: all rows, in their order.

    Attributes:
        place, count: shape (n,), int64: where each run goes, and how many rows it has.
    """

    place: Ints
    count: Ints

    def put(self, columns: Sequence[Column], wholes: Sequence[Column]) -> None:
        """Copy the rows to where they go. O(rows), as slices where runs are long."""
        if not _long(self.count):
            rows = rows_between(self.place, self.count)
            for column, whole in zip(columns, wholes, strict=True):
                whole[rows] = column
            return
        begin = np.cumsum(self.count) - self.count
        runs = zip(begin.tolist(), self.place.tolist(), self.count.tolist(), strict=True)
        for a, place, count in runs:
            for column, whole in zip(columns, wholes, strict=True):
                whole[place : place + count] = column[a : a + count]


def take_runs(columns: Sequence[Column], begin: Ints, count: Ints) -> list[Column]:
    """Return runs of rows one after another: `count` rows from each `begin` on. O(rows), as slices where runs are long."""
    if _long(count):
        pieces = [slice(a, b) for a, b in zip(begin.tolist(), (begin + count).tolist(), strict=True)]
        return [np.concatenate([column[piece] for piece in pieces]) for column in columns]
    rows = rows_between(begin, count)
    return [column[rows] for column in columns]


def long_runs(rows: Ints) -> tuple[Ints, Ints] | None:
    """Return where the runs of successive positions begin, and how many each has; None if they are short.

    Args:
        rows: shape (n,), int64: positions, ascending.
    """
    if not len(rows):
        return None
    at = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    count = np.diff(at, append=len(rows))
    return (rows[at], count) if _long(count) else None


def _long(count: Ints) -> bool:
    return len(count) > 0 and int(count.sum()) >= _LONG_RUN * len(count)


def append_places(parts: Sequence[tuple[Ints, Ints]]) -> list[Runs] | None:
    """Return where the rows of each part go when all become one sorted set, or None if that takes a sort.

    No sort is needed if no key has a row that is older than one of its rows in an earlier part. Of equal times, those of
    earlier parts come first. Also None if there are so many keys per row that a sort is as fast. O(rows + parts * keys).

    Args:
        parts: key and time of the rows of each part, at least one, as for `row_order`, sorted.
    """
    size = 1 + max((int(key[-1]) for key, _ in parts if len(key)), default=-1)
    if len(parts) * size > _FEW_COUNTS + _MOST_COUNTS * sum(len(key) for key, _ in parts):
        return None
    counts = np.array([np.bincount(key, minlength=size) for key, _ in parts])
    ends = counts.cumsum(axis=1)
    latest = np.full(size, np.iinfo(np.int64).min)
    for (_, time), count, end in zip(parts, counts, ends, strict=True):
        present = np.flatnonzero(count)
        if (time[(end - count)[present]] < latest[present]).any():
            return None
        latest[present] = time[end[present] - 1]
    rows = counts.sum(axis=0)
    begins = rows.cumsum() - rows + counts.cumsum(axis=0) - counts
    return [Runs(begin[count > 0], count[count > 0]) for begin, count in zip(begins, counts, strict=True)]
