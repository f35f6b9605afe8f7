"""KLL sketches whose sample follows from the values: the same values give the same bytes, in whichever order they come.

The bytes are those of Apache DataSketches' KLL sketches of doubles, or of floats or 64-bit integers. These draw their sample
without a seed. Where a task of Spark runs again, it has to send what it sent before, so the coins here are thrown by a hash of
the values that they decide on.

A sketch is a list of levels. A value of level h stands for 2**h values. A level that is full is sorted, and of each two
neighbours one goes up, all left ones or all right ones by one coin (Karnin, Lang, Liberty 2016).

Many sketches are a few flat arrays, and each step is taken for all of them at once. While sketches are combined, a value is
one number of 64 bits: its level, and its place among the values of all sketches. These sort fast and fit all types.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from serializers.arrays import joined_words, rows_between
from serializers.shapes import refusing

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Values = npt.NDArray[Any]
"""Doubles, or int64."""
DOUBLE, FLOAT, LONG = "<f8", "<f4", "<i8"
"""Types of the values in the bytes of sketches, as NumPy names them."""
Mask = npt.NDArray[np.bool_]
_Hashes = npt.NDArray[np.uint64]

_LEAST_WIDTH, _LEVELS, _MOST_STORED = 8, 63, 40
"""Values of a level at least; levels of a sketch while sketches are combined, and of one that is stored: 4 * 10**12 values."""
_LEVEL, _SKETCH = 32, 38
"""Bits below the level of a value, and below its sketch, of which there are at most 2**25."""
_PLACE, _BARE = (1 << _LEVEL) - 1, (1 << _SKETCH) - 1
_AT_ONCE = 1_000
"""How many sketches are made in one go: their arrays fit into a core's cache."""
_NONE, _ONE, _MORE = 0x010F0102, 0x040F0202, 0x000F0105
"""First words of sketches of no value, of one and of more: ints of the head, version, family (15) and flags."""


