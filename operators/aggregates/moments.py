"""Counts, sums and sums of products of one or two columns, from which variances, covariances and regressions are computed.

A sum of squares less the square of a sum loses the digits that both have in common: all of them if a column is constant. Values
of nearly the same size are whole multiples of one unit, below 2**54 units; their products add up to less than 2**150 units in
2**42 records. So sums of products are triples, which hold this without rounding, and the difference is accurate to the last
bit. If values differ much in size, there is no cancellation, and the difference keeps its digits anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from operators.aggregates import exact
from operators.aggregates.exact import Floats, Pair, Triple
from operators.aggregates.operation import Operation
from operators.aggregates.strategy import DEDUCT, Strategy
from operators.columns.ranges import Ints, State, prefix_difference
from operators.columns.records import Records

_LARGE = 2.0**480
"""Values from here on, whose sum of squares could exceed a double, are kept in units of 2**600."""
_UNIT_EXPONENT = 600
_CANCELLED = 2.0**-20
"""If a difference is smaller than this fraction of its operands, it is computed again without rounding."""
_ROWS_AT_ONCE = 1 << 13
_NOISE = 2.0**-1071
"""The error per record in a sum of squares from products that are too small for a double."""


class SumsOfProducts(Operation):
    """Number of records without nulls, sum of each column, and sum of the products of each two columns.

    The state: the count; a pair for the sum of each column; the first two parts of the triple of each product; their third
    parts; and `scale`, whose bit n is set if column n was divided by 2**600.
    """

    __slots__ = ()
    strategy: ClassVar[Strategy] = DEDUCT

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose products are summed."""
        return (self.column or "",)

    @property
    def products(self) -> list[tuple[int, int]]:
        """The products as pairs of column numbers, squares first."""
        pairs = combinations_with_replacement(range(len(self.columns)), 2)
        return sorted(pairs, key=lambda pair: (pair[0] != pair[1], pair))

    @property
    def codes(self) -> tuple[str, ...]:
        return ("i8", *["f8"] * (2 * len(self.columns) + 3 * len(self.products)), "i8")

    def lift(self, records: Records) -> State:
        with np.errstate(all="ignore"):
            data = [self.read(records, name) for name in self.columns]
            there = [one.valid for one in data if one.valid is not None]
            complete = np.logical_and.reduce(there) if there else np.ones(len(records), bool)
            scale = np.zeros(len(records), np.int64)
            values = []
            for number, one in enumerate(data):
                x = np.asarray(one.kept(complete).values if there else one.values, np.float64)
                if len(x) and not np.abs(x).max() < _LARGE:
                    large = np.abs(x) >= _LARGE
                    scale[large] |= 1 << number
                    x = np.where(large, np.ldexp(x, -_UNIT_EXPONENT), x)
                values.append(x)
            none = np.zeros(len(records))
            sums = [(x, none) for x in values]
            products = [(*exact.product(values[a], values[b]), none) for a, b in self.products]
            return self._join(complete.astype(np.int64), sums, products, scale)

    @staticmethod
    def _join(count: Ints, sums: Sequence[Pair], products: Sequence[Triple], scale: Ints) -> State:
        firsts = [part for product in products for part in product[:2]]
        return count, *(part for pair in sums for part in pair), *firsts, *(p[2] for p in products), scale

    def sums(self, state: State) -> list[Pair]:
        """Return the sum of each column."""
        return [state[at : at + 2] for at in range(1, 1 + 2 * len(self.columns), 2)]

    def triples(self, state: State) -> list[Triple]:
        """Return the sum of each product."""
        count = len(self.products)
        first = 1 + 2 * len(self.columns)
        return [
            (*state[first + 2 * n : first + 2 * n + 2], state[first + 2 * count + n]) for n in range(count)
        ]

    def combine(self, left: State, right: State) -> State:
        with np.errstate(all="ignore"):
            scale = np.bitwise_or(left[-1], right[-1])
            if scale.any():
                left, right = self._scale(left, scale), self._scale(right, scale)
            sums = [exact.add(a, b) for a, b in zip(self.sums(left), self.sums(right), strict=True)]
            products = [
                exact.add_triples(a, b) for a, b in zip(self.triples(left), self.triples(right), strict=True)
            ]
            return self._join(left[0] + right[0], sums, products, scale)

    def _scale(self, state: State, scale: Ints) -> State:
        """The state with further columns divided by 2**600."""
        more: Ints = scale & ~state[-1]
        down = [np.where(more >> n & 1, -_UNIT_EXPONENT, 0) for n in range(len(self.columns))]
        sums = [_shift(pair, by) for pair, by in zip(self.sums(state), down, strict=True)]
        pairs = zip(self.triples(state), self.products, strict=True)
        return self._join(
            state[0], sums, [_shift(triple, down[a] + down[b]) for triple, (a, b) in pairs], scale
        )

    def reduce(self, state: State, starts: Ints) -> State:
        if 2 * len(starts) >= len(state[0]):
            return Operation.reduce(self, state, starts)
        return self.combine_ranges(state, starts, np.append(starts[1:], len(state[0])))

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        if state[-1].any():
            return Operation.combine_ranges(self, state, lo, hi)
        found = []
        for parts in (*self.sums(state), *self.triples(state)):
            total = exact.sum_ranges(parts, lo, hi)
            if total is None:
                return Operation.combine_ranges(self, state, lo, hi)
            found.append(total)
        sums, products = found[: len(self.columns)], found[len(self.columns) :]
        return self._join(prefix_difference(state[0], lo, hi), sums, products, np.zeros(len(lo), np.int64))

    def exponent(self, state: State, number: int) -> Ints:
        """Return the power of two that a column was divided by in each state."""
        return np.where(state[-1] >> number & 1, _UNIT_EXPONENT, 0)


