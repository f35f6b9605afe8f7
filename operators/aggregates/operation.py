"""The primitives of an aggregate on whole columns, as in Hazelcast Jet's AggregateOperation.

A state is a tuple of columns, with one row per pane or window. `lift` makes the state of each single record, `reduce` combines
runs of rows, and `combine_ranges` combines ranges of panes, by `combine` or by a difference of prefixes (deduct).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from operators.aggregates.strategy import DOUBLING, Strategy
from operators.columns import ranges
from operators.columns.arrow import ColumnData
from operators.columns.ranges import Ints, Mask, State
from operators.columns.records import Records
from serializers.pages import Column

_DTYPES = {"i8": np.dtype(np.int64), "f8": np.dtype(np.float64), "object": np.dtype(object)}


@dataclass(frozen=True, slots=True)
class Operation(ABC):
    """One state, shared by all aggregates of a window that need it. Equal operations are computed once.

    Laws: `combine` is associative; `combine`, `reduce`, `combine_ranges` and `add` never change their arguments.

    Attributes:
        column: the input column, or None.
        where: a boolean column, or None. In records where it is not true, the input is treated as null.
    """

    column: str | None
    where: str | None = field(default=None, kw_only=True)

    combines: ClassVar[bool] = True
    """Whether states can be combined. If not, records are added to the state of each window one by one (a fold)."""
    idempotent: ClassVar[bool] = False
    """Whether overlapping ranges can be combined: a state combined with itself, or with a part of itself, does not change."""
    calls_user_code: ClassVar[bool] = False
    """Whether it calls functions of the user."""
    keeps_all: ClassVar[bool] = False
    """Whether a state has each value, so that it grows with the number of records."""
    part: ClassVar[str] = "state"
    """Name of the state's column, for reading stored state, if it has one."""
    strategy: ClassVar[Strategy] = DOUBLING
    """How `combine_ranges` makes windows of panes."""
    cheaper: ClassVar[str | None] = None
    """What would make a custom aggregate cheaper, for `explain`."""
    former_name: ClassVar[str | None] = None
    """The operation of a narrower column, whose state has fewer columns: the first ones. The others are 0."""

    @property
    def skips(self) -> bool:
        """Whether records that its functions cannot take are left out, see `refused`. If not, they end the query."""
        return False

    def refused(self, records: Records) -> dict[int, str]:
        """Return why records cannot be taken, by their position. They do not count, as if `where` were not true there."""
        del records
        return {}

    @property
    def base_operation(self) -> "Operation":
        """The operation itself, whenever its state was begun."""
        return self

    @property
    def narrower(self) -> "Operation | None":
        """The operation of a column of whole numbers whose state becomes one of this operation by `of_narrower`."""
        return None

    def of_narrower(self, state: State) -> State:
        """Return states of `narrower` as states of this operation."""
        raise NotImplementedError(f"{type(self).__name__} has no narrower operation")

    def combining(self) -> "Operation":
        """Return the operation itself if its states can be combined, else one that keeps the records."""
        return self

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(name for name in (self.column, self.where) if name is not None)

    @property
    def compared(self) -> tuple[str, ...]:
        """The columns whose order, or whose distinct values, determine the result."""
        return ()

    @property
    def codes(self) -> tuple[str, ...]:
        """The state's columns as page codes: "i8", "f8" or "object"; by default one of objects."""
        return ("object",)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the state's columns, for reading stored state."""
        return (
            tuple(f"part_{number}" for number in range(len(self.codes)))
            if len(self.codes) > 1
            else (self.part,)
        )

    def describe(self) -> str:
        """Return the operation as text. Operations with equal texts can read each other's stored states."""
        return self._text(type(self).__name__)

    @property
    def former(self) -> str | None:
        """The text of the operation under its former name, or None."""
        return None if self.former_name is None else self._text(self.former_name)

    def _text(self, name: str) -> str:
        values = [getattr(self, attribute.name) for attribute in fields(self) if attribute.name != "where"]
        listed = [str(value) for value in values if value is not None]
        if self.where is not None:
            listed.append(f"where={self.where!r}")
        return f"{name}({', '.join(listed)})"

    def initial(self) -> State | None:
        """Return the state before the first record as the user's functions make it; None if these do not make the states."""
        return None

    @abstractmethod
    def lift(self, records: Records) -> State:
        """Return the state of each single record."""

    def read(self, records: Records, name: str | None = None) -> ColumnData:
        """Return an input column, by default `column`, with nulls where `where` is not true."""
        data = records.values[name or self.column or ""]
        return data if self.where is None else data.kept(self.counted(records))

    def counted(self, records: Records) -> npt.NDArray[np.bool_]:
        """Return a mask of the records where `where` is true."""
        if self.where is None:
            return np.ones(len(records), bool)
        return records.values[self.where].filled(0) != 0

    @abstractmethod
    def combine(self, left: State, right: State) -> State:
        """Return the row-wise combination. States may overlap in time, and `right` may begin earlier than `left`."""

    def add(self, state: State, records: Records) -> State:
        """Return the state with one record added to each row: the record at the same position."""
        return self.combine(state, self.lift(records))

    def fold(self, state: State, base: Ints, records: Records, ranges: tuple[Ints, Ints]) -> State:
        """Return states with records added one by one, in their order.

        Args:
            state: the states to start with.
            base: shape (n,), int64: the row of `state` that each result starts with, or -1 for no state.
            records: sorted by key and time.
            ranges: shape (n,), int64, both: the records [lo, hi) to add; not empty where there is no state.

        Cost: one addition for each record of each range.
        """
        lo, hi = ranges
        folded = tuple(np.empty(len(base), _DTYPES[code]) for code in self.codes)
        known = base >= 0
        _assign(folded, known, tuple(column[base[known]] for column in state))
        _assign(folded, ~known, self.lift(records.take(lo[~known])))
        _add_ranges(self, folded, records, lo + ~known, hi)
        return folded

    def reduce(self, state: State, starts: Ints) -> State:
        """Return the combination of each run of rows that begins at `starts`, as a state that can be stored.

        The rows of a run are sorted by their earliest event time and may overlap in time.
        """
        ends = np.append(starts[1:], len(state[0]))
        several = np.flatnonzero(ends - starts > 1)
        if 2 * len(several) > len(starts):
            return ranges.combine_ranges(self.combine, state, starts, ends)
        reduced = tuple(column[starts] for column in state)
        combined = ranges.combine_ranges(self.combine, state, starts[several], ends[several])
        for column, values in zip(reduced, combined, strict=True):
            column[several] = values
        return reduced

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return the combination of each range [lo, hi) of rows, as `finish` needs it.

        No range is empty, and rows do not overlap in time. The result need not have the columns of a stored state.
        """
        combine = ranges.overlap_ranges if self.idempotent else ranges.combine_ranges
        return combine(self.combine, state, lo, hi)

    def accumulate(self, records: Records, starts: Ints) -> State:
        """Return the state of each run of records that begins at `starts`. The records of a run are sorted by time."""
        lifted = self.lift(records)
        return lifted if len(starts) == len(records) else self.reduce(lifted, starts)


class UfuncOperation(Operation):
    """An operation whose one state column is combined by a NumPy ufunc."""

    __slots__ = ()
    ufunc: ClassVar[np.ufunc]

    def combine(self, left: State, right: State) -> State:
        return (type(self).ufunc(left[0], right[0]),)

    def reduce(self, state: State, starts: Ints) -> State:
        return (type(self).ufunc.reduceat(state[0], starts),)


class ReducedOperation(Operation):
    """An operation that combines two states as it reduces a run of two rows."""

    __slots__ = ()

    def combine(self, left: State, right: State) -> State:
        both = tuple(np.stack(columns, axis=1).reshape(-1) for columns in zip(left, right, strict=True))
        return self.reduce(both, np.arange(0, len(both[0]), 2))

    @abstractmethod
    def reduce(self, state: State, starts: Ints) -> State: ...


def _add_ranges(operation: Operation, state: State, records: Records, lo: Ints, hi: Ints) -> None:
    """Add the records [lo, hi) to each row of the state, in place: each pass adds one record to every row with records left."""
    # Longest ranges first, so that the rows with records left are always a prefix.
    rows = np.argsort(lo - hi, kind="stable")[: np.count_nonzero(hi > lo)]
    first, length = lo[rows], (hi - lo)[rows]
    folded = tuple(column[rows] for column in state)
    for nth in range(int(length[0]) if len(rows) else 0):
        left = int(np.searchsorted(-length, -nth, "left"))
        before = tuple(column[:left] for column in folded)
        _assign(folded, slice(left), operation.add(before, records.take(first[:left] + nth)))
    _assign(state, rows, folded)


def _assign(target: State, rows: Mask | Ints | slice, values: State) -> None:
    for column, value in zip(target, values, strict=True):
        column[rows] = value


def runs(starts: Ints, rows: int) -> Iterator[tuple[int, int]]:
    """Return the bounds of each run of rows."""
    return zip(starts.tolist(), np.append(starts[1:], rows).tolist(), strict=False)


def all_combine(operations: Sequence[Operation]) -> bool:
    """Return whether all states can be combined, so that windows can be made of panes."""
    return all(operation.combines for operation in operations)


def split_states(operations: Sequence[Operation], columns: Sequence[Column]) -> list[State]:
    """Return the columns of all states, one after another, as one state per operation."""
    states, at = [], 0
    for operation in operations:
        states.append(tuple(columns[at : at + len(operation.codes)]))
        at += len(operation.codes)
    return states


def part_of(states: Sequence[State], first: int, last: int) -> list[State]:
    """Return the rows [first, last) of several states."""
    return [tuple(column[first:last] for column in state) for state in states]


def join_states(states: Sequence[State]) -> tuple[Column, ...]:
    """Return the columns of all states, one after another."""
    return tuple(column for state in states for column in state)
