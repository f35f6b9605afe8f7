"""The distinct values of a column, and their number."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from operators.aggregates.definitions import Aggregate, Bound, Types, is_atomic, list_array, typed_values
from operators.aggregates.operation import Operation, runs
from operators.aggregates.operations import as_lists
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from serializers.arrays import fill
from serializers.values import canonical

_ROWS_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True)
class Distinct(Operation):
    """The distinct values, as a sorted list; all NaN are equal, and -0.0 equals 0.0."""

    part: ClassVar[str] = "values"

    @property
    def compared(self) -> tuple[str, ...]:
        return self.inputs[:1]

    @property
    def codes(self) -> tuple[str, ...]:
        return ("object",)

    def lift(self, records: Records) -> State:
        return (as_lists(self.read(records), canonical),)

    def combine(self, left: State, right: State) -> State:
        return (fill([distinct(a + b) for a, b in zip(left[0].tolist(), right[0].tolist(), strict=True)]),)

    def reduce(self, state: State, starts: Ints) -> State:
        lists = state[0].tolist()
        return (fill([distinct(chain.from_iterable(lists[a:b])) for a, b in runs(starts, len(lists))]),)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return ranges of the numbered values of all rows: lists are joined only when results are made.

        Columns: the number of each value; one more than the position of the previous occurrence of the same number (0 if it is
        the first); where each range of these begins and ends; and the distinct values in order of their numbers.
        """
        lists = state[0].tolist()
        edges = np.cumsum([0, *map(len, lists)])
        values = distinct(chain.from_iterable(lists))
        number = {value: n for n, value in enumerate(values)}
        # NaN, which is not equal to itself, is the last of the values.
        flat = np.fromiter(
            (number.get(v, len(values) - 1) for v in chain.from_iterable(lists)), np.int64, edges[-1]
        )
        return flat, _before(flat), edges[lo], edges[hi], fill(values)


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return the distinct values in order, NaN last."""
    found = set(values)
    numbers = {value for value in found if value == value}
    return sorted(numbers) + [value for value in found if value != value][:1]


def _before(numbers: Ints) -> Ints:
    """One more than the position of the previous occurrence of each number; 0 for the first occurrence."""
    order = np.argsort(numbers, kind="stable")
    before = np.zeros(len(numbers), np.int64)
    again = numbers[order[1:]] == numbers[order[:-1]]
    before[order[1:][again]] = order[:-1][again] + 1
    return before


def count_up_to(values: Ints, lo: Ints, hi: Ints, limit: Ints) -> Ints:
    """Return how many of values[lo:hi] are at most `limit`, for each range.

    Cost: O(log(largest)) array passes over the values and over the ranges, independent of their lengths. (Wavelet matrix)

    Args:
        values: shape (n,), int64, 0 or more.
        lo, hi, limit: shape (m,), int64.
    """
    count, limit = np.zeros(len(lo), np.int64), limit + 1
    largest = max(int(column.max(initial=0)) for column in (values, limit))
    for bit in reversed(range(largest.bit_length())):
        zero = values >> bit & 1 == 0
        zeros = np.concatenate([[0], np.cumsum(zero)])
        up = limit >> bit & 1 == 1
        low, high = zeros[lo], zeros[hi]
        count += np.where(up, high - low, 0)
        lo, hi = np.where(up, zeros[-1] + lo - low, low), np.where(up, zeros[-1] + hi - high, high)
        values = np.concatenate([values[zero], values[~zero]])
    return count


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
            _, before, begin, end, _ = states[0]
            return pa.array(count_up_to(before, begin, end, begin))

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
            numbers, before, begin, end, values = states[0]
            parts = list(_first_ones(numbers, before, begin, end))
            window, number = (np.concatenate(column) for column in zip(*parts, strict=True))
            length = np.bincount(window, minlength=len(begin))
            return list_array(self._name, typed_values(values, type_), number, length)

        return Bound((operation,), pa.list_(type_), finish, nullable=False)


def _first_ones(numbers: Ints, before: Ints, begin: Ints, end: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The windows and the distinct numbers of each, in order, a few million rows at a time."""
    edges = np.concatenate([[0], np.cumsum(end - begin)])
    cuts = np.searchsorted(edges, np.arange(0, edges[-1], _ROWS_AT_ONCE), "right") - 1
    cuts = np.unique([0, *cuts, len(begin)])
    yield np.empty(0, np.int64), np.empty(0, np.int64)
    for first, last in pairwise(cuts.tolist()):
        window = np.repeat(np.arange(first, last), (end - begin)[first:last])
        row = np.arange(edges[first], edges[last]) + (begin - edges[:-1])[window]
        new = before[row] <= begin[window]
        window, number = window[new], numbers[row[new]]
        order = np.lexsort((number, window))
        yield window[order], number[order]
