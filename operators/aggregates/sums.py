"""Sums and means of a column."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates import exact
from operators.aggregates.definitions import Aggregate, Bound, Types, is_number
from operators.aggregates.distinct import Distinct
from operators.aggregates.distinct_numbers import DistinctNumbers
from operators.aggregates.operations import CountValid, SumDecimal, SumFloat, SumInt, SumLong, decimal_of
from operators.aggregates.result_arrays import masked, typed_values
from operators.columns.arrow import column_data
from operators.columns.ranges import State
from operators.columns.records import Records

_MOST_DIGITS = 38


class Sum(Aggregate):
    """Sum of a column; null if all values are null."""

    __slots__ = ()
    overflow_is_null: ClassVar[bool] = False

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        valid = CountValid(self.column, where=self.where)
        if pat.is_decimal(type_):
            return self._decimals(type_, valid)
        if pat.is_integer(type_) and type_.bit_width <= 32:
            return Bound((valid, SumInt(self.column, where=self.where)), pa.int64(), masked(pa.int64()))
        if pat.is_integer(type_):
            return self._longs(valid)
        if pat.is_floating(type_):
            return Bound((valid, SumFloat(self.column, where=self.where)), pa.float64(), _rounded)
        raise self._refuse(type_, "a number")

    def _longs(self, valid: CountValid) -> Bound:
        operation = SumLong(self.column, where=self.where)

        def finish(states: Sequence[State]) -> pa.Array:
            (count,), total = states
            if self.overflow_is_null:
                return pa.array(total[0], mask=(count == 0) | (total[1] != 0))
            return pa.array(operation.total(total), mask=count == 0)

        return Bound((valid, operation), pa.int64(), finish)

    def _decimals(self, type_: pa.DataType, valid: CountValid) -> Bound:
        operation = SumDecimal(self.column, type_.scale, where=self.where)
        out = pa.decimal128(min(_MOST_DIGITS, type_.precision + 10), type_.scale)

        def finish(states: Sequence[State]) -> pa.Array:
            (count,), (total,) = states
            fits = np.array([abs(units) < 10**_MOST_DIGITS for units in total.tolist()], bool)
            if not (self.overflow_is_null or fits.all()):
                raise OverflowError(
                    f"{self._name} exceeds {_MOST_DIGITS} digits: cast column {self.column!r} to double before apply"
                )
            pairs = zip((count * fits).tolist(), total.tolist(), strict=True)
            return pa.array([decimal_of(units, type_.scale) if n else None for n, units in pairs], out)

        return Bound((valid, operation), out, finish)


class TrySum(Sum):
    """Sum of a column; null, too, if it does not fit into the type of the result."""

    __slots__ = ()
    overflow_is_null: ClassVar[bool] = True

    @property
    def _name(self) -> str:
        return f"try_sum({self.column})"


class Avg(Aggregate):
    """Mean of a column; null if all values are null."""

    __slots__ = ()
    overflow_is_null: ClassVar[bool] = False

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        valid = CountValid(self.column, where=self.where)
        if pat.is_decimal(type_):
            return self._decimals(type_, valid)
        if not is_number(type_):
            raise self._refuse(type_, "a number")
        small = pat.is_integer(type_) and type_.bit_width <= 32
        total = (SumInt if small else SumFloat)(self.column, where=self.where)

        def finish(states: Sequence[State]) -> pa.Array:
            (count,), sums = states
            means = sums[0] / np.maximum(count, 1) if small else exact.mean(sums, count)
            return pa.array(means, mask=count == 0)

        return Bound((valid, total), pa.float64(), finish)

    def _decimals(self, type_: pa.DataType, valid: CountValid) -> Bound:
        """The mean as in Spark: with four more digits, rounded half away from zero."""
        scale = min(_MOST_DIGITS, type_.scale + 4)
        out = pa.decimal128(min(_MOST_DIGITS, type_.precision + 4), scale)
        operation = SumDecimal(self.column, type_.scale, where=self.where)
        raised = 10 ** (scale - type_.scale)

        def mean(count: int, total: int) -> Decimal | None:
            if not count:
                return None
            units = (2 * abs(total) * raised + count) // (2 * count)
            if units >= 10**out.precision:
                if self.overflow_is_null:
                    return None
                raise OverflowError(
                    f"{self._name} exceeds the digits of {out}: cast column {self.column!r} to double before apply"
                )
            return decimal_of(units if total >= 0 else -units, scale)

        def finish(states: Sequence[State]) -> pa.Array:
            (count,), (total,) = states
            return pa.array(list(map(mean, count.tolist(), total.tolist())), out)

        return Bound((valid, operation), out, finish)


class TryAvg(Avg):
    """Mean of a column; null, too, if it does not fit into the type of the result."""

    __slots__ = ()
    overflow_is_null: ClassVar[bool] = True

    @property
    def _name(self) -> str:
        return f"try_avg({self.column})"


class SumDistinct(Sum):
    """Sum of the distinct values of a column; null if all values are null."""

    __slots__ = ()

    @property
    def _name(self) -> str:
        return f"sum_distinct({self.column})"

    def bind(self, types: Types) -> Bound:
        bound, type_ = Sum.bind(self, types), self._type(types)
        _, total = bound.operations

        def finish(states: Sequence[State]) -> pa.Array:
            found = DistinctNumbers(*states[0])
            window, number = found.listed()
            count = np.bincount(window, minlength=len(found.begin))
            values = column_data(typed_values(found.values, type_))
            listed = Records([b""], window, window, {self.column or "": values.take(number)}, 0)
            sums = replace(total, where=None).accumulate(listed, np.flatnonzero(np.diff(window, prepend=-1)))
            filled = np.flatnonzero(count)
            whole = tuple(np.zeros(len(count), column.dtype) for column in sums)
            for column, part in zip(whole, sums, strict=True):
                column[filled] = part
            return bound.finish([(count,), whole])

        return Bound((Distinct(self.column, where=self.where),), bound.type, finish)


def _rounded(states: Sequence[State]) -> pa.Array:
    (count,), pair = states
    return pa.array(exact.value(pair), mask=count == 0)
