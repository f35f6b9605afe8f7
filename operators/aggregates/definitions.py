"""Aggregates as users define them, and how they are bound to the columns and types of a frame."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.category_states import CategoryRanges, CategoryStates
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
from operators.aggregates.result_arrays import list_array, map_array, masked, typed_values, values_at
from operators.columns.arrow import state_code
from operators.columns.checks import NO_TIMES_OF_DAY, check_column_name, list_columns
from operators.columns.expressions import named
from operators.columns.ranges import Ints, State
from operators.errors import DefinitionError
from serializers.arrays import one_array

if TYPE_CHECKING:
    from pyspark.sql import Column

Types = Mapping[str, pa.DataType]
Finish = Callable[[Sequence[State]], pa.Array]
INPUTS = ("column", "where", "order", "other")
"""The attributes of aggregates that name an input column."""
_NAMED = "the name of a result is the keyword, as in .aggregate(n=agg.count())"
_CAST = "cast the column that goes in, as in agg.sum(F.col('v').cast('double')), or the result"
_OF_COLUMNS = {"alias": _NAMED, "name": _NAMED, "cast": _CAST, "astype": _CAST}
"""Methods of Spark's Column that aggregates lack, and what to write."""


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

    def combining(self) -> "Bound":
        """Return the aggregate from states that can be combined: those of folds without merge keep the records."""
        return replace(self, operations=tuple(operation.combining() for operation in self.operations))


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

    def by(self, column: "str | Column", most: int = 1000) -> "ByCategory":
        """Return the aggregate for each value of a column, as a map: never null, empty without records.

        Such as `agg.sum("amount").by("category")`: map<string, double>. A value of the column is in the map exactly if a record
        that counts has it, whatever the aggregate is of these records: it may be null. Keys ascend; NaN is one of them, the
        last, and -0.0 is 0.0. Records in which the column is null do not count, as keys of maps are never null.

        The state has that of the aggregate for each value in a pane, and 24 bytes, or more for long texts. `most` is not part
        of the state: it shortens results, so that it may change, and it does not depend on how windows are made of panes.

        Args:
            column: a column of any atomic type, or on Spark an expression.
            most: the largest number of entries of a map, 1 or more. Beyond it, those with the most records stay, of ties the
                lowest.

        Raises:
            DefinitionError: `most` is not a whole number of 1 or more.
        """
        return ByCategory(named(column), of=replace(self, where=None), most=most, where=self.where)

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

    def _check_positive(self, argument: str, value: object) -> None:
        if type(value) is not int or value < 1:
            raise DefinitionError(
                f"{self._name}: {argument} must be a whole number of 1 or more, got {value!r}"
            )

    @property
    def _name(self) -> str:
        return f"{type(self).__name__.lower()}({self.column or ''})"

    def _refuse(self, type_: pa.DataType, expected: str, column: str | None = None) -> DefinitionError:
        reason = f", not {expected}: cast it before apply"
        if pat.is_time(type_):
            reason = f"; {NO_TIMES_OF_DAY}"
        return DefinitionError(f"{self._name}: column {(column or self.column)!r} is of type {type_}{reason}")


@dataclass(frozen=True, slots=True)
class ByCategory(Aggregate):
    """An aggregate for each value of a column, as a map.

    Attributes:
        of: the aggregate, without `where`.
        most: the largest number of entries: beyond it, the map has those with the most records.
    """

    of: Aggregate = field(kw_only=True)
    most: int = field(kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        self._check_positive("most", self.most)

    @property
    def _name(self) -> str:
        return f"{self.of._name}.by({self.column})"  # noqa: SLF001 - of this class

    def in_ticks(self, tick_us: int) -> "ByCategory":
        return replace(self, of=self.of.in_ticks(tick_us))

    def bind(self, types: Types) -> Bound:
        bound = self.of.bind(types).combining()
        if not is_atomic(type_ := self._type(types)):
            raise self._refuse(type_, "an atomic type")
        operations = tuple(dict.fromkeys((CountRows(None), *bound.operations)))
        at_end = bound.at_end

        def finish(states: Sequence[State]) -> pa.Array:
            found = CategoryRanges.of(states[0]).most_frequent(self.most)
            of = dict(zip(operations, found.states(operations), strict=True))
            values = one_array(bound.finish([of[operation] for operation in bound.operations]))
            keys = values_at(typed_values(found.distinct, type_), found.number)
            return map_array(self._name, keys, values, found.lengths())

        def with_ends(maps: pa.Array | pa.ChunkedArray, end: Ints) -> pa.Array:
            array = one_array(maps)
            edges = array.offsets.to_numpy().astype(np.int64)
            keys, items = (part[edges[0] : edges[-1]] for part in (array.keys, array.items))
            length = np.diff(edges)
            assert at_end is not None  # noqa: S101 - it is called for no other
            return map_array(self._name, keys, at_end(items, np.repeat(end, length)), length)

        state = CategoryStates(self.column, operations, where=self.where)
        out = pa.map_(type_, bound.type)
        return Bound((state,), out, finish, nullable=False, at_end=None if at_end is None else with_ends)


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
