"""The values of the first or the last records in order of event time, each value once if asked for.

As `first` and `last`, the choice depends on the records only: records of the same event time are ordered by value, and a null
is the first of them to be left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from operators.aggregates.definitions import Aggregate, Bound, Types, is_atomic
from operators.aggregates.operation import ReducedOperation, runs
from operators.aggregates.operations import as_lists, objects_of
from operators.aggregates.result_arrays import list_array, values_with_nulls
from operators.aggregates.strategy import RANGES, Strategy
from operators.columns.arrow import ColumnData
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from serializers.arrays import fill, rows_between
from serializers.values import canonical


@dataclass(frozen=True, slots=True)
class Ends(ReducedOperation):
    """The first or the last values in order of event time.

    A state is a list of event times in ticks and the list of values, both in ascending order.

    Attributes:
        size: maximum number of values.
        last: whether they are the last ones.
        distinct: whether each value counts once: where it occurs first, or last.
        nulls: whether nulls are values.
    """

    strategy: ClassVar[Strategy] = RANGES
    size: int
    last: bool
    distinct: bool
    nulls: bool

    @property
    def codes(self) -> tuple[str, ...]:
        return "object", "object"

    @property
    def parts(self) -> tuple[str, ...]:
        return "times", "values"

    def lift(self, records: Records) -> State:
        data = self.read(records)
        counted = self.counted(records)
        there = counted if self.nulls or data.valid is None else counted & data.valid
        values = [None if value is None else canonical(value) for value in objects_of(data)]
        return as_lists(ColumnData(records.time, there)), as_lists(ColumnData(fill(values), there))

    def reduce(self, state: State, starts: Ints) -> State:
        times, values = (column.tolist() for column in state)
        kept = [
            self._kept(chain.from_iterable(times[a:b]), chain.from_iterable(values[a:b]))
            for a, b in runs(starts, len(times))
        ]
        return fill([[time for time, _ in items] for items in kept]), fill(
            [[v for _, v in items] for items in kept]
        )

    def _kept(self, times: Any, values: Any) -> list[tuple[int, Any]]:
        """The items that stay, in ascending order."""
        items = sorted(zip(times, values, strict=True), key=self._place, reverse=self.last)
        if self.distinct:
            found: dict[Any, tuple[int, Any]] = {}
            for item in items:
                found.setdefault(_identity(item[1]), item)
            items = list(found.values())
        items = items[: self.size]
        return items[::-1] if self.last else items

    def _place(self, item: tuple[int, Any]) -> tuple[Any, ...]:
        """Sort key of an item: NaN is the largest value, and a null of a time is the last to be chosen."""
        time, value = item
        if value is None:
            return time, not self.last, False, 0
        return time, self.last, value != value, 0 if value != value else value

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return all values one after another, the positions of those of each range, one range after another, and how many."""
        lists = state[1].tolist()
        edges = np.cumsum([0, *map(len, lists)])
        values = list(chain.from_iterable(lists))
        begin, end = edges[lo], edges[hi]
        if self.distinct:
            rows, length = self._distinct(values, begin, end)
        else:
            length = np.minimum(end - begin, self.size)
            rows = rows_between(end - length if self.last else begin, length)
        return fill(values), rows, length

    def _distinct(self, values: list[Any], begin: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Positions of the chosen values of each range, and how many. First ones are last ones of the reversed sequence."""
        count = len(values)
        if not self.last:
            values, begin, end = values[::-1], count - end, count - begin
        following = np.full(count, count)
        seen: dict[Any, int] = {}
        for at, value in enumerate(values):
            key = _identity(value)
            if key in seen:
                following[seen[key]] = at
            seen[key] = at
        chosen = _last_positions(following, begin, end, self.size)
        there = chosen >= 0
        rows = chosen[there] if self.last else count - 1 - chosen[:, ::-1][there[:, ::-1]]
        return rows, np.count_nonzero(there, axis=1)


def _last_positions(following: Ints, begin: Ints, end: Ints, size: int) -> Ints:
    """Return the last positions in each range whose value does not occur again in it, ascending, -1 for those that lack.

    Blocks of 1, 2, 4, ... positions know the latest next occurrence in them, so that a range skips blocks in which each value
    occurs again: O(log(longest)) array passes for each of the positions.

    Args:
        following: shape (n,): the position where each value occurs next.
        begin, end: shape (m,): ranges [begin, end).
        size: how many positions are wanted of each range.
    """
    longest = int((end - begin).max(initial=0))
    blocks = [following]
    while 2 << (len(blocks) - 1) <= longest:
        half = 1 << (len(blocks) - 1)
        blocks.append(np.maximum(blocks[-1][:-half], blocks[-1][half:]))
    found = np.full((len(begin), min(size, longest)), -1)
    at = end.copy()
    for place in reversed(range(found.shape[1])):
        for power in reversed(range(len(blocks))):
            width = 1 << power
            rows = np.flatnonzero(at - begin >= width)
            rows = rows[blocks[power][at[rows] - width] < end[rows]]
            at[rows] -= width
        rows = np.flatnonzero(at > begin)
        at[rows] -= 1
        found[rows, place] = at[rows]
    return found


def _identity(value: Any) -> Any:
    """What is equal for equal values: all NaN are."""
    return value if value == value else math.nan


@dataclass(frozen=True, slots=True)
class EndValues(Aggregate):
    """The first or the last values in order of event time.

    Attributes:
        size: maximum number of values.
        last: whether they are the last ones.
        distinct: whether each value counts once.
        nulls: whether nulls are values.
    """

    size: int = field(kw_only=True)
    last: bool = field(kw_only=True)
    distinct: bool = field(kw_only=True)
    nulls: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        Aggregate.__post_init__(self)
        self._check_positive("n", self.size)

    @property
    def _name(self) -> str:
        return f"{'last_n' if self.last else 'first_n'}({self.column}, {self.size})"

    def bind(self, types: Types) -> Bound:
        if not is_atomic(type_ := self._type(types)):
            raise self._refuse(type_, "an atomic type")
        operation = Ends(self.column, self.size, self.last, self.distinct, self.nulls, where=self.where)

        def finish(states: Sequence[State]) -> pa.Array:
            values, rows, length = states[0]
            array = values_with_nulls(values, type_)
            return list_array(self._name, array, rows, length)

        return Bound((operation,), pa.list_(type_), finish, nullable=False)