def _shift(parts: Pair | Triple, by: Ints) -> Pair | Triple:
    return tuple(np.ldexp(part, by) for part in parts)


@dataclass(frozen=True, slots=True)
class PowerSums(SumsOfProducts):
    """Count, sum and sum of squares of a column."""

    @property
    def parts(self) -> tuple[str, ...]:
        return "count", "sum_high", "sum_low", "squares_high", "squares_low", "squares_lowest", "scale"


@dataclass(frozen=True, slots=True)
class CrossSums(SumsOfProducts):
    """Count of the records with both values, and the sums of x, y, x * x, y * y and x * y.

    Attributes:
        other: the column x; `column` is y.
    """

    other: str

    @property
    def columns(self) -> tuple[str, ...]:
        return self.other, self.column or ""

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(name for name in (self.column, self.other, self.where) if name is not None)


def deviations(count: Ints, products: Triple, a: Pair, b: Pair) -> Floats:
    """Return sums of products of the distances of two columns from their means.

    Args:
        count: number of records, shape (n,), int64; 1 for a state without records.
        products: sums of the products.
        a, b: sums of the columns.
    """
    with np.errstate(all="ignore"):
        n = count.astype(np.float64)
        minuend, subtrahend = exact.times(products[:2], n), exact.multiply(a, b)
        found = exact.value(exact.add(minuend, (-subtrahend[0], -subtrahend[1])))
        size = np.maximum(np.abs(minuend[0]), np.abs(subtrahend[0]))
        found /= n
        close = np.flatnonzero(np.abs(found) * n < size * _CANCELLED)
        for first in range(0, len(close), _ROWS_AT_ONCE):
            rows = close[first : first + _ROWS_AT_ONCE]
            parts_of_rows = [tuple(part[rows] for part in parts) for parts in (products, a, b)]
            found[rows] = _of_close_values(n[rows], *parts_of_rows)
        return found


def _of_close_values(n: Floats, products: Triple, a: Pair, b: Pair) -> Floats:
    """The same without rounding, for values of nearly the same size.

    sum((x - p) (y - q)) = sum(x y) - q sum(x) - p sum(y - q), for doubles p and q next to the means.
    """
    p, a_rest = _mean(n, a)
    q, b_rest = _mean(n, b)
    total = products
    for factor, sums in ((-q, a), (-p, b_rest)):
        for part in sums:
            total = exact.add_triples(total, (*exact.product(part, factor), np.zeros(len(n))))
    whole = exact.times((total[0], total[1]), n)
    square = exact.multiply(a_rest, b_rest)
    found = exact.value(exact.add(whole, (-square[0], -square[1]))) / n
    return np.where(np.abs(found) <= n * _NOISE, 0.0, found)


def _mean(n: Floats, total: Pair) -> tuple[Floats, Pair]:
    """The mean rounded to a double, and the sum of the distances from it."""

    def rest(mean: Floats) -> Pair:
        high, low = exact.product(n, mean)
        return exact.add(total, (-high, -low))

    mean = total[0] / n
    mean = mean + rest(mean)[0] / n
    return mean, rest(mean)


def variances(
    state: State, operation: PowerSums, freedom: int, root: bool
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return variances or standard deviations, and a mask of the states that have too few records for one.

    Args:
        state: a state of `operation`.
        operation: the operation of the column.
        freedom: 1 for a sample, 0 for the population.
        root: whether to take the square root.
    """
    count = np.maximum(state[0], 1)
    ((total,), (squares,)) = operation.sums(state), operation.triples(state)
    divisor = state[0] - freedom
    with np.errstate(all="ignore"):
        found = np.maximum(deviations(count, squares, total, total), 0.0) / np.maximum(divisor, 1)
        exponent = operation.exponent(state, 0)
        found = np.ldexp(np.sqrt(found), exponent) if root else np.ldexp(found, 2 * exponent)
    return found, divisor <= 0
