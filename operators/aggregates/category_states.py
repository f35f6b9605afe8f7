"""The states of other operations for each category: what `by` of an aggregate keeps.

A pane has the states of its categories, in order. Windows are ranges of panes; for each category of a window, its states are
a range among all states of that category, so that the operations combine ranges, as they do without categories:

    panes        a b | a | b c | a          windows  |-------------|
    by category  a   a         a            a |-------|    a: 2 states
                   b     b                    b |-----|    b: 2 states
                           c                          c    c: 1 state
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from operators.aggregates.category_pages import Items, number_categories
from operators.aggregates.distinct_numbers import DistinctNumbers, last_before
from operators.aggregates.operation import Operation, ReducedOperation, join_states, split_states
from operators.aggregates.strategy import BY_COST, RANGES, Strategy
from operators.columns.ranges import Ints, Mask, State, prefix_difference
from operators.columns.records import Records
from serializers.arrays import fill, rows_between
from state_backends.store.ordering import row_order

_ONE_NUMBER = 1 << 62
"""What is less than this can be sorted as one whole number."""
_PLACES_OF_ONE, _MOST_PLACES = 4, 1 << 23
"""So many places may a table have for one category that a window may have, and in all."""
_DTYPES = {"i8": np.dtype(np.int64), "f8": np.dtype(np.float64)}


@dataclass(frozen=True, slots=True)
class CategoryStates(ReducedOperation):
    """The states of operations for each category of the records; a record with a null in `column` does not count.

    A state is the bytes of `Items`, and a list of the states of its categories for each of their columns of objects.

    Attributes:
        operations: the operations, without `where`; the first one counts records.
    """

    operations: tuple[Operation, ...]

    @property
    def calls_user_code(self) -> bool:  # type: ignore[override]
        return any(operation.calls_user_code for operation in self.operations)

    @property
    def keeps_all(self) -> bool:  # type: ignore[override]
        return any(operation.keeps_all for operation in self.operations)

    @property
    def strategy(self) -> Strategy:  # type: ignore[override]
        return max((RANGES, *(operation.strategy for operation in self.operations)), key=BY_COST.index)

    @property
    def cheaper(self) -> str | None:  # type: ignore[override]
        return self.operations[-1].cheaper

    @property
    def skips(self) -> bool:
        return any(operation.skips for operation in self.operations)

    @property
    def inputs(self) -> tuple[str, ...]:
        names = [self.column, *(name for op in self.operations for name in op.inputs), self.where]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def compared(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([self.column or "", *(n for op in self.operations for n in op.compared)]))

    @property
    def codes(self) -> tuple[str, ...]:
        return ("object",) * (1 + self._inner.count("object"))

    @property
    def parts(self) -> tuple[str, ...]:
        names = [
            (f"{op.parts[n]}_{number}", code)
            for number, op in enumerate(self.operations)
            for n, code in enumerate(op.codes)
        ]
        return "by_category", *(name for name, code in names if code == "object")

    @property
    def _inner(self) -> tuple[str, ...]:
        """The codes of the columns of all operations."""
        return tuple(code for operation in self.operations for code in operation.codes)

    def describe(self) -> str:
        return self._of([operation.describe() for operation in self.operations])

    @property
    def former(self) -> str | None:
        if all(operation.former is None for operation in self.operations):
            return None
        return self._of([operation.former or operation.describe() for operation in self.operations])

    def _of(self, states: Sequence[str]) -> str:
        where = "" if self.where is None else f", where={self.where!r}"
        return f"By({self.column}; {'; '.join(states)}{where})"

    def refused(self, records: Records) -> dict[int, str]:
        if not self.skips:
            return {}
        rows = np.flatnonzero(self._has_category(records))
        part, found = self._read(records, rows), dict[int, str]()
        for operation in self.operations:
            found |= {int(rows[n]): reason for n, reason in operation.refused(part).items()}
        return found

    def _has_category(self, records: Records) -> Mask:
        """The records that count, and have a category."""
        data = records.values[self.column or ""]
        counted = self.counted(records)
        return counted if data.valid is None else counted & data.valid

    def _read(self, records: Records, rows: Ints) -> Records:
        """Some of the records with the columns that the operations read."""
        names = {name for operation in self.operations for name in operation.inputs}
        return replace(records, values={name: records.values[name] for name in names}).take(rows)

    def lift(self, records: Records) -> State:
        return self.accumulate(records, np.arange(len(records)))

    def accumulate(self, records: Records, starts: Ints) -> State:
        there = self._has_category(records)
        there[[*self.refused(records)]] = False
        rows = np.flatnonzero(there)
        run = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(records)))[rows]
        distinct, number = number_categories(records.values[self.column or ""].values[rows])
        order = row_order(run, number)
        if order is not None:
            rows, run, number = rows[order], run[order], number[order]
        begins = _begins(run, number)
        if not len(begins):
            return self._written(len(starts), None, [])
        part = self._read(records, rows)
        states = [operation.accumulate(part, begins) for operation in self.operations]
        return self._written(len(starts), (run[begins], number[begins], distinct), states)

    def reduce(self, state: State, starts: Ints) -> State:
        length = np.diff(starts, append=len(state[0]))
        several = np.flatnonzero(length > 1)
        found = tuple(column[starts] for column in state)
        if not len(several):
            return found
        rows = rows_between(starts[several], length[several])
        items, states = self._stored(tuple(column[rows] for column in state))
        run = np.repeat(np.arange(len(several)), length[several])[items.row]
        order = row_order(run, items.number)
        number = items.number
        if order is not None:
            run, number = run[order], number[order]
            states = [tuple(column[order] for column in each) for each in states]
        begins = _begins(run, number)
        if len(begins):
            states = [op.reduce(each, begins) for op, each in zip(self.operations, states, strict=True)]
            reduced = self._written(len(several), (run[begins], number[begins], items.distinct), states)
        else:
            reduced = self._written(len(several), None, [])
        for column, values in zip(found, reduced, strict=True):
            column[several] = values
        return found

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return the categories of each range, and for each of them a range of states: they are combined only for results.

        Columns: those of `CategoryRanges`.
        """
        items, states = self._stored(state)
        edges = np.searchsorted(items.row, np.arange(len(state[0]) + 1))
        # States in order of category, then of place: those of a category in a window are one range of them.
        order = np.argsort(items.number, kind="stable")
        window, number, first, last = category_ranges(items, order, edges[lo], edges[hi])
        columns = tuple(column[order] for column in join_states(states))
        return CategoryRanges(items.distinct, lo, window, number, first, last, columns).state

    def _written(
        self, rows: int, items: tuple[Ints, Ints, npt.NDArray[np.generic]] | None, states: Sequence[State]
    ) -> State:
        """States by row and category as a state of so many rows; None if there are none."""
        if items is None:
            lists = [fill([[] for _ in range(rows)]) for code in self._inner if code == "object"]
            return fill([b""] * rows), *lists
        columns = list(zip(join_states(states), self._inner, strict=True))
        words = [np.ascontiguousarray(column).view(np.int64) for column, code in columns if code != "object"]
        row, number, distinct = items
        packed = Items(row, number, distinct, np.stack(words, axis=1)).write(rows)
        edges = np.searchsorted(row, np.arange(rows + 1)).tolist()
        objects = [column.tolist() for column, code in columns if code == "object"]
        lists = [fill([values[a:b] for a, b in pairwise(edges)]) for values in objects]
        return fill(packed), *lists

    def _stored(self, state: State) -> tuple[Items, list[State]]:
        """What was written: the categories of all rows, and their states, one for each operation."""
        codes = self._inner
        items = Items.read(state[0].tolist(), len(codes) - codes.count("object"), self._former_words())
        objects = iter(state[1:])
        columns, word = [], 0
        for code in codes:
            if code == "object":
                lists = next(objects).tolist()
                columns.append(fill([one for each in lists for one in each]))
            else:
                columns.append(np.ascontiguousarray(items.words[:, word]).view(_DTYPES[code]))
                word += 1
        return items, split_states(self.operations, columns)

    def _former_words(self) -> list[int | None]:
        """For each word of an item, which one it was in states under the former names: the first of each operation's."""
        found, number = list[int | None](), 0
        for operation in self.operations:
            for n, code in enumerate(operation.codes):
                if code != "object":
                    gone = operation.former is not None and n > 0
                    found.append(None if gone else number)
                    number += not gone
        return found


