"""Products that neither overflow nor vanish on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from operators.aggregates import exact
from operators.aggregates.definitions import Aggregate, Bound, Types, is_number
from operators.aggregates.exact import Floats
from operators.aggregates.operation import Operation
from operators.aggregates.operations import CountValid
from operators.aggregates.strategy import DOUBLING, Strategy
from operators.columns.ranges import Ints, State
from operators.columns.records import Records


@dataclass(frozen=True, slots=True)
class Multiply(Operation):
    """Product of numbers, as a pair of twice the precision of a double from 0.5 to 1, and a power of two."""

    strategy: ClassVar[Strategy] = DOUBLING

    @property
    def codes(self) -> tuple[str, ...]:
        return "f8", "f8", "i8"

    @property
    def parts(self) -> tuple[str, ...]:
        return "high", "low", "exponent"

    def lift(self, records: Records) -> State:
        values = self.read(records).filled(1)
        high, low = exact.of_ints(values) if values.dtype == np.int64 else (values, np.zeros(len(values)))
        return scaled(high, low, np.zeros(len(values), np.int64))

    def combine(self, left: State, right: State) -> State:
        with np.errstate(all="ignore"):
            high, low = exact.multiply((left[0], left[1]), (right[0], right[1]))
            low = np.where(np.isfinite(high), low, 0.0)
        return scaled(high, low, left[2] + right[2])


def scaled(high: Floats, low: Floats, exponent: Ints) -> State:
    """Return pairs times a power of two with a high part from 0.5 to 1; zero, infinity and NaN stay what they are."""
    mantissa, more = np.frexp(high)
    return mantissa, np.ldexp(low, -more), exponent + more


class Product(Aggregate):
    """Product of a column; null without values."""

    __slots__ = ()

    def bind(self, types: Types) -> Bound:
        if not is_number(type_ := self._type(types)):
            raise self._refuse(type_, "an integer or floating-point number")

        def finish(states: Sequence[State]) -> pa.Array:
            (count,), (high, low, exponent) = states
            return pa.array(exact.shift(high + low, exponent) + 0.0, mask=count == 0)

        valid = CountValid(self.column, where=self.where)
        return Bound((valid, Multiply(self.column, where=self.where)), pa.float64(), finish)
