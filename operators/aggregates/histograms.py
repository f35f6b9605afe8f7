"""How often each value occurs: the whole histogram, the commonest value, and the most frequent values from a bounded state."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.aggregates.category_states import CategoryRanges, CategoryStates
from operators.aggregates.definitions import Aggregate, Bound, ByCategory, Count, Types, is_atomic
from operators.aggregates.distinct_numbers import DistinctNumbers, distinct
from operators.aggregates.operation import ReducedOperation, runs
from operators.aggregates.operations import CountRows, as_lists
from operators.aggregates.result_arrays import list_array, typed_values
from operators.aggregates.strategy import RANGES, Strategy
from operators.columns.arrow import ColumnData
from operators.columns.ranges import Ints, State, prefix_difference
from operators.columns.records import Records
from operators.errors import DefinitionError
from serializers.arrays import fill
from serializers.values import canonical

Counts = tuple[Ints, Ints, Ints]
"""Window, number of the value, and how often it occurs in that window: one row for each value of each window, in this order."""


def _merged(values: Sequence[list[Any]], counts: Sequence[list[int]]) -> tuple[list[Any], list[int]]:
    """Histograms as one."""
    total: Counter[Any] = Counter()
    for listed, numbers in zip(values, counts, strict=True):
        for value, count in zip(listed, numbers, strict=True):
            total[value if value == value else None] += count
    missing = total.pop(None, 0)
    ordered = distinct(total)
    last = ([float("nan")], [missing]) if missing else ([], [])
    return ordered + last[0], [total[value] for value in ordered] + last[1]


def counts_of(state: State) -> tuple[Counts, npt.NDArray[Any]]:
    """Return how often each value occurs in each window, and the values by number.

    O(values of all windows) array work, whatever the number of panes that a value comes from.
    """
    *columns, weight = state
    of = DistinctNumbers(*columns)
    window, number = of.listed()
    order = np.argsort(of.numbers, kind="stable")
    before = np.concatenate([[0], np.cumsum(weight[order])])
    # Occurrences in order of number, then of place: those of a number in a window are one range of them.
    width = len(order) + 1
    placed = of.numbers[order] * width + order
    first, last = (np.searchsorted(placed, number * width + edge[window]) for edge in (of.begin, of.end))
    return (window, number, before[last] - before[first]), of.values


def most_frequent(counts: Counts, windows: int, most: int) -> tuple[Ints, Ints]:
    """Return rows of the most frequent values of each window, the most frequent first; of ties the lowest. And how many."""
    window, number, count = counts
    order = np.lexsort((number, -count, window))
    first = np.searchsorted(window, np.arange(windows))
    length = np.diff(first, append=len(window))
    place = np.arange(len(window)) - first[window]
    return order[place < most], np.minimum(length, most)


@dataclass(frozen=True, slots=True)
class HistogramOf(Aggregate):
    """How often each value occurs, as a map: the number of records by the value itself.

    Attributes:
        most: the largest number of entries: beyond it, the map has the most frequent values.
    """

    most: int = field(kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        self._check_positive("most", self.most)

    @property
    def _name(self) -> str:
        return f"histogram({self.column})"

    def bind(self, types: Types) -> Bound:
        if not is_atomic(type_ := self._type(types)):
            raise self._refuse(type_, "an atomic type")
        return ByCategory(self.column, of=Count(None), most=self.most, where=self.where).bind(types)


class Mode(Aggregate):
    """The commonest value; of ties the lowest, null without values."""

    __slots__ = ()

    def bind(self, types: Types) -> Bound:
        if not is_atomic(type_ := self._type(types)):
            raise self._refuse(type_, "an atomic type")

        def finish(states: Sequence[State]) -> pa.Array:
            found = CategoryRanges.of(states[0]).most_frequent(1)
            number = np.zeros(len(found.windows), np.int64)
            number[found.window] = found.number
            values = typed_values(found.distinct, type_)
            return values.take(pa.array(number, mask=found.lengths() == 0))

        state = CategoryStates(self.column, (CountRows(None),), where=self.where)
        return Bound((state,), type_, finish)


@dataclass(frozen=True, slots=True)
class FrequentItems(ReducedOperation):
    """The most frequent values, sorted, with counts that may be too low, by `missed` at most; see `ApproxTopK`.

    All NaN are equal, and -0.0 equals 0.0.

    A state of more than `size` values is cut: the count of the first value beyond these is taken from all, and who has nothing
    left is out. Each cut takes that count from more than `size` values, so that `missed` is at most 1 / (size + 1) of all
    records, however states are merged. (Misra and Gries 1982; Agarwal et al. 2012, Mergeable summaries)

    Attributes:
        size: the largest number of values in a state.
    """

    strategy: ClassVar[Strategy] = RANGES
    size: int

    @property
    def codes(self) -> tuple[str, ...]:
        return "object", "object", "i8"

    @property
    def parts(self) -> tuple[str, ...]:
        return "values", "counts", "missed"

    @property
    def compared(self) -> tuple[str, ...]:
        return self.inputs[:1]

    def lift(self, records: Records) -> State:
        data = self.read(records)
        ones = ColumnData(np.ones(len(data.values), np.int64), data.valid)
        return as_lists(data, canonical), as_lists(ones), np.zeros(len(records), np.int64)

    def reduce(self, state: State, starts: Ints) -> State:
        values, counts = (column.tolist() for column in state[:2])
        missed = np.add.reduceat(state[2], starts) if len(starts) else state[2][:0].copy()
        merged = [_merged(values[a:b], counts[a:b]) for a, b in runs(starts, len(values))]
        for row, (listed, numbers) in enumerate(merged):
            if len(listed) > self.size:
                cut = sorted(numbers, reverse=True)[self.size]
                missed[row] += cut
                kept = [n for n, count in enumerate(numbers) if count > cut]
                merged[row] = [listed[n] for n in kept], [numbers[n] - cut for n in kept]
        return fill([pair[0] for pair in merged]), fill([pair[1] for pair in merged]), missed

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return ranges of the numbered values of all rows, and their counts: they are added up only for results.

        Columns: those of `DistinctNumbers`, then the count of each occurrence, and what each range has missed.
        """
        found = DistinctNumbers.of(state[0].tolist(), lo, hi)
        counts = np.fromiter(chain.from_iterable(state[1].tolist()), np.int64)
        return *found.columns, counts, prefix_difference(state[2], lo, hi)