@dataclass(frozen=True, slots=True)
class CategoryRanges:
    """The categories of windows, and for each a range of states.

    Attributes:
        distinct: the categories in order of their numbers.
        windows: shape (m,): one element for each window, of any value.
        window, number: shape (p,), int64: each window's categories, in order of windows and within one of categories.
        lo, hi: shape (p,), int64: ranges [lo, hi) of states, none empty.
        columns: the states of all operations, column by column.
    """

    distinct: npt.NDArray[np.generic]
    windows: Ints
    window: Ints
    number: Ints
    lo: Ints
    hi: Ints
    columns: State

    @property
    def state(self) -> State:
        """The attributes, as columns of a state."""
        return self.distinct, self.windows, self.window, self.number, self.lo, self.hi, *self.columns

    @classmethod
    def of(cls, state: State) -> "CategoryRanges":
        """Return what `state` returned as columns."""
        distinct, windows, window, number, lo, hi, *columns = state
        return cls(distinct, windows, window, number, lo, hi, tuple(columns))

    def most_frequent(self, most: int) -> "CategoryRanges":
        """Return so many categories of each window: those with the most records, of ties the lowest.

        The first column counts records.
        """
        if len(self.distinct) <= most or not len(self.window) or int(np.bincount(self.window).max()) <= most:
            return self
        count = prefix_difference(self.columns[0], self.lo, self.hi)
        kept = np.sort(most_frequent(self.window, count, len(self.windows), most)[0])
        window, number, lo, hi = (column[kept] for column in (self.window, self.number, self.lo, self.hi))
        return replace(self, window=window, number=number, lo=lo, hi=hi)

    def states(self, operations: Sequence[Operation]) -> list[State]:
        """Return the states of each category of each window, one for each operation."""
        split = split_states(operations, self.columns)
        return [
            op.combine_ranges(state, self.lo, self.hi) for op, state in zip(operations, split, strict=True)
        ]

    def lengths(self) -> Ints:
        """Return how many categories each window has."""
        return np.bincount(self.window, minlength=len(self.windows))


