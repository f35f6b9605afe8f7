"""Hopping and tumbling windows with a stored state for each window, to which each of its records is added."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints, Mask, run_starts
from operators.columns.records import Records
from operators.kinds.fold_operator import FoldPlan
from operators.kinds.folding import FoldedWindows, positions
from operators.kinds.hops import Hops
from state_backends import Entries
from state_backends.store.ordering import row_order
from state_backends.store.schema import TIME


@dataclass(frozen=True, slots=True)
class FoldHoppingPlan(Hops, FoldPlan):
    """What a hopping or tumbling operator computes by folds.

    Attributes:
        size, advance, offset: as `Hops` has them.
        on_update: whether changed windows are emitted after each batch, instead of closed ones once.
        operations: the distinct operations of all aggregates.
    """

    on_update: bool
    operations: tuple[Operation, ...]

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        return (("end", TIME),)

    @property
    def identity(self) -> dict[str, Any]:
        return {"windows": "hopping by fold", **self.lengths}

    def dead_before(self, close_time: int) -> int:
        """Return the end before which no window is needed: a closed window is not used by others."""
        return close_time

    def bounds(self, end: Ints) -> tuple[Ints, Ints]:
        """Return starts and ends of windows as they are emitted."""
        return end + 1 - self.size, end + 1

    def is_window(self, entries: Entries) -> Mask:
        """Return which entries are windows: all of them."""
        return np.ones(len(entries), bool)

    def fold(self, stored: Entries, records: Records, close_time: int) -> FoldedWindows:
        lo, start = self.windows(records.key, records.time, 1, close_time)
        end = start + (self.size - 1)
        hi = positions(records.key, records.time, records.key[lo], end, "right")
        nothing = np.zeros(len(stored), np.int64)
        key, end = np.concatenate([stored.key, records.key[lo]]), np.concatenate([stored.time, end])
        lo, hi = np.concatenate([nothing, lo]), np.concatenate([nothing, hi])
        base = np.append(np.arange(len(stored)), np.full(len(lo) - len(stored), -1))
        order = row_order(key, end)
        if order is not None:
            key, end, base, lo, hi = (column[order] for column in (key, end, base, lo, hi))
        starts = run_starts(key, end)
        if len(starts) < len(key):  # a stored window is followed by the same window with new records
            base, lo, hi = (np.maximum.reduceat(column, starts) for column in (base, lo, hi))
        states = self.schema.fold(stored, base, records, lo, hi)
        return FoldedWindows(self.schema.entries(key[starts], (end[starts],), states), base < 0, hi > lo)
