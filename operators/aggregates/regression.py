"""How two columns vary together: covariance, correlation and the line of least squares, from one shared state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.aggregates import exact
from operators.aggregates.definitions import Aggregate, Bound, Types, is_number
from operators.aggregates.operation import Operation
from operators.batch import Records
from operators.kernel import Ints, State, prefix_difference

Floats = npt.NDArray[np.float64]
_TINY = 1e-290  # below it products lose digits
_NOISE = 2.0**-96  # what the rounding of some million pairs may leave of a difference that is 0


@dataclass(frozen=True, slots=True)
class CoMoments(Operation):
    """Count of the records with both values, and the sums of x, y, x * x, y * y and x * y, in twice the precision.

    Attributes:
        other: the column x; `column` is y.
    """

    other: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(name for name in (self.column, self.other, self.where) if name is not None)

    @property
    def codes(self) -> tuple[str, ...]:
        return ("i8", *["f8"] * 10)

    @np.errstate(all="ignore")
    def lift(self, records: Records) -> State:
        data = self.read(records), self.read(records, self.other)
        both = np.ones(len(records), bool)
        for one in data:
            both &= True if one.valid is None else one.valid
        y, x = (np.asarray(one.kept(both).values, np.float64) for one in data)
        none = np.zeros(len(records))
        squares = *exact.square(x), *exact.square(y), *exact.product(x, y)
        return both.astype(np.int64), x, none, y, none, *squares

    @np.errstate(all="ignore")
    def combine(self, left: State, right: State) -> State:
        sums = (exact.add(left[at : at + 2], right[at : at + 2]) for at in range(1, 11, 2))
        return left[0] + right[0], *(column for pair in sums for column in pair)

    def combined(self, state: State, lo: Ints, hi: Ints) -> State:
        columns = [prefix_difference(state[0], lo, hi)]
        for at in range(1, 11, 2):
            sums = exact.sum_ranges(state[at : at + 2], lo, hi)
            if sums is None:
                return Operation.combined(self, state, lo, hi)
            columns += sums
        return tuple(columns)


@dataclass(frozen=True, slots=True)
class Deviations:
    """Sums of products of distances from the means, one row per window.

    Attributes:
        count: records with both values.
        xx, yy, xy: the sums; exactly 0 where a column is constant, NaN where a value is not finite.
        x, y: sums of the values, as pairs.
    """

    count: Floats
    xx: Floats
    yy: Floats
    xy: Floats
    x: exact.Pair
    y: exact.Pair

    @classmethod
    @np.errstate(all="ignore")
    def of(cls, state: State) -> "Deviations":
        """Return what a state says: (n * sum(a * b) - sum(a) * sum(b)) / n for each two columns."""
        count = np.maximum(state[0], 1).astype(np.float64)
        x, y = state[1:3], state[3:5]

        def products(pair: State, a: State, b: State) -> Floats:
            high, low = exact.times(pair, count)
            minus_high, minus_low = exact.multiplied(a, b)
            return exact.value(exact.add((high, low), (-minus_high, -minus_low)))

        xx, yy = (
            np.where(spread <= _NOISE * count * pair[0], 0.0, spread)
            for pair, spread in (
                (state[5:7], products(state[5:7], x, x)),
                (state[7:9], products(state[7:9], y, y)),
            )
        )
        constant = (xx == 0) | (yy == 0)
        spoilt = np.isnan(xx) | np.isnan(yy)
        xy = np.where(constant & ~spoilt, 0.0, products(state[9:11], x, y))
        return cls(state[0].astype(np.float64), xx / count, yy / count, xy / count, x, y)

    def slope(self) -> Floats:
        """Return how much y grows with x; where x is constant it means nothing."""
        return self.xy / np.where(self.xx == 0, 1.0, self.xx)

    def intercept(self) -> Floats:
        """Return the line's y where x is 0."""
        high, low = exact.times(self.x, self.slope())
        rest = exact.value(exact.add(self.y, (-high, -low)))
        return rest / np.maximum(self.count, 1)

    def correlation(self) -> Floats:
        """Return Pearson's correlation; where a column is constant it means nothing."""
        square = self.xx * self.yy
        fits = (square > _TINY) & np.isfinite(square)
        root = np.where(fits, np.sqrt(square), np.sqrt(self.xx) * np.sqrt(self.yy))
        return np.clip(self.xy / root, -1.0, 1.0)


Formula = Callable[[Deviations], tuple[Floats, npt.NDArray[np.bool_]]]
"""The results, and where there is none."""


@dataclass(frozen=True, slots=True)
class Together(Aggregate):
    """A number from two columns; records with a null in either do not count.

    Attributes:
        other: the column x; `column` is y.
        kind: which number, a key of `FORMULAS`, or "linear_trend" for slope and intercept.
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
        operation = CoMoments(self.column, self.other, where=self.where)
        if self.kind == "linear_trend":
            return Bound((operation,), _TREND, _trend)
        formula = FORMULAS[self.kind]

        def finish(states: Sequence[State]) -> pa.Array:
            with np.errstate(all="ignore"):
                values, missing = formula(Deviations.of(states[0]))
            return pa.array(values, mask=missing)

        return Bound((operation,), pa.float64(), finish)


_TREND = pa.struct([("slope", pa.float64()), ("intercept", pa.float64())])


@np.errstate(all="ignore")
def _trend(states: Sequence[State]) -> pa.Array:
    found = Deviations.of(states[0])
    parts = [pa.array(found.slope()), pa.array(found.intercept())]
    return pa.StructArray.from_arrays(parts, fields=list(_TREND), mask=pa.array(found.xx == 0))


FORMULAS: dict[str, Formula] = {
    "covar_pop": lambda d: (d.xy / d.count, d.count == 0),
    "covar_samp": lambda d: (d.xy / (d.count - 1), d.count <= 1),
    "corr": lambda d: (
        d.correlation(),
        (d.count <= 1) | (d.xx == 0) | (d.yy == 0),
    ),
    "regr_slope": lambda d: (d.slope(), d.xx == 0),
    "regr_intercept": lambda d: (d.intercept(), d.xx == 0),
}
