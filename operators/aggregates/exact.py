"""Sums as unevaluated pairs high + low: twice the precision of a double, so the order of the summands leaves no trace.

(Dekker 1971; Knuth's two-sum. A pair carries some 106 bits.)
"""

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
_LIMB_BITS = 58
_MOST_ROUNDED = 2**26
"""Rows up to which rounded prefix sums of limbs are right to 2**60: n additions, each off by 2**-53 of n * 2**58 at most."""
_MOST_LIMBS = 3


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

    The pairs are cut into whole numbers of a few fixed scales, whose prefix sums can be subtracted without any rounding:
    O(1) a range however long it is, and no drift. None where values are not finite, or spread over too many binary digits
    for `_MOST_LIMBS` scales.
    """
    if not len(lo):
        return np.empty(0), np.empty(0)
    rest = [values[0], values[1]] if values[1].any() else [values[0]]
    largest = max(float(rest[0].max()), -float(rest[0].min()))
    if not np.isfinite(largest):
        return None
    _, exponent = np.frexp(largest)
    sum_bits = int((hi - lo).max()).bit_length()
    bits = _LIMB_BITS if len(rest[0]) <= _MOST_ROUNDED else _WORD_BITS - 1 - sum_bits
    total: Pair | None = None
    scale = float(np.ldexp(1.0, int(np.clip(bits - exponent, -1000, 1000))))
    for _ in range(_MOST_LIMBS):
        wholes = [np.rint(part * scale) for part in rest]
        limb = sum((whole.astype(np.int64) for whole in wholes[1:]), wholes[0].astype(np.int64))
        high, low = _whole_sums(limb, lo, hi, wraps=bits + 1 + sum_bits > _WORD_BITS)
        sums = high / scale, low / scale
        total = sums if total is None else add(total, sums)
        rest = [part - whole / scale for part, whole in zip(rest, wholes, strict=True)]
        if not any(part.any() for part in rest):
            return total
        scale *= 2.0**bits
        if not 2.0**-1000 < scale < 2.0**1000:
            return None
    return None


def _whole_sums(whole: Ints, lo: Ints, hi: Ints, wraps: bool) -> Pair:
    """Sums of ranges of whole numbers as pairs.

    Args:
        whole: the numbers.
        lo, hi: the ranges.
        wraps: whether a sum can be beyond 64 bits. It is then off by a multiple of 2**64, which rounded sums tell.
    """
    total = prefix_difference(whole, lo, hi)
    if not wraps:
        high = total.astype(np.float64)
        if max(float(high.max()), -float(high.min())) <= _EXACT_DOUBLE:
            return high, np.zeros(len(high))
    top, bottom = (total >> 32 << 32).astype(np.float64), (total & 0xFFFFFFFF).astype(np.float64)
    if wraps:
        top += np.rint((prefix_difference(whole.astype(np.float64), lo, hi) - top) / 2.0**64) * 2.0**64
    high = top + bottom
    return high, bottom - (high - top)