@dataclass(frozen=True, slots=True)
class Sketches:
    """Sketches in flat arrays.

    Attributes:
        values: shape (n,), doubles or int64: those that are kept, one sketch after another, within a sketch by level, within a
            level ascending.
        levels: shape (n,): of each value.
        edges: shape (m + 1,): where the values of each sketch begin, and where the last end.
        extremes: shape (2, m): the smallest and the largest value of each sketch; 0 where it has none.
    """

    values: Values
    levels: Ints
    edges: Ints
    extremes: Values

    @classmethod
    def of(cls, values: Values, edges: Ints, k: int) -> "Sketches":
        """Return sketches of values, none of which is NaN: one of those between each two edges."""
        values, sizes = _one_zero(values), np.diff(edges)
        extremes, filled = np.zeros((2, len(sizes)), values.dtype), np.flatnonzero(sizes)
        if len(filled):
            extremes[0, filled] = np.minimum.reduceat(values, edges[filled])
            extremes[1, filled] = np.maximum.reduceat(values, edges[filled])
        full = np.flatnonzero(sizes > k).tolist()
        if not full:
            return cls(values, np.zeros(len(values), np.int64), edges, extremes)
        for one in full:
            values[edges[one] : edges[one + 1]].sort()
        keys, edges = compress(np.arange(len(values)), edges, values, k)
        return cls(values[keys & _PLACE], keys >> _LEVEL, edges, extremes)

    @classmethod
    @refusing("a state of approx_quantiles")
    def read(cls, stored: Sequence[bytes], item: str = DOUBLE) -> "Sketches":
        """Return the sketches of bytes of Apache DataSketches; no bytes are a sketch without values.

        Args:
            stored: the bytes.
            item: NumPy's type of the values in them; floats become doubles.
        """
        words, start, size = joined_words(stored)
        width = np.dtype(item).itemsize // 4
        more, filled = size > 2 + width, np.flatnonzero(size > 2)
        number = (size == 2 + width).astype(np.int64)
        number[more] = words[start[more] + 4] >> 16 & 0xFF
        if not number[more].all() or number.max(initial=0) > _MOST_STORED:
            raise ValueError("a number of levels that no sketch has")
        low = start + np.where(more, 5 + number, 2)
        first = low + np.where(more, 2 * width, 0)
        sizes = np.where(size > 2, (start + size - first) // width, 0)
        edges = np.append(0, np.cumsum(sizes))
        table, owner, level = start + np.where(more, 5, 0), _owners(number), _within(number)
        begins = words[table[owner] + level].astype(np.int64) - words[table[owner]] + edges[owner]
        levels = np.repeat(level, np.diff(begins, append=edges[-1]))
        values = _items(words, first[_owners(sizes)] + width * _within(sizes), item)
        if len(levels) != len(values) or np.isnan(values).any():
            raise ValueError("levels without values, or values that are not numbers")
        extremes = np.zeros((2, len(size)), values.dtype)
        extremes[:, filled] = _items(words, low[filled], item), _items(words, (first - width)[filled], item)
        extremes[1, size == 2 + width] = extremes[0, size == 2 + width]
        return cls(values, levels, edges, extremes)

    def write(self, k: int, item: str | None = None) -> list[bytes]:
        """Return the bytes of each sketch, as Apache DataSketches reads them; none for a sketch without values.

        Args:
            k: width of the highest level.
            item: NumPy's type of the values in them; by default that of the values.
        """
        kind = np.dtype(item or self.values.dtype)
        width = kind.itemsize // 4
        sizes = np.diff(self.edges)
        height = _heights(self.levels, _owners(sizes), len(sizes))
        totals = self.totals
        more, filled = totals > 1, np.flatnonzero(sizes)
        number = np.where(more, height, 0)
        size = np.where(more, 5 + 2 * width + number, np.where(sizes, 2, 0)) + width * sizes
        ends = np.cumsum(size)
        start = ends - size
        words = np.zeros(ends[-1] if len(ends) else 0, "<u4")
        words[start[filled]], words[start[filled] + 1] = (
            np.where(more, _MORE, _ONE)[filled],
            k | _LEAST_WIDTH << 16,
        )
        several = np.flatnonzero(more)
        begin = start[several]
        words[begin + 2], words[begin + 3] = totals[several] & 0xFFFF_FFFF, totals[several] >> 32
        words[begin + 4] = k | number[several] << 16
        owner, level = _owners(number), _within(number)
        # the values of a sketch end where the room of all its levels ends: level 0 begins after what room is left
        begins = np.searchsorted(_owners(sizes) << 6 | self.levels, owner << 6 | level) - self.edges[owner]
        begins += (_tables(k)[0][height] - sizes)[owner]
        words[start[owner] + 5 + level] = begins
        low = (start + 5 + number)[several]
        _put(words, low, self.extremes[0, several], kind)
        _put(words, low + width, self.extremes[1, several], kind)
        first = ends - width * sizes
        _put(words, first[_owners(sizes)] + width * _within(sizes), self.values, kind)
        stored = words.tobytes()
        return [stored[a:b] for a, b in zip((4 * start).tolist(), (4 * ends).tolist(), strict=True)]

    @property
    def totals(self) -> Ints:
        """Shape (m,): how many values each sketch stands for."""
        return np.diff(np.append(0, np.cumsum(1 << self.levels))[self.edges])


def no_values(k: int) -> bytes:
    """Return a sketch without values, as Apache DataSketches writes it."""
    return np.array([_NONE, k | _LEAST_WIDTH << 16], "<u4").tobytes()


def union(parts: Sketches, runs: Ints, k: int) -> Sketches:
    """Return the sketches of the values of neighbours: of all of those between each two of `runs`."""
    edges = parts.edges[runs]
    order = np.empty(len(parts.values), np.int64)
    for first, last in pairwise(edges.tolist()):
        order[first:last] = first + np.argsort(
            parts.values[first:last], kind="stable"
        )  # runs of levels are merged
    distinct = _one_zero(parts.values[order])
    keys, edges = compress(parts.levels[order] << _LEVEL | np.arange(len(order)), edges, distinct, k)
    extremes, sizes = np.zeros((2, len(runs) - 1), distinct.dtype), np.diff(parts.edges)
    full = np.flatnonzero(sizes)
    begins = np.searchsorted(full, runs)
    some = np.flatnonzero(np.diff(begins))
    if len(some):
        extremes[0, some] = np.minimum.reduceat(parts.extremes[0, full], begins[:-1][some])
        extremes[1, some] = np.maximum.reduceat(parts.extremes[1, full], begins[:-1][some])
    return Sketches(distinct[keys & _PLACE], keys >> _LEVEL, edges, extremes)


def compress(keys: Ints, edges: Ints, distinct: Values, k: int) -> tuple[Ints, Ints]:
    """Return the values of sketches, sorted by level and place, with so many sent up that all fit, and their edges.

    Args:
        keys: shape (n,): level and place of each value, those of a sketch together.
        edges: shape (m + 1,): where each sketch begins, and the end of the last.
        distinct: the values of the places.
        k: width of the highest level.
    """
    parts, sizes = [], []
    for begin in range(0, len(edges) - 1, _AT_ONCE):
        cut = edges[begin : begin + _AT_ONCE + 1]
        part, size = _compress_level(keys[cut[0] : cut[-1]], np.diff(cut), distinct, k)
        parts.append(part)
        sizes.append(size)
    if not parts:
        return keys, edges
    return np.concatenate(parts), np.append(0, np.cumsum(np.concatenate(sizes)))


def _compress_level(keys: Ints, sizes: Ints, distinct: Values, k: int) -> tuple[Ints, Ints]:
    many, (room, width) = len(sizes), _tables(k)
    owner = _owners(sizes)
    keys = np.sort(owner << _SKETCH | keys, kind="stable")  # runs of sorted keys are merged
    levels = (keys >> _LEVEL & _LEVELS).astype(np.uint8)
    height, total = np.zeros(many, np.int64), sizes.copy()
    filled = np.flatnonzero(sizes)
    height[filled] = levels[np.cumsum(sizes)[filled] - 1] + np.int64(1)
    over = total > room[height]
    if not over.any():
        return keys & _BARE, sizes
    chosen = np.repeat(over, sizes)
    kept, keys, levels = [keys[~chosen]], keys[chosen], levels[chosen]
    keys = keys[np.argsort(levels, kind="stable")]  # 8 bits are sorted by counting
    ends = np.cumsum(np.bincount(levels))
    keys &= ~(_LEVELS << _LEVEL)
    by_level = np.split(keys, ends[:-1])
    carried, level = keys[:0], 0
    while level < len(by_level) or len(carried):
        here = by_level[level] if level < len(by_level) else keys[:0]
        if len(carried):
            here = np.sort(np.concatenate([here, carried]), kind="stable") if len(here) else carried
        count = np.bincount(here >> _SKETCH, minlength=many)
        full = (total > room[height]) & (count >= width[height, level])
        leaving = np.repeat(full, count)
        kept.append(here[~leaving] | level << _LEVEL)
        count = np.where(full, count, 0)
        height[full & (height == level + 1)] += 1
        total -= count // 2
        here = here[leaving]
        odd = np.cumsum(count)[count & 1 == 1] - 1
        kept.append(here[odd] | level << _LEVEL)
        carried = _choose_half(here, count, distinct, level)
        level += 1
    return np.sort(np.concatenate(kept), kind="stable") & _BARE, total


def _choose_half(here: Ints, count: Ints, distinct: Values, level: int) -> Ints:
    """One of each two neighbours of each sketch."""
    start = np.cumsum(count) - count
    sums = np.append(np.uint64(0), np.cumsum(distinct.view(np.uint64)[here & _PLACE]))
    coin = _mix(sums[start + (count & ~1)] - sums[start] + np.uint64(level)) >> np.uint64(63)
    pairs = count // 2
    return here[np.repeat(start + coin.astype(np.int64), pairs) + 2 * _within(pairs)]


def _mix(bits: _Hashes) -> _Hashes:
    """Return a hash of each 64 bits.

    (SplitMix64)
    """
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)


