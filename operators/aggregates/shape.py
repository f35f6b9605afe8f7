"""Skewness and kurtosis from central moments, which are merged without differences of large sums.

(Pebay 2008, Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical moments.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from operators.aggregates.definitions import Aggregate, Bound, Types, is_number
from operators.aggregates.operation import Operation
from operators.aggregates.strategy import DOUBLING, Strategy
from operators.columns.ranges import State
from operators.columns.records import Records


@dataclass(frozen=True, slots=True)
class CentralMoments(Operation):
    """Count, mean, and sums of the second, third and fourth powers of the distances from the mean."""

    strategy: ClassVar[Strategy] = DOUBLING

    @property
    def codes(self) -> tuple[str, ...]:
        return "i8", *["f8"] * 4

    @property
    def parts(self) -> tuple[str, ...]:
        return "count", "mean", "squares", "cubes", "fourths"

    def lift(self, records: Records) -> State:
        data = self.read(records)
        values = np.asarray(data.filled(0), np.float64)
        there = np.ones(len(values), np.int64) if data.valid is None else data.valid.astype(np.int64)
        # Infinity has no distance from itself: its moments are NaN, like those of NaN.
        rest = np.where(np.isfinite(values), 0.0, np.nan)
        return there, np.where(np.isfinite(values), values, np.nan), rest, rest.copy(), rest.copy()

    def combine(self, left: State, right: State) -> State:
        with np.errstate(all="ignore"):
            return self._merged(left, right)

    @staticmethod
    def _merged(left: State, right: State) -> State:
        (na, mean_a, a2, a3, a4), (nb, mean_b, b2, b3, b4) = left, right
        count = na + nb
        n = np.maximum(count, 1).astype(np.float64)
        # Where one side has no records, it has no mean either.
        delta = np.where((na > 0) & (nb > 0), mean_b - mean_a, 0.0)
        start = np.where(na > 0, mean_a, mean_b)
        step = delta / n
        mean = start + step * nb
        product = delta * step * na * nb
        m2 = a2 + b2 + product
        m3 = a3 + b3 + product * step * (na - nb) + 3 * step * (na * b2 - nb * a2)
        m4 = (
            a4
            + b4
            + product * step * step * (na * na - na * nb + nb * nb)
            + 6 * step * step * (na * na * b2 + nb * nb * a2)
            + 4 * step * (na * b3 - nb * a3)
        )
        return count, mean, m2, m3, m4


@dataclass(frozen=True, slots=True)
class Shape(Aggregate):
    """Skewness, or excess kurtosis, of the population; null without values, or if all are equal.

    Attributes:
        kind: "skewness" or "kurtosis".
    """

    kind: str = field(kw_only=True)

    @property
    def _name(self) -> str:
        return f"{self.kind}({self.column})"

    def bind(self, types: Types) -> Bound:
        if not is_number(type_ := self._type(types)):
            raise self._refuse(type_, "an integer or floating-point number")

        def finish(states: Sequence[State]) -> pa.Array:
            count, _, m2, m3, m4 = states[0]
            with np.errstate(all="ignore"):
                skewed = self.kind == "skewness"
                found = np.sqrt(count / m2) * m3 / m2 if skewed else count * m4 / (m2 * m2) - 3.0
            return pa.array(found + 0.0, mask=(count == 0) | (m2 == 0))

        return Bound((CentralMoments(self.column, where=self.where),), pa.float64(), finish)
