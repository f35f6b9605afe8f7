"""The primitives of an aggregate, on whole columns: what Hazelcast Jet calls an AggregateOperation.

A state is a tuple of columns, one row per pane or window. `lift` is create and accumulate for one record a row; `reduce`
accumulates runs of records; `combine` and, where it exists, the difference of prefixes (deduct) do the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from operators import kernel
from operators.columns import ColumnData
from operators.kernel import Ints, State


@dataclass(frozen=True, slots=True)
class Operation(ABC):
    """One state shared by all aggregates of a window that need it. Equal operations are kept once.

    Laws: `combine` is associative; `combine` and `combined` never change their arguments.
    """

    column: str | None

    @property
    @abstractmethod
    def codes(self) -> tuple[str, ...]:
        """The state's columns as page codes: "i8", "f8" or "object"."""

    def describe(self) -> str:
        """Return the operation as text; stored states of two operations agree if their texts do."""
        given = [getattr(self, attribute.name) for attribute in fields(self)]
        return f"{type(self).__name__}({', '.join(str(value) for value in given if value is not None)})"

    @abstractmethod
    def lift(self, rows: int, data: ColumnData) -> State:
        """Return the state of each record by itself.

        Args:
            rows: number of records.
            data: the values of `column`; of no meaning if the operation has none.
        """

    @abstractmethod
    def combine(self, left: State, right: State) -> State:
        """Return the row-wise combination; `left` is the earlier in event time."""

    def reduce(self, state: State, starts: Ints) -> State:
        """Return the combination of each run of rows that begins at `starts`; the rows of a run have one event time."""
        ends = np.append(starts[1:], len(state[0]))
        return kernel.combine_ranges(self.combine, state, starts, ends)

    def combined(self, state: State, lo: Ints, hi: Ints) -> State:
        """Return the combination of each range [lo, hi) of rows; none is empty."""
        return kernel.combine_ranges(self.combine, state, lo, hi)

    def accumulate(self, rows: int, data: Mapping[str, ColumnData], starts: Ints) -> State:
        """Return the state of each run of records that begins at `starts`."""
        lifted = self.lift(rows, data[self.column] if self.column is not None else _NO_DATA)
        return lifted if len(starts) == rows else self.reduce(lifted, starts)


_NO_DATA = ColumnData(np.empty(0), None)


class UfuncOperation(Operation):
    """An operation whose one state column is combined by a NumPy ufunc."""

    __slots__ = ()
    ufunc: ClassVar[np.ufunc]

    def combine(self, left: State, right: State) -> State:
        return (type(self).ufunc(left[0], right[0]),)

    def reduce(self, state: State, starts: Ints) -> State:
        return (type(self).ufunc.reduceat(state[0], starts),)


def prefix_difference(column: npt.NDArray[np.int64], lo: Ints, hi: Ints) -> npt.NDArray[np.int64]:
    """Return the sum of each range by deducting prefixes: exact for integers, O(1) a range.

    A prefix may wrap beyond 64 bits; the difference is right all the same as long as the sum itself fits.
    """
    prefix = np.zeros(len(column) + 1, np.int64)
    np.cumsum(column, out=prefix[1:])
    return prefix[hi] - prefix[lo]