@cache
def _tables(k: int) -> tuple[Ints, Ints]:
    """How many values n levels hold, and how many make each of them full: k the highest, a third fewer each below."""
    width = np.zeros((_LEVELS + 1, _LEVELS + 1), np.int64)
    for levels in range(1, _LEVELS + 1):
        for depth in range(levels):
            least = ((2 * k << depth) // 3**depth + 1) >> 1
            width[levels, levels - depth - 1] = max(_LEAST_WIDTH, least)
    return width.sum(axis=1), width


def _owners(sizes: Ints) -> Ints:
    """The number of its run for each row, of runs of these sizes."""
    return np.repeat(np.arange(len(sizes)), sizes)


def _within(sizes: Ints) -> Ints:
    """The place in its run of each row, of runs of these sizes."""
    return rows_between(np.zeros_like(sizes), sizes)


def _heights(levels: Ints, owner: Ints, many: int) -> Ints:
    """How many levels each sketch has."""
    height = np.zeros(many, np.int64)
    np.maximum.at(height, owner, levels + 1)
    return height


def _one_zero(values: Values) -> Values:
    """The values with one zero of floats, so that equal values have equal bits."""
    return values + values.dtype.type(0)


def _items(words: npt.NDArray[np.uint32], at: Ints, item: str) -> Values:
    """The values of a type that begin at these words; floats as doubles."""
    width = np.dtype(item).itemsize // 4
    found = np.stack([words[at + n] for n in range(width)], axis=1).view(item)[:, 0]
    return found.astype(np.int64 if item == LONG else np.float64)


def _put(words: npt.NDArray[np.uint32], at: Ints, values: Values, kind: np.dtype[Any]) -> None:
    width = kind.itemsize // 4
    parts = values.astype(kind.newbyteorder("<")).view("<u4").reshape(-1, width)
    for n in range(width):
        words[at + n] = parts[:, n]
