"""What a user asks for: aggregates by name, bound to a frame's columns and types before anything runs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates import exact
from operators.aggregates.operation import Operation
from operators.aggregates.operations import (
    Collect,
    CountRows,
    CountValid,
    Max,
    Min,
    Moments,
    ObjectExtreme,
    SumDecimal,
    SumFloat,
    SumInt,
)
from operators.columns import arrow_column, state_code
from operators.errors import DefinitionError
from operators.kernel import State

Types = Mapping[str, pa.DataType]
Finish = Callable[[Sequence[State]], pa.Array]
_MOST_DIGITS = 38
_MOST_VALUES = 2**31


@dataclass(frozen=True, slots=True)
class Bound:
    """An aggregate bound to column types.

    Attributes:
        operations: the states it is made from.
        type: Arrow type of its result.
        finish: makes the results from those states, one row each; leaves the states alone.
        nullable: whether a result can be null.
    """

    operations: tuple[Operation, ...]
    type: pa.DataType
    finish: Finish
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Aggregate(ABC):
    """One result column of a window.

    Attributes:
        column: input column, or None.
    """

    column: str | None

    @abstractmethod
    def bind(self, types: Types) -> Bound:
        """Return the aggregate for a frame with these column types.

        Raises:
            DefinitionError: the column is missing or of a type that this aggregate does not take.
        """

    def _type(self, types: Types) -> pa.DataType:
        if self.column is None or self.column not in types:
            raise DefinitionError(
                f"{self._name}: there is no column {self.column!r}; the frame has {', '.join(types)}"
            )
        return types[self.column]

    @property
    def _name(self) -> str:
        return f"{type(self).__name__.lower()}({self.column or ''})"

    def _refuse(self, type_: pa.DataType, wanted: str) -> DefinitionError:
        return DefinitionError(
            f"{self._name}: column {self.column!r} is {type_}, {wanted} is wanted; cast it before apply"
        )


class Count(Aggregate):
    """Number of records, or of those whose column is not null."""

    __slots__ = ()

    def bind(self, types: Types) -> Bound:
        if self.column is not None:
            self._type(types)
        operation = CountRows(None) if self.column is None else CountValid(self.column)
        return Bound((operation,), pa.int64(), lambda states: pa.array(states[0][0]), nullable=False)


class Sum(Aggregate):
    """Sum of a column; null where every value is null."""

    __slots__ = ()

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        valid = CountValid(self.column)
        if pat.is_decimal(type_):
            return self._decimals(type_, valid)
        if pat.is_integer(type_):
            return Bound((valid, SumInt(self.column)), pa.int64(), _masked(pa.int64()))
        if pat.is_floating(type_):
            return Bound((valid, SumFloat(self.column)), pa.float64(), _rounded)
        raise self._refuse(type_, "a number")

    def _decimals(self, type_: pa.DataType, valid: CountValid) -> Bound:
        operation = SumDecimal(self.column, type_.scale)
        out = pa.decimal128(min(_MOST_DIGITS, type_.precision + 10), type_.scale)

        def finish(states: Sequence[State]) -> pa.Array:
            (count,), (total,) = states
            if any(abs(units) >= 10**_MOST_DIGITS for units in total.tolist()):
                raise OverflowError(
                    f"{self._name} has more than {_MOST_DIGITS} digits: cast column {self.column!r} to double before apply"
                )
            pairs = zip(count.tolist(), total.tolist(), strict=True)
            return pa.array([operation.decimal(units) if n else None for n, units in pairs], out)

        return Bound((valid, operation), out, finish)


class Avg(Aggregate):
    """Mean of a column; null where every value is null."""

    __slots__ = ()

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        if not (pat.is_integer(type_) or pat.is_floating(type_)):
            raise self._refuse(type_, "an integer or floating-point number")
        small = pat.is_integer(type_) and type_.bit_width <= 32
        total = SumInt(self.column) if small else SumFloat(self.column)

        def finish(states: Sequence[State]) -> pa.Array:
            (count,), sums = states
            total = sums[0] if small else exact.value(sums)
            return pa.array(total / np.maximum(count, 1), mask=count == 0)

        return Bound((CountValid(self.column), total), pa.float64(), finish)


@dataclass(frozen=True, slots=True)
class Extremum(Aggregate):
    """Smallest or largest value of a column that has an order; null where every value is null.

    Attributes:
        largest: which of the two.
    """

    largest: bool

    @property
    def _name(self) -> str:
        return f"{'max' if self.largest else 'min'}({self.column})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        if pat.is_nested(type_) or pat.is_null(type_) or pat.is_time(type_):
            raise self._refuse(type_, "a type with an order")
        code = state_code(type_)
        if code == "object":
            return Bound(
                (ObjectExtreme(self.column, self.largest),),
                type_,
                lambda states: pa.array(states[0][0].tolist(), type_),
            )
        operation = (Max if self.largest else Min)(self.column, code)
        return Bound((CountValid(self.column), operation), type_, _masked(type_))


@dataclass(frozen=True, slots=True)
class Spread(Aggregate):
    """Variance or standard deviation of a column; null where there are too few values.

    Attributes:
        freedom: 1 for a sample, 0 for the population.
        root: whether to take the square root.
    """

    freedom: int
    root: bool

    @property
    def _name(self) -> str:
        return f"{'stddev' if self.root else 'variance'}({self.column})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        if not (pat.is_integer(type_) or pat.is_floating(type_)):
            raise self._refuse(type_, "an integer or floating-point number")

        operation = Moments(self.column)

        def finish(states: Sequence[State]) -> pa.Array:
            divisor = states[0][0] - self.freedom
            variance = operation.spread(states[0]) / np.maximum(divisor, 1)
            return pa.array(np.sqrt(variance) if self.root else variance, mask=divisor <= 0)

        return Bound((operation,), pa.float64(), finish)


class CollectList(Aggregate):
    """Values of a column in order of event time, nulls left out."""

    __slots__ = ()

    @property
    def _name(self) -> str:
        return f"collect_list({self.column})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        if pat.is_nested(type_) or pat.is_time(type_):
            raise self._refuse(type_, "an atomic type")

        def finish(states: Sequence[State]) -> pa.Array:
            flat, begin, end = states[0]
            length = end - begin
            offsets = np.concatenate([[0], np.cumsum(length)])
            if offsets[-1] >= _MOST_VALUES:
                raise OverflowError(
                    f"{self._name} has {offsets[-1]} values to emit at once, {_MOST_VALUES} is the limit of a list column: "
                    "use smaller windows or batches"
                )
            dtype = {"i8": np.int64, "f8": np.float64}.get(state_code(type_))
            values = arrow_column(flat if dtype is None else flat.astype(dtype), type_)
            rows = np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], length)
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.take(pa.array(rows)))

        return Bound((Collect(self.column),), pa.list_(type_), finish, nullable=False)


def _rounded(states: Sequence[State]) -> pa.Array:
    (count,), pair = states
    return pa.array(exact.value(pair), mask=count == 0)


def _masked(type_: pa.DataType) -> Finish:
    def finish(states: Sequence[State]) -> pa.Array:
        (count,), (values,) = states
        missing = count == 0
        return arrow_column(values, type_, missing if missing.any() else None)

    return finish