def most_frequent(window: Ints, count: Ints, windows: int, most: int) -> tuple[Ints, Ints]:
    """Return the rows of so many categories of each window, the most frequent first, of ties the first; and how many these are.

    Args:
        window: shape (n,), int64: a window for each row, ascending.
        count: shape (n,), int64: not negative.
        windows: number of windows.
        most: the greatest number of categories of a window that are returned.

    Cost: one sort of whole numbers, if window, count and place of a row fit into one.
    """
    first = np.searchsorted(window, np.arange(windows))
    length = np.diff(first, append=len(window))
    place = np.arange(len(window)) - first[window]
    highest = int(count.max(initial=0))
    bits = int(length.max(initial=0)).bit_length()
    if (windows * (highest + 1)) << bits < _ONE_NUMBER:
        rank = (window * (highest + 1) + (highest - count)) << bits | place
        rank.sort()
        order = first[window] + (rank & ((1 << bits) - 1))
    else:
        order = np.lexsort((-count, window))
    return order[place < most], np.minimum(length, most)


def category_ranges(items: Items, order: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the categories of each range of items in order, and for each where its items are among those in this order.

    Returns:
        window, number, first, last: as those of `CategoryRanges`.

    Cost: where most ranges may have most of few categories, a table of items by categories in place of a search for each one.
    """
    size, categories = len(items.number), len(items.distinct)
    most = int(np.minimum(end - begin, categories).sum())
    if (size + len(begin)) * categories <= min(_PLACES_OF_ONE * most, _MOST_PLACES):
        place = np.zeros((size + 1, categories), np.int32)
        place[np.arange(1, size + 1), items.number] = 1
        np.cumsum(place, axis=0, out=place)
        place += np.cumsum(place[-1]) - place[-1]
        at_begin, at_end = place[begin], place[end]
        there = np.flatnonzero(at_end > at_begin)
        window = there // categories
        first, last = (at.ravel()[there].astype(np.int64) for at in (at_begin, at_end))
        return window, (there - window * categories).astype(np.int64), first, last
    numbers = DistinctNumbers(items.number, last_before(items.number), begin, end, items.distinct)
    window, number = numbers.listed()
    placed = items.number[order] * (size + 1) + order
    first, last = (np.searchsorted(placed, number * (size + 1) + edge[window]) for edge in (begin, end))
    return window, number, first, last


def _begins(run: Ints, number: Ints) -> Ints:
    """Where each category of each run begins."""
    change = np.ones(len(run), bool)
    change[1:] = (run[1:] != run[:-1]) | (number[1:] != number[:-1])
    return np.flatnonzero(change)
