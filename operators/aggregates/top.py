"""The values with the largest, or the smallest, of another column, in order of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from operators.aggregates.definitions import Aggregate, Bound, Types, is_atomic
from operators.aggregates.distinct_numbers import number_values
from operators.aggregates.operation import Operation, runs
from operators.aggregates.operations import objects_of
from operators.aggregates.percentiles import smallest
from operators.aggregates.result_arrays import list_array, values_with_nulls
from operators.aggregates.strategy import RANGES, Strategy
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from serializers.arrays import fill
from serializers.values import canonical

_ITEMS_AT_ONCE = 1 << 22
Item = list[Any]
"""`by` and the value, or the value alone where that is the same."""


@dataclass(frozen=True, slots=True)
class Top(Operation):
    """The items with the largest `by`, then the largest value, in descending order; records with a null in either do not count.

    Attributes:
        size: maximum number of items.
        by: the column to order by, or None for the values themselves.
    """

    strategy: ClassVar[Strategy] = RANGES
    descending: ClassVar[bool] = True
    nulls: ClassVar[bool] = False
    """Whether a value may be null."""
    size: int
    by: str | None

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(name for name in (self.column, self.by, self.where) if name is not None)

    @property
    def compared(self) -> tuple[str, ...]:
        return (self.column or "",) if self.by is None else (self.column or "", self.by)

    def lift(self, records: Records) -> State:
        names = [name for name in (self.by, self.column) if name is not None]
        data = [self.read(records, name) for name in names]
        there = np.ones(len(records), bool)
        for column in data[: 1 if self.nulls else None]:
            there &= True if column.valid is None else column.valid
        there &= self.counted(records)
        rows = zip(*(map(canonical, objects_of(column)) for column in data), strict=True)
        return (fill([[list(row)] if kept else [] for row, kept in zip(rows, there.tolist(), strict=True)]),)

    def combine(self, left: State, right: State) -> State:
        return (fill([self._top(a + b) for a, b in zip(left[0].tolist(), right[0].tolist(), strict=True)]),)

    def reduce(self, state: State, starts: Ints) -> State:
        lists = state[0].tolist()
        return (fill([self._top(chain.from_iterable(lists[a:b])) for a, b in runs(starts, len(lists))]),)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return the top items of each range by their place among all items, how many these are, and all values by place.

        All items are sorted once. Column n has the items that come at place n in each range; what a range lacks is 0.
        """
        lists = state[0].tolist()
        edges = np.cumsum([0, *map(len, lists)])
        flat = list(chain.from_iterable(lists))
        columns = [self._numbers(list(column)) for column in zip(*flat, strict=True)]
        order = np.lexsort(columns[::-1]) if columns else np.empty(0, np.int64)
        place = np.empty(len(flat), np.int64)
        place[order] = np.arange(len(flat))
        begin, end = edges[lo], edges[hi]
        counts = np.minimum(end - begin, self.size)
        found = np.zeros((int(counts.max(initial=0)), len(lo)), np.int64)
        filled = np.flatnonzero(counts)
        step = max(1, _ITEMS_AT_ONCE // max(1, len(found)))
        for first in range(0, len(filled), step):
            some = filled[first : first + step]
            last = (end - begin)[some] - 1
            ranks = np.minimum(np.arange(len(found))[:, None], last)
            ranks = last - ranks if self.descending else ranks
            found[:, some] = smallest(place, begin[some], end[some], ranks)
        return found, counts, fill([flat[n][-1] for n in order.tolist()])

    def _numbers(self, values: list[Any]) -> Ints:
        """The place of each value among the distinct ones; nulls are where they come last."""
        there = np.array([value is not None for value in values], bool)
        if there.all():
            return number_values(values)[1]
        found = np.full(len(values), -1 if self.descending else len(values))
        found[there] = number_values([value for value in values if value is not None])[1]
        return found

    def _top(self, items: Iterable[Item]) -> list[Item]:
        return sorted(items, key=self._place, reverse=self.descending)[: self.size]

    def _place(self, item: Item) -> list[Any]:
        """Sort key of an item; NaN is the largest value, and null comes last."""
        null = (-1 if self.descending else 2, 0)
        return [null if v is None else (v != v, 0 if v != v else v) for v in item]


@dataclass(frozen=True, slots=True)
class Bottom(Top):
    """The items with the smallest `by`, then the smallest value, in ascending order."""

    descending: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class TopBy(Top):
    """The items with the largest `by`; values may be null."""

    nulls: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class BottomBy(Bottom):
    """The items with the smallest `by`; values may be null."""

    nulls: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class TopN(Aggregate):
    """The values with the largest or the smallest `order`.

    Attributes:
        size: maximum number of values.
        order: the column to order by, or None for the values themselves.
        largest: whether it is the largest ones, not the smallest.
        nulls: whether values may be null, and the result is null without records, as in Spark's `max_by`.
    """

    size: int = field(kw_only=True)
    order: str | None = field(default=None, kw_only=True)
    largest: bool = field(default=True, kw_only=True)
    nulls: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        self._check_positive("k" if self.nulls else "n", self.size)

    @property
    def _name(self) -> str:
        if self.nulls:
            return f"{'max_by' if self.largest else 'min_by'}({self.column}, {self.order}, {self.size})"
        name = "top_n" if self.largest else "bottom_n"
        return f"{name}({self.column}, {self.size}{'' if self.order is None else f', by={self.order}'})"

    def bind(self, types: Types) -> Bound:
        type_ = self._type(types)
        for column in (self.column, *([] if self.order is None else [self.order])):
            if not is_atomic(column_type := self._type(types, column)):
                raise self._refuse(column_type, "an orderable type", column)
        kinds = ((Bottom, Top), (BottomBy, TopBy))
        operation = kinds[self.nulls][self.largest](self.column, self.size, self.order, where=self.where)

        def finish(states: Sequence[State]) -> pa.Array:
            places, length, values = states[0]
            rows = places.T[np.arange(len(places)) < length[:, None]]
            lists = list_array(self._name, values_with_nulls(values, type_), rows, length)
            if not self.nulls:
                return lists
            return pa.ListArray.from_arrays(lists.offsets, lists.values, mask=pa.array(length == 0))

        return Bound((operation,), pa.list_(type_), finish, nullable=self.nulls)
