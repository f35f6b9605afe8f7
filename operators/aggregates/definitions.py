"""Aggregates as users define them, and how they are bound to the columns and types of a frame."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.moments import PowerSums, variances
from operators.aggregates.operation import Operation
from operators.aggregates.operations import (
    Collect,
    CountRows,
    CountValid,
    Max,
    Min,
    ObjectExtreme,
    SumInt,
)
from operators.aggregates.over import OverLookbacks
from operators.columns.arrow import arrow_column, state_code
from operators.columns.checks import check_column_name, list_columns
from operators.columns.ranges import Ints, State
from operators.errors import DefinitionError

Types = Mapping[str, pa.DataType]
Finish = Callable[[Sequence[State]], pa.Array]
INPUTS = ("column", "where", "by", "other")
"""The attributes of aggregates that name an input column."""
_NAMED = "the name of a result is the keyword, as in .aggregate(n=agg.count())"
_CAST = "cast the column that goes in, as in agg.sum(F.col('v').cast('double')), or the result"
_OF_COLUMNS = {"alias": _NAMED, "name": _NAMED, "cast": _CAST, "astype": _CAST}
"""Methods of Spark's Column that aggregates lack, and what to write."""
_MOST_VALUES = 2**31


@dataclass(frozen=True, slots=True)
class Bound:
    """An aggregate bound to column types.

    Attributes:
        operations: the states that the result is computed from.
        type: Arrow type of the result.
        finish: computes the results from these states, one row each; does not change the states.
        nullable: whether a result can be null.
        at_end: makes the results of what `finish` returns and of the ends of windows in ticks; None if `finish` makes them.
    """

    operations: tuple[Operation, ...]
    type: pa.DataType
    finish: Finish
    nullable: bool = True
    at_end: Callable[[pa.Array | pa.ChunkedArray, Ints], pa.Array] | None = None


@dataclass(frozen=True, slots=True)
class Aggregate(ABC):
    """One result column of a window.

    Attributes:
        column: input column, or None. Here and in `where`, an expression of Spark until `apply` makes it a column.
        where: a boolean column, or None: records where it is not true do not count.
    """

    column: str | None
    where: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for role in INPUTS:
            column = getattr(self, role, None)
            if column is not None:
                check_column_name("an aggregate" if role != "where" else "where", column)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{said}: {_OF_COLUMNS[name]}" if name in _OF_COLUMNS else said)

    def over(self, *lookbacks: str) -> OverLookbacks:
        """Return the aggregate of rolling windows limited to these lookbacks, given by name."""
        if not lookbacks or not all(isinstance(name, str) for name in lookbacks):
            raise DefinitionError(
                f"over takes names of lookbacks, such as over('1h', '1d'), not {lookbacks!r}"
            )
        return OverLookbacks(self, tuple(dict.fromkeys(lookbacks)))

    def in_ticks(self, tick_us: int) -> "Aggregate":
        """Return the aggregate for event times in ticks of so many microseconds."""
        del tick_us
        return self

    @abstractmethod
    def bind(self, types: Types) -> Bound:
        """Return the aggregate for a frame with these column types.

        Raises:
            DefinitionError: the column is missing or has a type that this aggregate does not support.
        """

    def _type(self, types: Types, column: str | None = None) -> pa.DataType:
        """The type of a column, by default `column`; `where` is checked as well."""
        self._check_where(types)
        return self._known(types, self.column if column is None else column)

    def _check_where(self, types: Types) -> None:
        if self.where is not None and self.where not in types:
            raise DefinitionError(
                f"{self._name}: where must be the name of a boolean column: column {self.where!r} does not exist; "
                f"the frame has the columns {list_columns(self.where, types)}"
            )
        if self.where is not None and not pat.is_boolean(type_ := types[self.where]):
            raise self._refuse(type_, "a boolean", self.where)

    def _known(self, types: Types, column: str | None) -> pa.DataType:
        if column is None or column not in types:
            raise DefinitionError(
                f"{self._name}: column {column!r} does not exist; "
                f"the frame has the columns {list_columns(column or '', types)}"
            )
        return types[column]

    @property
    def _name(self) -> str:
        return f"{type(self).__name__.lower()}({self.column or ''})"

    def _refuse(self, type_: pa.DataType, expected: str, column: str | None = None) -> DefinitionError:
        return DefinitionError(
            f"{self._name}: column {(column or self.column)!r} is of type {type_}, not {expected}: cast it before apply"
        )


class Count(Aggregate):
    """Number of records, or of those whose column is not null."""

    __slots__ = ()

    def bind(self, types: Types) -> Bound:
        self._check_where(types)
        if self.column is not None:
            self._type(types)
        kind = CountRows if self.column is None else CountValid
        operation = kind(self.column, where=self.where)
        return Bound((operation,), pa.int64(), lambda states: pa.array(states[0][0]), nullable=False)


