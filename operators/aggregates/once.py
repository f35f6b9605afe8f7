"""Sums over ranges of a sequence in which each of several things counts once, however often it occurs in the range.

    sequence     a  b  a  a  c        range of the last four: b a a c
    pairs        |-----|--|           one pair lies in it: 4 - 1 = 3 different things

A thing that occurs n times in a range is in n - 1 pairs of neighbouring occurrences: so the number of different things is that
of all, less that of the pairs that lie in the range.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from operators.columns.ranges import Ints

Pairs = tuple[Ints, Ints, int]
"""Of each two neighbouring occurrences of one thing the earlier and the later position; and what a pair counts."""


def ascending_runs(begin: Ints, end: Ints) -> list[tuple[int, int]]:
    """Return the bounds of runs of ranges in which both ends ascend, as those of windows do that are in order of time."""
    cuts = np.flatnonzero((begin[1:] < begin[:-1]) | (end[1:] < end[:-1])) + 1
    edges = [0, *cuts.tolist(), len(begin)]
    return [(first, last) for first, last in pairwise(edges) if last > first]


def weight_of_pairs(pairs: Iterable[Pairs], size: int, begin: Ints, end: Ints) -> Ints:
    """Return what the pairs that lie in each range count together.

    Where both ends of the ranges ascend, the ranges with a pair in them follow one another:

        pair             earlier      later
        ranges       |---------------------|             the first: it ends after the later one
                         |---------------------|         the last: it begins before the earlier one

    Args:
        pairs: as their type says; within one element, a position is the earlier one at most once, and so the later one.
        size: the size of the sequence.
        begin, end: shape (m,): ranges [begin, end), none empty.

    Cost: O(size + pairs + m) array work for each run of ranges whose ends ascend.
    """
    listed, found = list(pairs), np.zeros(len(begin), np.int64)
    for first, last in ascending_runs(begin, end):
        starts, stops = begin[first:last], end[first:last]
        opened = up_to(stops, size)  # the number of ranges that end at each position or before it
        closed = up_to(starts, size)  # the number of ranges that begin at each position or before it
        later_sum, earlier_sum = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
        for earlier, later, weight in listed:
            inside = opened[later] < closed[earlier]
            later_sum[later[inside] + 1] += weight
            earlier_sum[earlier[inside] + 1] += weight
        np.cumsum(later_sum, out=later_sum)
        np.cumsum(earlier_sum, out=earlier_sum)
        found[first:last] = later_sum[stops] - earlier_sum[starts]
    return found


def neighbours(things: Ints) -> tuple[Ints, Ints]:
    """Return the earlier and the later position of each two neighbouring occurrences of one thing.

    Args:
        things: shape (n,): numbers from 0 to 2**32 - 1.
    """
    placed = np.sort(things.astype(np.uint64) << np.uint64(32) | np.arange(len(things), dtype=np.uint64))
    number, place = placed >> np.uint64(32), (placed & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    same = np.flatnonzero(number[1:] == number[:-1])
    return place[same], place[same + 1]


def different_in(things: Ints, begin: Ints, end: Ints) -> Ints:
    """Return how many different things each range has.

    Args:
        things: shape (n,): numbers from 0 to 2**32 - 1.
        begin, end: shape (m,): ranges [begin, end), none empty.
    """
    return end - begin - weight_of_pairs([(*neighbours(things), 1)], len(things), begin, end)


def up_to(values: Ints, size: int) -> Ints:
    """Return how many values are at most 0, 1, 2, and so on, up to the size."""
    return np.cumsum(np.bincount(values, minlength=size + 1))


def pairs_of_levels(order: Ints, slot: Ints, level: Ints, unit: int) -> Iterator[Pairs]:
    """Return pairs of which those in a range count what 1 - 2**-level of all but the highest level of each slot is, in units.

    A highest level h of a slot counts 1/2 + 1/4 + ... + 2**-h: once for each level that any occurrence reaches.

    Args:
        order: shape (n,): positions, by slot and within a slot ascending.
        slot, level: shape (n,): of the positions in this order.
        unit: what 1 is.
    """
    height = 1
    while len(order) > 1:
        same = np.flatnonzero(slot[1:] == slot[:-1])
        yield order[same], order[same + 1], unit >> height
        height += 1
        reached = level >= height
        order, slot, level = order[reached], slot[reached], level[reached]
