"""The distinct values of a column, and their number."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.definitions import Aggregate, Bound, Types, is_atomic
from operators.aggregates.distinct_numbers import DistinctNumbers, distinct
from operators.aggregates.operation import Operation, runs
from operators.aggregates.operations import as_lists
from operators.aggregates.result_arrays import list_array, typed_values
from operators.aggregates.strategy import RANGES, Strategy
from operators.columns.arrow import arrow_column
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from serializers.arrays import fill
from serializers.values import canonical


@dataclass(frozen=True, slots=True)
class Distinct(Operation):
    """The distinct values, as a sorted list; all NaN are equal, and -0.0 equals 0.0."""

    part: ClassVar[str] = "values"
    strategy: ClassVar[Strategy] = RANGES

    @property
    def compared(self) -> tuple[str, ...]:
        return self.inputs[:1]

    def lift(self, records: Records) -> State:
        return (as_lists(self.read(records), canonical),)

    def combine(self, left: State, right: State) -> State:
        return (fill([distinct(a + b) for a, b in zip(left[0].tolist(), right[0].tolist(), strict=True)]),)

    def reduce(self, state: State, starts: Ints) -> State:
        lists = state[0].tolist()
        return (fill([distinct(chain.from_iterable(lists[a:b])) for a, b in runs(starts, len(lists))]),)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return ranges of the numbered values of all rows: lists are joined only when results are made."""
        return DistinctNumbers.of(state[0].tolist(), lo, hi).columns


@dataclass(frozen=True, slots=True)
class DistinctElements(Distinct):
    """The distinct elements of arrays, as a sorted list; nulls do not count."""

    def lift(self, records: Records) -> State:
        arrays = self.read(records).values.tolist()
        return (fill([distinct(canonical(v) for v in one or () if v is not None) for one in arrays]),)


class DistinctValues(Aggregate):
    """A result of the distinct values of a column; nulls do not count."""

    __slots__ = ()

    def _operation(self, types: Types) -> Distinct:
        if not is_atomic(type_ := self._type(types)):
            raise self._refuse(type_, "an atomic type")
        return Distinct(self.column, where=self.where)


class CountDistinct(DistinctValues):
    """Number of distinct values, exact."""

    __slots__ = ()

    @property
    def _name(self) -> str:
        return f"count_distinct({self.column})"

    def bind(self, types: Types) -> Bound:
        def finish(states: Sequence[State]) -> pa.Array:
            return pa.array(DistinctNumbers(*states[0]).lengths())

        return Bound((self._operation(types),), pa.int64(), finish, nullable=False)


class CollectSet(DistinctValues):
    """The distinct values in order, NaN last."""

    __slots__ = ()

    @property
    def _name(self) -> str:
        return f"collect_set({self.column})"

    def bind(self, types: Types) -> Bound:
        operation, type_ = self._operation(types), self._type(types)

        def finish(states: Sequence[State]) -> pa.Array:
            found = DistinctNumbers(*states[0])
            window, number = found.listed()
            length = np.bincount(window, minlength=len(found.begin))
            return list_array(self._name, typed_values(found.values, type_), number, length)

        return Bound((operation,), pa.list_(type_), finish, nullable=False)


class CollectUnion(Aggregate):
    """The distinct elements of the arrays of a column in order, NaN last."""

    __slots__ = ()

    @property
    def _name(self) -> str:
        return f"collect_union({self.column})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        listed = pat.is_list(type_) or pat.is_large_list(type_)
        if not listed or not is_atomic(type_.value_type):
            raise self._refuse(type_, "an array of an atomic type")
        element = type_.value_type

        def finish(states: Sequence[State]) -> pa.Array:
            found = DistinctNumbers(*states[0])
            window, number = found.listed()
            length = np.bincount(window, minlength=len(found.begin))
            # Elements are held as Python has them, and not as words.
            return list_array(self._name, arrow_column(found.values, element), number, length)

        operation = DistinctElements(self.column, where=self.where)
        return Bound((operation,), pa.list_(element), finish, nullable=False)