class CountIf(Aggregate):
    """Number of records in which a boolean column is true."""

    __slots__ = ()

    @property
    def _name(self) -> str:
        return f"count_if({self.column})"

    def bind(self, types: Types) -> Bound:
        if not pat.is_boolean(type_ := self._type(types)):
            raise self._refuse(type_, "a boolean")
        operation = SumInt(self.column, where=self.where)
        return Bound((operation,), pa.int64(), lambda states: pa.array(states[0][0]), nullable=False)


@dataclass(frozen=True, slots=True)
class Extremum(Aggregate):
    """Smallest or largest value of a column that has an order; null if all values are null.

    Attributes:
        largest: whether it is the largest value.
    """

    largest: bool

    @property
    def _name(self) -> str:
        return f"{'max' if self.largest else 'min'}({self.column})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        if not is_atomic(type_):
            raise self._refuse(type_, "an orderable type")
        code = state_code(type_)
        if code == "object":
            return Bound(
                (ObjectExtreme(self.column, self.largest, where=self.where),),
                type_,
                lambda states: pa.array(states[0][0].tolist(), type_),
            )
        operation = (Max if self.largest else Min)(self.column, code, where=self.where)
        return Bound((CountValid(self.column, where=self.where), operation), type_, masked(type_))


@dataclass(frozen=True, slots=True)
class Spread(Aggregate):
    """Variance or standard deviation of a column; null if there are too few values.

    Attributes:
        freedom: 1 for a sample, 0 for the population.
        root: whether to take the square root.
    """

    freedom: int
    root: bool

    @property
    def _name(self) -> str:
        sample, population = ("stddev", "stddev_pop") if self.root else ("variance", "var_pop")
        return f"{sample if self.freedom else population}({self.column})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        if not is_number(type_):
            raise self._refuse(type_, "an integer or floating-point number")
        operation = PowerSums(self.column, where=self.where)

        def finish(states: Sequence[State]) -> pa.Array:
            found, missing = variances(states[0], operation, self.freedom, self.root)
            return pa.array(found, mask=missing)

        return Bound((operation,), pa.float64(), finish)


class CollectList(Aggregate):
    """Values of a column in order of event time, without nulls."""

    __slots__ = ()

    @property
    def _name(self) -> str:
        return f"collect_list({self.column})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        if not (is_atomic(type_) or pat.is_null(type_)):
            raise self._refuse(type_, "an atomic type")

        def finish(states: Sequence[State]) -> pa.Array:
            flat, begin, end = states[0]
            length = end - begin
            first = np.cumsum(length) - length
            rows = np.arange(int(length.sum())) + np.repeat(begin - first, length)
            return list_array(self._name, typed_values(flat, type_), rows, length)

        operation = Collect(self.column, where=self.where)
        return Bound((operation,), pa.list_(type_), finish, nullable=False)


class Truth(Extremum):
    """Whether a boolean column is true in all records, or in any; null if all values are null."""

    __slots__ = ()

    @property
    def _name(self) -> str:
        return f"{'bool_or' if self.largest else 'bool_and'}({self.column})"

    def bind(self, types: Types) -> Bound:
        if not pat.is_boolean(type_ := self._type(types)):
            raise self._refuse(type_, "a boolean")
        return Extremum.bind(self, types)


def is_number(type_: pa.DataType) -> bool:
    """Whether values of this type are processed as integers or doubles."""
    return pat.is_integer(type_) or pat.is_floating(type_)


def is_atomic(type_: pa.DataType) -> bool:
    """Whether a type is not nested and its values have an order."""
    return not (pat.is_nested(type_) or pat.is_null(type_) or pat.is_time(type_) or pat.is_interval(type_))


def list_array(name: str, values: pa.Array, rows: Ints, length: Ints) -> pa.Array:
    """Return lists of the values at `rows`, with these lengths one after another.

    Raises:
        OverflowError: there are more values than a list column can hold.
    """
    if len(rows) >= _MOST_VALUES:
        raise OverflowError(
            f"{name}: {len(rows)} values at once exceed the limit of a list column, {_MOST_VALUES}: "
            "use smaller windows or batches"
        )
    offsets = np.concatenate([[0], np.cumsum(length)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.take(pa.array(rows)))


def typed_values(values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    """Return Python values of a state as an Arrow column of the type; -0.0 becomes 0.0."""
    dtype = {"i8": np.int64, "f8": np.float64}.get(state_code(type_))
    return arrow_column(values if dtype is None else one_zero(values.astype(dtype)), type_)


def one_zero(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values with -0.0 replaced by 0.0: the two are equal, but would be written as different values."""
    return values + 0.0 if values.dtype == np.float64 else values


def masked(type_: pa.DataType) -> Finish:
    """Return what makes results of a count and of values: null where the count is 0."""

    def finish(states: Sequence[State]) -> pa.Array:
        (count,), (values,) = states
        missing = count == 0
        return arrow_column(one_zero(values), type_, missing if missing.any() else None)

    return finish
