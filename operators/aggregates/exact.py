"""Sums as unevaluated pairs high + low: twice the precision of a double, so that the order of the summands hardly matters.

A pair has about 106 bits. A sum of finite numbers that exceeds the largest double is kept as (low, high) in units of 2**112:
such a pair is recognised by its second part, which is the larger one. Sums of squares are triples of about 159 bits.
(Dekker 1971; Knuth's two-sum.)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from operators.columns.ranges import Ints, prefix_difference

Floats = npt.NDArray[np.float64]
Pair = tuple[npt.NDArray[Any], ...]
Triple = tuple[npt.NDArray[Any], ...]
_SPLIT = 134217729.0  # 2**27 + 1
_LARGEST_SPLIT = 2.0**996
_EXACT_DOUBLE = 2.0**53
_WORD_BITS = 63
_SUM_BITS = 84
"""Bits of a sum of whole numbers that two doubles of 32 bits and of multiples of 2**32 can hold."""
_ROUNDED_BITS = 113
"""Rounded prefix sums of n numbers below 2**bits are right to 2**60 if this is bits + 2 log2(n): n additions are off by
2**-53 of n * 2**bits at most."""
_MOST_LIMBS = 3
_MOST_SHIFT = 1000
_LONGEST_SHIFT = 1 << 12
"""No double survives a shift by so many binary digits."""
_UNIT = 2.0**112
_LARGE = 2.0**910
"""The second part of a sum that exceeds doubles is above this; that of others is below, if the first is below `_SUMMABLE`."""
_SUMMABLE = 2.0**960
"""No number of rows adds up to more than a double holds if each is below this."""


def add(a: Pair, b: Pair) -> Pair:
    """Return the row-wise sum of pairs. If it is infinite or NaN, the high part is that value and the low part is 0."""
    high, low = _two_sum(a[0], b[0])
    low += a[1]
    low += b[1]
    total = high + low
    rest = low - (total - high)
    wrong = None if np.isfinite(total).all() else ~np.isfinite(total)
    for pair in (a, b):
        if _beyond(pair):
            beyond = np.abs(pair[1]) > _LARGE
            wrong = beyond if wrong is None else wrong | beyond
    if wrong is None:
        return total, rest
    # Only these rows: in units of 2**112, sums of small numbers would vanish.
    rows = np.flatnonzero(wrong)
    total[rows], rest[rows] = _add_beyond((a[0][rows], a[1][rows]), (b[0][rows], b[1][rows]))
    return total, rest


def _two_sum(a: Floats, b: Floats) -> Pair:
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


def _beyond(a: Pair) -> bool:
    """Whether any of the pairs may be a sum that exceeds doubles."""
    return bool(len(a[1])) and max(float(a[1].max()), -float(a[1].min())) > _LARGE


def _add_beyond(a: Pair, b: Pair) -> Pair:
    """The sum of pairs if any of them, or of their sums, exceeds doubles, is infinite or NaN."""
    (a_high, a_low), (b_high, b_low) = _in_units(a), _in_units(b)
    high, low = _two_sum(a_high, b_high)
    low += a_low + b_low
    total = high + low
    finite = np.isfinite(high)
    return _of_units(np.where(finite, total, high), np.where(finite, low - (total - high), 0.0))


def multiples(values: Floats, counts: Floats) -> Pair:
    """Return the sums of `counts` times the same double."""
    large = np.abs(values) > _LARGE
    high, low = product(np.where(large, values / _UNIT, values), counts)
    highs, lows = _of_units(high, low)
    return np.where(large, highs, high), np.where(large, lows, low)


def _of_units(high: Floats, low: Floats) -> Pair:
    """Pairs times 2**112, swapped if they exceed doubles."""
    beyond = np.isfinite(high) & ~np.isfinite(high * _UNIT)
    return np.where(beyond, low, high * _UNIT), np.where(beyond, high, low * _UNIT)


def _in_units(a: Pair) -> Pair:
    """Pairs over 2**112, the high part first."""
    swapped = np.abs(a[1]) > np.abs(a[0])
    return np.where(swapped, a[1], a[0] / _UNIT), np.where(swapped, a[0], a[1] / _UNIT)


def add_triples(a: Triple, b: Triple) -> Triple:
    """Return the row-wise sum of triples, without rounding while whole multiples of a unit are below 2**150 units.

    Otherwise the error is below 2**-150 of the larger one. If the sum is infinite or NaN, the first part is that value.
    """
    high, rest = _two_sum(a[0], b[0])
    middle, low = _two_sum(a[1], b[1])
    middle, more = _two_sum(middle, rest)
    low += more
    low += a[2]
    low += b[2]
    middle, low = _two_sum(middle, low)
    total, middle = _two_sum(high, middle)
    middle, low = _two_sum(middle, low)
    finite = np.isfinite(total)
    if not finite.all():
        total = np.where(finite, total, high)
        middle, low = np.where(finite, middle, 0.0), np.where(finite, low, 0.0)
    return total, middle, low


def of_ints(values: npt.NDArray[np.int64]) -> Pair:
    """Return whole numbers of 64 bits as pairs, without rounding."""
    top = (values >> 32 << 32).astype(np.float64), np.zeros(len(values))
    return add(top, ((values & 0xFFFFFFFF).astype(np.float64), np.zeros(len(values))))


def square(x: Floats) -> Pair:
    """Return x * x without rounding, unless it overflows."""
    high = x * x
    scaled = x * _SPLIT
    top = scaled - (scaled - x)
    rest = x - top
    low = ((top * top - high) + 2 * top * rest) + rest * rest
    return high, np.where(np.abs(x) < _LARGEST_SPLIT, low, 0.0)


def product(x: Floats, y: Floats) -> Pair:
    """Return x * y without rounding, unless it overflows or a factor exceeds 2**996."""
    high = x * y
    (x_top, x_rest), (y_top, y_rest) = _halves(x), _halves(y)
    low = ((x_top * y_top - high) + x_top * y_rest + x_rest * y_top) + x_rest * y_rest
    return high, np.where(np.maximum(np.abs(x), np.abs(y)) < _LARGEST_SPLIT, low, 0.0)


def times(a: Pair, factor: Floats) -> Pair:
    """Return pairs times doubles, to about twice the precision of a double."""
    high, low = product(a[0], factor)
    low = low + a[1] * factor
    total = high + low
    return total, low - (total - high)


def shift(values: Floats, power: Ints) -> Floats:
    """Return doubles times powers of two of 64 bits: 0 or infinity where none is near."""
    with np.errstate(all="ignore"):
        return np.ldexp(values, np.clip(power, -_LONGEST_SHIFT, _LONGEST_SHIFT))


def _halves(x: Floats) -> Pair:
    scaled = x * _SPLIT
    top = scaled - (scaled - x)
    return top, x - top


def multiply(a: Pair, b: Pair) -> Pair:
    """Return pairs times pairs, to about twice the precision of a double."""
    high, low = product(a[0], b[0])
    low = low + a[0] * b[1] + a[1] * b[0]
    total = high + low
    return total, low - (total - high)


def value(pair: Pair) -> Floats:
    """Return pairs rounded to doubles; infinities and NaN are as in plain summation."""
    with np.errstate(all="ignore"):
        high, low = pair
        total = np.where(np.isfinite(high), high + low, high)
        return (
            total if not _beyond(pair) else np.where(np.abs(low) > np.abs(high), (high + low) * _UNIT, total)
        )


def mean(pair: Pair, count: Ints) -> Floats:
    """Return pairs divided by whole numbers, rounded to doubles: finite if the mean is, even if the sum is not."""
    with np.errstate(all="ignore"):
        divisor = np.maximum(count, 1)
        means = value(pair) / divisor
        if not _beyond(pair):
            return means
        return np.where(np.abs(pair[1]) > np.abs(pair[0]), (pair[0] + pair[1]) / divisor * _UNIT, means)


def sum_ranges(values: Pair | Triple, lo: Ints, hi: Ints) -> Pair | Triple | None:
    """Return the exact sum of each range [lo, hi) of pairs or triples, or None if that is not possible.

    The numbers are divided into whole numbers of a fixed scale, whose prefix sums can be subtracted without rounding: O(1) per
    range of any length, and no drift. The remainders are summed at a finer scale. None if values are not finite, if their sum
    may exceed doubles, or if they need more binary digits than `_MOST_LIMBS` scales have.
    """
    with np.errstate(all="ignore"):
        if not len(lo):
            return tuple(np.empty(0) for _ in values)
        largest = max(float(values[0].max()), -float(values[0].min()))
        if not largest < _SUMMABLE or _beyond(values):
            return None
        rest = _Addends.of(values)
        longest = int((hi - lo).max())
        shift = _WORD_BITS - rest.sum_exponent(longest)
        if abs(shift) < _MOST_SHIFT:
            scale = 2.0**shift
            limb = rest.rounded(scale)
            if not rest.without(limb, scale).any():
                return _pad(limb.sums(lo, hi, wraps=False), scale, len(values))
        # More digits fit into limbs whose sums may wrap.
        plus = add if len(values) == 2 else add_triples
        bits = min(_SUM_BITS - longest.bit_length(), _ROUNDED_BITS - 2 * len(values[0]).bit_length())
        shift = -int(np.frexp(largest)[1])
        total: Pair | Triple | None = None
        for _ in range(_MOST_LIMBS):
            shift += bits
            if abs(shift) >= _MOST_SHIFT:
                return None
            scale = 2.0**shift
            limb = rest.rounded(scale)
            sums = _pad(limb.sums(lo, hi, wraps=True), scale, len(values))
            total = sums if total is None else plus(total, sums)
            rest = rest.without(limb, scale)
            if not rest.any():
                return total
        return None


def _pad(sums: Pair, scale: float, width: int) -> Pair | Triple:
    """Sums of whole numbers of a scale as pairs or triples."""
    return sums[0] / scale, sums[1] / scale, *(np.zeros(len(sums[0])) for _ in range(width - 2))


@dataclass(frozen=True, slots=True)
class _Addends:
    """Numbers by row: one for each row, and more for a few rows, since the low parts of pairs are mostly zero.

    Attributes:
        each: shape (n,), float64.
        more: the further parts: the distinct rows that have one, and its values, float64.
    """

    each: Floats
    more: tuple[tuple[Ints, Floats], ...]

    @classmethod
    def of(cls, parts: Pair | Triple) -> "_Addends":
        """Return the parts of pairs or triples."""
        rows = [(np.flatnonzero(part), part) for part in parts[1:]]
        return cls(parts[0], tuple((found, part[found]) for found, part in rows if len(found)))

    def rounded(self, scale: float) -> "_Addends":
        """Return the numbers times a power of two, rounded to whole numbers."""
        more = tuple((rows, np.rint(part * scale)) for rows, part in self.more)
        return _Addends(np.rint(self.each * scale), more)

    def any(self) -> bool:
        """Return whether any number is not 0."""
        return bool(self.each.any()) or any(bool(part.any()) for _, part in self.more)

    def without(self, whole: "_Addends", scale: float) -> "_Addends":
        """Return the numbers less whole numbers of a scale."""
        more = tuple(
            (rows, part - off * (1 / scale))
            for (rows, part), (_, off) in zip(self.more, whole.more, strict=True)
        )
        return _Addends(self.each - whole.each * (1 / scale), more)

    def sum_exponent(self, longest: int) -> int:
        """Return an exponent of two above the sum of `longest` neighbours of any signs; 1,100 if there is none."""
        quarter = -(-longest // 4)
        blocks = np.add.reduceat(np.abs(self.each), np.arange(0, len(self.each), quarter))
        # A range is part of five blocks. The low parts, and what is lost in adding, are far below a thousandth.
        most = float(np.convolve(blocks, np.ones(5)).max()) * 1.001
        return int(np.frexp(most)[1]) if np.isfinite(most) else 1_100

    def sums(self, lo: Ints, hi: Ints, wraps: bool) -> Pair:
        """Return the sums of ranges of whole numbers as pairs.

        Args:
            lo, hi: the ranges.
            wraps: whether a number or a sum can exceed 64 bits. It is then wrong by a multiple of 2**64, which is found from
                rounded sums.
        """
        words = _modulo(self.each) if wraps else self.each.astype(np.int64)
        for rows, part in self.more:
            words[rows] += _modulo(part)
        total = prefix_difference(words, lo, hi)
        if not wraps:
            high = total.astype(np.float64)
            if max(float(high.max()), -float(high.min())) <= _EXACT_DOUBLE:
                return high, np.zeros(len(high))
        top, bottom = (total >> 32 << 32).astype(np.float64), (total & 0xFFFFFFFF).astype(np.float64)
        if wraps:
            about = self.each.copy() if self.more else self.each
            for rows, part in self.more:
                about[rows] += part
            top += np.rint((prefix_difference(about, lo, hi) - top) / 2.0**64) * 2.0**64
        high = top + bottom
        return high, bottom - (high - top)


def _modulo(whole: Floats) -> Ints:
    """Whole numbers below 2**95 as int64, modulo 2**64."""
    top = np.floor(whole * 2.0**-32)
    return (top.astype(np.int64) << 32) + (whole - top * 2.0**32).astype(np.int64)
