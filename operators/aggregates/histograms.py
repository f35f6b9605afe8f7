"""How often each value occurs: the whole histogram, the commonest value, and the most frequent values from a bounded state."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.aggregates.category_pages import items_in
from operators.aggregates.category_states import CategoryRanges, CategoryStates, most_frequent
from operators.aggregates.definitions import Aggregate, Bound, ByCategory, Count, Types, is_atomic
from operators.aggregates.operations import CountRows
from operators.aggregates.result_arrays import list_array, typed_values, values_at
from operators.aggregates.strategy import RANGES, Strategy
from operators.columns.ranges import Ints, State, prefix_difference
from operators.columns.records import Records
from operators.errors import DefinitionError


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
class FrequentValues(CategoryStates):
    """The most frequent values with counts that may be too low, by `missed` at most; see `ApproxTopK`.

    All NaN are equal, and -0.0 equals 0.0.

    A state of more than `size` values is cut: the count of the first value beyond these is taken from all, and who has nothing
    left is out. Each cut takes that count from more than `size` values, so that `missed` is at most 1 / (size + 1) of all
    records, however states are merged. (Misra and Gries 1982; Agarwal et al. 2012, Mergeable summaries)

    Attributes:
        size: the largest number of values in a state.
    """

    size: int

    @property
    def strategy(self) -> Strategy:  # type: ignore[override]
        return RANGES

    @property
    def codes(self) -> tuple[str, ...]:
        return "object", "i8"

    @property
    def parts(self) -> tuple[str, ...]:
        return "by_value", "missed"

    def _of(self, states: Sequence[str]) -> str:
        del states
        where = "" if self.where is None else f", where={self.where!r}"
        return f"FrequentValues({self.column}, {self.size}{where})"

    def accumulate(self, records: Records, starts: Ints) -> State:
        (stored,) = CategoryStates.accumulate(self, records, starts)
        return self._cut(stored, np.zeros(len(starts), np.int64))

    def reduce(self, state: State, starts: Ints) -> State:
        (stored,) = CategoryStates.reduce(self, state[:1], starts)
        missed = np.add.reduceat(state[1], starts) if len(starts) else state[1][:0].copy()
        return self._cut(stored, missed)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return what `CategoryStates.combine_ranges` does, and first what each range has missed."""
        found = CategoryStates.combine_ranges(self, state[:1], lo, hi)
        return prefix_difference(state[1], lo, hi), *found

    def _cut(self, stored: npt.NDArray[np.object_], missed: Ints) -> State:
        """States of `size` values at most."""
        many = np.flatnonzero(items_in(stored.tolist()) > self.size)
        if len(many):
            items, ((count,),) = self._stored((stored[many],))
            order = np.lexsort((-count, items.row))
            first = np.searchsorted(items.row, np.arange(len(many)))
            taken = count[order][first + self.size]
            missed[many] += taken
            left = count - taken[items.row]
            kept = left > 0
            row, number = items.row[kept], items.number[kept]
            (stored[many],) = self._written(len(many), (row, number, items.distinct), [(left[kept],)])
        return stored, missed


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
            missed, *ranges = states[0]
            found = CategoryRanges.of(tuple(ranges))
            counts = found.window, found.number, prefix_difference(found.columns[0], found.lo, found.hi)
            rows, length = most_frequent(found.window, counts[2], len(missed), self.k)
            window, number, count = (column[rows] for column in counts)
            items = values_at(typed_values(found.distinct, type_), number)
            both = pa.StructArray.from_arrays([items, pa.array(count + missed[window])], fields=list(item))
            return list_array(self._name, both, None, length).cast(out)

        operation = FrequentValues(self.column, (CountRows(None),), self.size, where=self.where)
        return Bound((operation,), out, finish, nullable=False)
