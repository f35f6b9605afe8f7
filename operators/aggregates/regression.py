"""How two columns vary together: covariance, correlation and the line of least squares, from one shared state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.aggregates import exact
from operators.aggregates.definitions import Aggregate, Bound, Types, is_number
from operators.aggregates.exact import Floats
from operators.aggregates.moments import CrossSums, deviations
from operators.columns.ranges import Ints, State

_TINY = 1e-290  # below it products lose digits
_FAINT = 2.0**-960  # below it squares do


@dataclass(frozen=True, slots=True)
class Deviations:
    """Sums of products of distances from the means, one row per window.

    Attributes:
        count: records with both values.
        xx, yy, xy: the sums; exactly 0 where a column is constant, NaN where a value is not finite.
        x, y: sums of the values, as pairs.
        x_exponent, y_exponent: powers of two that the values were divided by.
    """

    count: Floats
    xx: Floats
    yy: Floats
    xy: Floats
    x: exact.Pair
    y: exact.Pair
    x_exponent: Ints
    y_exponent: Ints

    @classmethod
    def of(cls, state: State, operation: CrossSums) -> "Deviations":
        """Return the sums for the rows of a state."""
        with np.errstate(all="ignore"):
            x, y = operation.sums(state)
            squares = (x, x), (y, y), (x, y)
            count = np.maximum(state[0], 1)
            triples = operation.triples(state)
            xx, yy, xy = (
                deviations(count, products, a, b) for products, (a, b) in zip(triples, squares, strict=True)
            )
            xx, yy = np.maximum(xx, 0.0), np.maximum(yy, 0.0)
            # Variances of very small values may be too small for a double, while covariances are not.
            faint = (triples[0][0] < _FAINT * count) | (triples[1][0] < _FAINT * count)
            undefined = np.isnan(xx) | np.isnan(yy)
            xy = np.where(((xx == 0) | (yy == 0)) & ~faint, 0.0, xy)
            # An infinite value leaves a difference of infinities of either sign.
            xy = np.where(undefined, np.nan, xy)
            exponents = operation.exponent(state, 0), operation.exponent(state, 1)
            return cls(state[0].astype(np.float64), xx, yy, xy, x, y, *exponents)

    def covariance(self, divisor: Floats) -> Floats:
        """Return the sums of x * y over a divisor."""
        return np.ldexp(self.xy / divisor, self.x_exponent + self.y_exponent)

    def slope(self) -> Floats:
        """Return the slope of y over x; undefined if x is constant."""
        return np.ldexp(self._slope(), self.y_exponent - self.x_exponent)

    def _slope(self) -> Floats:
        return self.xy / np.where(self.xx == 0, 1.0, self.xx)

    def intercept(self) -> Floats:
        """Return the y of the line at x = 0."""
        high, low = exact.times(self.x, self._slope())
        rest = exact.value(exact.add(self.y, (-high, -low)))
        return np.ldexp(rest / np.maximum(self.count, 1), self.y_exponent)

    def mean_of(self, total: exact.Pair, exponent: Ints) -> Floats:
        """Return the mean of a column."""
        return np.ldexp(exact.value(total) / np.maximum(self.count, 1), exponent)

    def correlation(self) -> Floats:
        """Return Pearson's correlation; undefined if a column is constant."""
        square = self.xx * self.yy
        fits = (square > _TINY) & np.isfinite(square)
        root = np.where(fits, np.sqrt(square), np.sqrt(self.xx) * np.sqrt(self.yy))
        return np.clip(self.xy / root, -1.0, 1.0)


Formula = Callable[[Deviations], tuple[Floats, npt.NDArray[np.bool_]]]
"""Computes the results, and a mask of the rows without one."""


@dataclass(frozen=True, slots=True)
class Together(Aggregate):
    """A number from two columns; records with a null in either do not count.

    Attributes:
        other: the column x; `column` is y.
        kind: a key of `FORMULAS`, "regr_count", or "linear_trend" for slope and intercept.
    """

    other: str = field(kw_only=True)
    kind: str = field(kw_only=True)

    @property
    def _name(self) -> str:
        return f"{self.kind}({self.column}, {self.other})"

    def bind(self, types: Types) -> Bound:
        for column in (self.column, self.other):
            if not is_number(type_ := self._type(types, column)):
                raise self._refuse(type_, "an integer or floating-point number", column)
        operation = CrossSums(self.column, self.other, where=self.where)
        if self.kind == "linear_trend":
            return Bound((operation,), _TREND, lambda states: _trend(Deviations.of(states[0], operation)))
        if self.kind == "regr_count":
            return Bound((operation,), pa.int64(), lambda states: pa.array(states[0][0]), nullable=False)
        formula = FORMULAS[self.kind]

        def finish(states: Sequence[State]) -> pa.Array:
            with np.errstate(all="ignore"):
                values, missing = formula(Deviations.of(states[0], operation))
            return pa.array(values, mask=missing)

        return Bound((operation,), pa.float64(), finish)


_TREND = pa.struct([("slope", pa.float64()), ("intercept", pa.float64())])


def _trend(found: Deviations) -> pa.Array:
    with np.errstate(all="ignore"):
        parts = [pa.array(found.slope()), pa.array(found.intercept())]
        return pa.StructArray.from_arrays(parts, fields=list(_TREND), mask=pa.array(found.xx == 0))


FORMULAS: dict[str, Formula] = {
    "covar_pop": lambda d: (d.covariance(d.count), d.count == 0),
    "covar_samp": lambda d: (d.covariance(d.count - 1), d.count <= 1),
    "corr": lambda d: (
        d.correlation(),
        (d.count <= 1) | (d.xx == 0) | (d.yy == 0),
    ),
    "regr_slope": lambda d: (d.slope(), d.xx == 0),
    "regr_intercept": lambda d: (d.intercept(), d.xx == 0),
    "regr_avgx": lambda d: (d.mean_of(d.x, d.x_exponent), d.count == 0),
    "regr_avgy": lambda d: (d.mean_of(d.y, d.y_exponent), d.count == 0),
    "regr_sxx": lambda d: (np.ldexp(d.xx, 2 * d.x_exponent), d.count == 0),
    "regr_syy": lambda d: (np.ldexp(d.yy, 2 * d.y_exponent), d.count == 0),
    "regr_sxy": lambda d: (np.ldexp(d.xy, d.x_exponent + d.y_exponent), d.count == 0),
    "regr_r2": lambda d: (
        np.where(d.yy == 0, 1.0, d.correlation() ** 2),
        (d.count == 0) | (d.xx == 0),
    ),
}