@dataclass(frozen=True, slots=True)
class ApproxTopK(Aggregate):
    """The most frequent values with their counts, from a state of bounded size.

    Attributes:
        k: the largest number of values.
        size: the largest number of values in a state.
    """

    k: int = field(kw_only=True)
    size: int = field(kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        whole = type(self.k) is int and type(self.size) is int
        if not whole or not 1 <= self.k <= self.size <= 1_000_000:
            raise DefinitionError(
                f"{self._name}: k and max_items_tracked must be whole numbers with 1 <= k <= max_items_tracked <= 1000000, "
                f"got {self.k!r} and {self.size!r}"
            )

    @property
    def _name(self) -> str:
        return f"approx_top_k({self.column})"

    def bind(self, types: Types) -> Bound:
        if not is_atomic(type_ := self._type(types)):
            raise self._refuse(type_, "an atomic type")
        item = pa.struct([pa.field("item", type_), pa.field("count", pa.int64(), nullable=False)])
        out = pa.list_(pa.field("element", item, nullable=False))

        def finish(states: Sequence[State]) -> pa.Array:
            *histogram, missed = states[0]
            counts, values = counts_of(tuple(histogram))
            rows, length = most_frequent(counts, len(missed), self.k)
            window, number, count = (column[rows] for column in counts)
            items = typed_values(values, type_).take(pa.array(number))
            both = pa.StructArray.from_arrays([items, pa.array(count + missed[window])], fields=list(item))
            return list_array(self._name, both, np.arange(len(both)), length).cast(out)

        operation = FrequentItems(self.column, self.size, where=self.where)
        return Bound((operation,), out, finish, nullable=False)
