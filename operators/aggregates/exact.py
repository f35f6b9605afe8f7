"""Sums as unevaluated pairs high + low: twice the precision of a double, so the order of the summands leaves no trace.

(Dekker 1971; Knuth's two-sum. A pair carries some 106 bits.)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from operators.kernel import Ints, prefix_difference

Floats = npt.NDArray[np.float64]
Pair = tuple[npt.NDArray[Any], ...]
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


def add(a: Pair, b: Pair) -> Pair:
    """Return the row-wise sum of pairs. Where it is infinite or NaN, the high part says so."""
    high = a[0] + b[0]
    part = high - a[0]
    low = (a[0] - (high - part)) + (b[0] - part)
    low += a[1]
    low += b[1]
    low = np.where(np.isfinite(high), low, 0.0)
    total = high + low
    return total, low - (total - high)


def of_ints(values: npt.NDArray[np.int64]) -> Pair:
    """Return whole numbers of 64 bits as pairs, without rounding."""
    top = (values >> 32 << 32).astype(np.float64), np.zeros(len(values))
    return add(top, ((values & 0xFFFFFFFF).astype(np.float64), np.zeros(len(values))))


def square(x: Floats) -> Pair:
    """Return x * x without rounding, but where it overflows."""
    high = x * x
    scaled = x * _SPLIT
    top = scaled - (scaled - x)
    rest = x - top
    low = ((top * top - high) + 2 * top * rest) + rest * rest
    return high, np.where(np.abs(x) < _LARGEST_SPLIT, low, 0.0)


def product(x: Floats, y: Floats) -> Pair:
    """Return x * y without rounding, but where it overflows or a factor is beyond 2**996."""
    high = x * y
    (x_top, x_rest), (y_top, y_rest) = _halves(x), _halves(y)
    low = ((x_top * y_top - high) + x_top * y_rest + x_rest * y_top) + x_rest * y_rest
    return high, np.where(np.maximum(np.abs(x), np.abs(y)) < _LARGEST_SPLIT, low, 0.0)


def times(a: Pair, factor: Floats) -> Pair:
    """Return pairs times doubles, to about twice the precision of a double."""
    high = a[0] * factor
    top, bottom = _halves(a[0])
    factor_top, factor_bottom = _halves(factor)
    low = ((top * factor_top - high) + top * factor_bottom + bottom * factor_top) + bottom * factor_bottom
    low += a[1] * factor
    total = high + low
    return total, low - (total - high)


def _halves(x: Floats) -> Pair:
    scaled = x * _SPLIT
    top = scaled - (scaled - x)
    return top, x - top


def squared(a: Pair) -> Pair:
    """Return pairs times themselves, to about twice the precision of a double."""
    return multiplied(a, a)


def multiplied(a: Pair, b: Pair) -> Pair:
    """Return pairs times pairs, to about twice the precision of a double."""
    high, low = product(a[0], b[0])
    low = low + a[0] * b[1] + a[1] * b[0]
    total = high + low
    return total, low - (total - high)


def value(pair: Pair) -> Floats:
    """Return pairs rounded to doubles: infinities and NaN as plain summation gives them."""
    high, low = pair
    return np.where(np.isfinite(high), high + low, high)


@np.errstate(all="ignore")
def sum_ranges(values: Pair, lo: Ints, hi: Ints) -> Pair | None:
    """Return the exact sum of each range [lo, hi) of pairs, or None if they do not lend themselves to it.

    The pairs are cut into whole numbers of a fixed scale, whose prefix sums can be subtracted without any rounding: O(1) a
    range however long it is, and no drift. What one scale leaves is summed at a finer one. None where values are not finite,
    or spread over too many binary digits for `_MOST_LIMBS` scales.
    """
    if not len(lo):
        return np.empty(0), np.empty(0)
    largest = max(float(values[0].max()), -float(values[0].min()))
    if not np.isfinite(largest):
        return None
    rows = np.flatnonzero(values[1])
    rest = _Addends(values[0], rows, values[1][rows])
    longest = int((hi - lo).max())
    shift = _WORD_BITS - rest.sum_exponent(longest)
    if abs(shift) < _MOST_SHIFT:
        scale = 2.0**shift
        limb = rest.rounded(scale)
        if not rest.without(limb, scale).any():
            high, low = limb.sums(lo, hi, wraps=False)
            return high / scale, low / scale
    # More digits fit into limbs whose sums may wrap.
    bits = min(_SUM_BITS - longest.bit_length(), _ROUNDED_BITS - 2 * len(values[0]).bit_length())
    shift = -int(np.frexp(largest)[1])
    total: Pair | None = None
    for _ in range(_MOST_LIMBS):
        shift += bits
        if abs(shift) >= _MOST_SHIFT:
            return None
        scale = 2.0**shift
        limb = rest.rounded(scale)
        high, low = limb.sums(lo, hi, wraps=True)
        sums = high / scale, low / scale
        total = sums if total is None else add(total, sums)
        rest = rest.without(limb, scale)
        if not rest.any():
            return total
    return None


@dataclass(frozen=True, slots=True)
class _Addends:
    """Numbers by row: one of each, and more of some, as the low parts of pairs mostly are zero.

    Attributes:
        each: shape (n,), float64.
        rows: rows that have more.
        more: what they have more, float64.
    """

    each: Floats
    rows: Ints
    more: Floats

    def rounded(self, scale: float) -> "_Addends":
        """Return the whole numbers next to the numbers times a power of two."""
        return _Addends(np.rint(self.each * scale), self.rows, np.rint(self.more * scale))

    def any(self) -> bool:
        """Return whether there is any number but 0."""
        return bool(self.each.any() or self.more.any())

    def without(self, whole: "_Addends", scale: float) -> "_Addends":
        """Return what is left of the numbers when whole numbers of that scale are taken off."""
        each, more = self.each - whole.each * (1 / scale), self.more - whole.more * (1 / scale)
        return _Addends(each, self.rows, more)

    def sum_exponent(self, longest: int) -> int:
        """Return a power of two that the sum of so many neighbours is below, whatever their signs; 1,100 if none is."""
        quarter = -(-longest // 4)
        blocks = np.add.reduceat(np.abs(self.each), np.arange(0, len(self.each), quarter))
        # A range is part of five blocks. The low parts, and what is lost in adding, are far below a thousandth.
        most = float(np.convolve(blocks, np.ones(5)).max()) * 1.001
        return int(np.frexp(most)[1]) if np.isfinite(most) else 1_100

    def sums(self, lo: Ints, hi: Ints, wraps: bool) -> Pair:
        """Return the sums of ranges of whole numbers as pairs.

        Args:
            lo, hi: the ranges.
            wraps: whether a number or a sum can be beyond 64 bits. It is then off by a multiple of 2**64, which rounded
                sums tell.
        """
        words = _modulo(self.each) if wraps else self.each.astype(np.int64)
        if len(self.rows):
            words[self.rows] += _modulo(self.more)
        total = prefix_difference(words, lo, hi)
        if not wraps:
            high = total.astype(np.float64)
            if max(float(high.max()), -float(high.min())) <= _EXACT_DOUBLE:
                return high, np.zeros(len(high))
        top, bottom = (total >> 32 << 32).astype(np.float64), (total & 0xFFFFFFFF).astype(np.float64)
        if wraps:
            about = self.each
            if len(self.rows):
                about = about.copy()
                about[self.rows] += self.more
            top += np.rint((prefix_difference(about, lo, hi) - top) / 2.0**64) * 2.0**64
        high = top + bottom
        return high, bottom - (high - top)


def _modulo(whole: Floats) -> Ints:
    """Whole numbers below 2**95, less the multiple of 2**64 that makes words of them."""
    top = np.floor(whole * 2.0**-32)
    return (top.astype(np.int64) << 32) + (whole - top * 2.0**32).astype(np.int64)
