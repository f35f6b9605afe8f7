"""Ranges of values as ranges of numbers: which different values each range has, and how many."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from operators.aggregates.once import ascending_runs, neighbours, up_to, weight_of_pairs
from operators.columns.ranges import Ints, State
from serializers.arrays import fill, rows_between

_ROWS_AT_ONCE = 1 << 22


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return the distinct values in order, NaN last."""
    found = set(values)
    numbers = {value for value in found if value == value}
    return sorted(numbers) + [value for value in found if value != value][:1]


def number_values(values: list[Any]) -> tuple[list[Any], Ints]:
    """Return the distinct values in order, NaN last, and the number of each value among them."""
    if values and type(values[0]) in (int, float):
        array = np.array(values)
        # Whole numbers become floats, which are not exact, if some need 64 bits without a sign, and some have one.
        if array.dtype != object and (array.dtype.kind == "f") == (type(values[0]) is float):
            found, numbers = np.unique(array, return_inverse=True)
            return found.tolist(), numbers
    listed = distinct(values)
    number = {value: n for n, value in enumerate(listed)}
    # NaN, which is not equal to itself, is the last of the values.
    return listed, np.fromiter((number.get(v, len(listed) - 1) for v in values), np.int64, len(values))


def last_before(numbers: Ints) -> Ints:
    """Return one more than the position of the previous occurrence of each number; 0 for the first occurrence."""
    before = np.zeros(len(numbers), np.int64)
    earlier, later = neighbours(numbers)
    before[later] = earlier + 1
    return before


def _counts(before: Ints, begin: Ints, end: Ints) -> Ints:
    """How many different numbers each range has."""
    count, filled = end - begin, np.flatnonzero(end > begin)
    again = np.flatnonzero(before)
    pairs = (before[again] - 1, again, 1)
    count[filled] -= weight_of_pairs([pairs], len(before), begin[filled], end[filled])
    return count


@dataclass(frozen=True, slots=True)
class DistinctNumbers:
    """Ranges of values, each value as its number among the distinct ones.

    Attributes:
        numbers: shape (n,), int64: the number of each value.
        before: shape (n,), int64: one more than the position of the number's previous occurrence, 0 if there is none.
        begin, end: shape (m,), int64: where each range of these begins and ends.
        values: the distinct values in order of their numbers.
    """

    numbers: Ints
    before: Ints
    begin: Ints
    end: Ints
    values: npt.NDArray[Any]

    @classmethod
    def of(cls, lists: Sequence[Sequence[Any]], lo: Ints, hi: Ints) -> "DistinctNumbers":
        """Return ranges [lo, hi) of lists of values as ranges of all their values."""
        edges = np.cumsum([0, *map(len, lists)])
        values, numbers = number_values(list(chain.from_iterable(lists)))
        return cls(numbers, last_before(numbers), edges[lo], edges[hi], fill(values))

    @property
    def columns(self) -> State:
        """The attributes, as columns of a state."""
        return self.numbers, self.before, self.begin, self.end, self.values

    def lengths(self) -> Ints:
        """Return how many different values each range has."""
        return _counts(self.before, self.begin, self.end)

    def listed(self) -> tuple[Ints, Ints]:
        """Return the numbers of the different values of each range in order, one range after another: range and number."""
        length = self.lengths()
        parts = _list_numbers(self.numbers, self.before, self.begin, self.end, length)
        return np.repeat(np.arange(len(length)), length), np.concatenate([np.empty(0, np.int64), *parts])


def _list_numbers(
    numbers: Ints, before: Ints, begin: Ints, end: Ints, length: Ints
) -> Iterator[npt.NDArray[np.int32]]:
    """The distinct numbers of each window in order, one window after another, a few million at a time.

    Of the windows of a run, whose ends ascend, those in which a number first occurs at one place follow one another:

        occurrences        before         here
        windows                |------------------|          the first: it ends after here, and begins after the one before
                                           |-------------|   the last: it begins here at the latest
    """
    filled = np.flatnonzero(end > begin)
    begin, end, length = begin[filled], end[filled], length[filled]
    for first, last in ascending_runs(begin, end):
        totals = np.cumsum(length[first:last])
        cuts = np.searchsorted(totals, np.arange(_ROWS_AT_ONCE, totals[-1], _ROWS_AT_ONCE)) + first + 1
        for a, b in pairwise(np.unique([first, *cuts, last]).tolist()):
            shift, stop = int(begin[a]), int(end[b - 1])
            starts, ends = begin[a:b] - shift, end[a:b] - shift
            opened, closed = up_to(ends, stop - shift), up_to(starts, stop - shift)
            earlier = before[shift:stop] - shift
            since = np.where(earlier > 0, closed[np.maximum(earlier - 1, 0)], 0)
            since = np.maximum(since, opened[:-1])
            count = np.maximum(closed[:-1] - since, 0)
            bits = int(numbers.max()).bit_length()
            window = rows_between(since, count)
            pairs = np.sort(window << bits | np.repeat(numbers[shift:stop], count))
            yield (pairs & ((1 << bits) - 1)).astype(np.int32)
