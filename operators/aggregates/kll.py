"""KLL sketches whose sample follows from the values: the same values give the same bytes, in whichever order they come.

The bytes are those of Apache DataSketches' `kll_doubles_sketch`, which draws its sample without a seed. Where a task of Spark
runs again, it has to send what it sent before, so the coins here are thrown by a hash of the values that they decide on.

A sketch is a list of levels. A value of level h stands for 2**h values. A level that is full is sorted, and of each two
neighbours one goes up, all left ones or all right ones by one coin (Karnin, Lang, Liberty 2016).
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

_Values = npt.NDArray[np.float64]
_LEAST_WIDTH = 8
_FAMILY = 15
_HEAD = struct.Struct("<BBBBHBxQHBx")
"""Size of the head in ints, version, family, flags, k, least width of a level, n, least k, number of levels."""
_HEAD_INTS, _VERSION = 5, 1


@dataclass(frozen=True, slots=True)
class Levels:
    """A sketch of at least two values.

    Attributes:
        k: largest width of a level.
        n: number of values.
        extremes: the smallest value and the largest one.
        levels: the values that are kept, those of weight 1 first; from the second on sorted.
    """

    k: int
    n: int
    extremes: tuple[float, float]
    levels: Sequence[_Values]

    @classmethod
    def of(cls, values: _Values, k: int) -> "Levels":
        """Return a sketch of values, none of which is NaN."""
        values = values + 0.0  # -0.0 becomes 0.0: equal values have equal bits
        extremes = float(values.min()), float(values.max())
        return cls(k, len(values), extremes, _compressed([np.sort(values)], k))

    @classmethod
    def read(cls, stored: bytes) -> "Levels":
        """Return the sketch of bytes of Apache DataSketches, not those of none or one value."""
        _, _, _, _, k, _, n, _, number = _HEAD.unpack_from(stored)
        starts = np.frombuffer(stored, "<u4", number, _HEAD.size).astype(np.int64)
        low, high, *_ = floats = np.frombuffer(stored, "<f8", offset=_HEAD.size + 4 * number)
        edges = [*(starts - starts[0] + 2), len(floats)]
        levels = [floats[a:b] for a, b in pairwise(edges)]
        return cls(k, n, (float(low), float(high)), levels)

    @classmethod
    def union(cls, sketches: Iterable["Levels"]) -> "Levels":
        """Return a sketch of all values of the given ones, of equal k; their order makes no difference."""
        found = list(sketches)
        values = np.concatenate([level for one in found for level in one.levels]) + 0.0
        height = np.concatenate(
            [np.repeat(np.arange(len(one.levels), dtype=np.uint8), [*map(len, one.levels)]) for one in found]
        )
        order = np.argsort(values)
        order = order[np.argsort(height[order], kind="stable")]  # 8 bits are sorted by counting
        levels = np.split(values[order], np.cumsum(np.bincount(height))[:-1])
        low, high = (min(one.extremes[0] for one in found), max(one.extremes[1] for one in found))
        k = found[0].k
        return cls(k, sum(one.n for one in found), (low + 0.0, high + 0.0), _compressed(levels, k))

    def to_bytes(self) -> bytes:
        """Return the bytes that Apache DataSketches reads."""
        number = len(self.levels)
        sizes = np.array([len(level) for level in self.levels])
        starts = _room(self.k, number) - sizes[::-1].cumsum()[::-1]
        head = _HEAD.pack(_HEAD_INTS, _VERSION, _FAMILY, 0, self.k, _LEAST_WIDTH, self.n, self.k, number)
        floats = np.concatenate([np.array(self.extremes), *self.levels])
        return head + starts.astype("<u4").tobytes() + floats.astype("<f8").tobytes()


def _compressed(levels: Sequence[_Values], k: int) -> list[_Values]:
    """Sorted levels, with so many values sent up that all fit."""
    found = list(levels)
    while sum(map(len, found)) > _room(k, len(found)):
        full = next(h for h, level in enumerate(found) if len(level) >= _width(k, len(found), h))
        level = found[full]
        pairs = level[: len(level) // 2 * 2]
        if full + 1 == len(found):
            found.append(np.empty(0))
        found[full] = level[len(pairs) :]
        up, above = pairs[_coin(pairs, full) :: 2], found[full + 1]
        found[full + 1] = np.sort(np.concatenate([above, up])) if len(above) else up
    return found


def _coin(values: _Values, level: int) -> int:
    """0 or 1, by a hash of the values and their level."""
    return hashlib.blake2b(values.tobytes(), digest_size=1, salt=level.to_bytes(8, "little")).digest()[0] & 1


@cache
def _width(k: int, levels: int, level: int) -> int:
    """How many values make a level full: k of the highest one, and a third fewer of each below."""
    depth = levels - level - 1
    return max(_LEAST_WIDTH, ((2 * k << depth) // 3**depth + 1) >> 1)


@cache
def _room(k: int, levels: int) -> int:
    """How many values so many levels hold."""
    return sum(_width(k, levels, level) for level in range(levels))
