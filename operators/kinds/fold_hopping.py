"""Hopping and tumbling windows by folds: a stored state per window, to which every record that it holds is added."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints, Mask, run_starts
from operators.columns.records import Records
from operators.kinds.fold_operator import FoldOperator
from operators.kinds.folding import FoldedWindows, FoldSchema, positions
from serializers.pages import PageLayout
from state_backends import Entries, WindowStore
from state_backends.store.ordering import row_order
from state_backends.store.schema import TIME


@dataclass(frozen=True, slots=True)
class FoldedPlan:
    """What a hopping or tumbling operator computes by folds.

    Attributes:
        size: window size in ticks; a window is [start, start + size).
        step: ticks from one window's start to the next one's, at most `size`.
        offset: ticks from the epoch to the start of some window, from 0 to below `step`.
        on_update: whether changed windows are emitted after each batch, instead of closed ones once.
        operations: the distinct operations of all aggregates.
    """

    size: int
    step: int
    offset: int
    on_update: bool
    operations: tuple[Operation, ...]

    @property
    def schema(self) -> FoldSchema:
        """The windows' columns: last tick, and the states."""
        return FoldSchema(1, self.operations)

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        """The stored columns before the states."""
        return (("end", TIME),)

    @property
    def layout(self) -> PageLayout:
        """The layout of stored windows."""
        return self.schema.layout

    @property
    def reach(self) -> int:
        """How far in ticks a window's end can be from a record in it."""
        return self.size

    def describe(self) -> dict[str, Any]:
        """Return what stored state depends on."""
        return {
            "windows": "hopping by fold",
            "size in ticks": self.size,
            "step in ticks": self.step,
            "offset in ticks": self.offset,
            "emission": "on_update" if self.on_update else "on_close",
            "state": [op.describe() for op in self.operations],
        }

    def operator(self, store: WindowStore) -> FoldOperator:
        """Return the operator over a store."""
        return FoldOperator(self, store)

    def late_before(self, close: int) -> int:
        """Return the time before which a record is late: the first start of a window that ends at `close` or later."""
        return int(self._first_start(np.asarray(close + 1 - self.size)))

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end of the last window that holds a record at each time."""
        start = time - (time - self.offset) % self.step
        return start, start + self.size

    def dead_before(self, close: int) -> int:
        """Return the end before which no window matters any more: closed ones are of no use to others."""
        return close

    def bounds(self, end: Ints) -> tuple[Ints, Ints]:
        """Return starts and ends of windows as they are emitted."""
        return end + 1 - self.size, end + 1

    def is_window(self, entries: Entries) -> Mask:
        """Return which entries are windows: all of them."""
        return np.ones(len(entries), bool)

    def fold(self, stored: Entries, records: Records, close: int) -> FoldedWindows:
        """Return the windows after a batch.

        Args:
            stored: windows of the records' keys, sorted by key and end.
            records: those that are not late, sorted by key and time.
            close: the close time at which they come; windows that end before it are left as they are.
        """
        lo, end = self._touched(records, close)
        hi = positions(records.key, records.time, records.key[lo], end, "right")
        nothing = np.zeros(len(stored), np.int64)
        key, end = np.concatenate([stored.key, records.key[lo]]), np.concatenate([stored.time, end])
        lo, hi = np.concatenate([nothing, lo]), np.concatenate([nothing, hi])
        base = np.append(np.arange(len(stored)), np.full(len(lo) - len(stored), -1))
        order = row_order(key, end)
        if order is not None:
            key, end, base, lo, hi = (column[order] for column in (key, end, base, lo, hi))
        starts = run_starts(key, end)
        if len(starts) < len(key):  # a window that was stored, and the same one with its new records
            base, lo, hi = (np.maximum.reduceat(column, starts) for column in (base, lo, hi))
        states = self.schema.fold(stored, base, records, lo, hi)
        return FoldedWindows(self.schema.entries(key[starts], (end[starts],), states), base < 0, hi > lo)

    def _touched(self, records: Records, close: int) -> tuple[Ints, Ints]:
        """The first record and the last tick of each open window that holds any, sorted by key and end."""
        key, time = records.key, records.time
        low = self._first_start(time + 1 - self.size) + self.size - 1
        high = time - (time - self.offset) % self.step + self.size - 1
        # Windows that a record shares with the one before it are that one's.
        low[1:] = np.where(key[1:] == key[:-1], np.maximum(low[1:], high[:-1] + self.step), low[1:])
        low = np.maximum(low, self.late_before(close) + self.size - 1)
        count = np.maximum((high - low) // self.step + 1, 0)
        lo = np.repeat(np.arange(len(key)), count)
        nth = np.arange(len(lo)) - np.repeat(np.cumsum(count) - count, count)
        return lo, low[lo] + nth * self.step

    def _first_start(self, time: Ints) -> Ints:
        """The first start of a window at each time or after it."""
        return time + (self.offset - time) % self.step
