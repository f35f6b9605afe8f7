"""Hopping and tumbling windows with a stored state for each window, to which each of its records is added."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from operators.columns.ranges import Ints, Mask, run_starts
from operators.columns.records import Records
from operators.kinds.described import WindowsPart
from operators.kinds.folding import FoldedWindows, FoldSchema, positions
from operators.kinds.hopping import Hops
from operators.kinds.kind import FoldKind
from state_backends import Entries
from state_backends.store.ordering import row_order
from state_backends.store.schema import TIME


@dataclass(frozen=True, slots=True)
class FoldedHopping(Hops, FoldKind):
    """Hopping or tumbling windows with a stored state each."""

    name: ClassVar[str] = "hopping by fold"
    head: ClassVar[tuple[tuple[str, str], ...]] = (("end", TIME),)

    def describe(self, tick_us: int) -> WindowsPart:
        kept = self.size, self.times.spacing
        return self._described(
            tick_us, ", window by window", ("a window with a record in it", "windows"), kept
        )

    def dead_before(self, close_time: int) -> int:
        """Return the end before which no window is needed: a closed window is not used by others."""
        return close_time

    def bounds(self, last_tick: Ints) -> tuple[Ints, Ints]:
        return self.times.start(self.times.first_after(last_tick)), last_tick + 1

    def is_window(self, entries: Entries) -> Mask:
        """Return which entries are windows: all of them."""
        return np.ones(len(entries), bool)

    def fold(self, schema: FoldSchema, stored: Entries, records: Records, close_time: int) -> FoldedWindows:
        lo, number = self.numbers(records.key, records.time, close_time)
        last = self.times.end(number) - 1
        hi = positions(records.key, records.time, records.key[lo], last, "right")
        nothing = np.zeros(len(stored), np.int64)
        key, last = np.concatenate([stored.key, records.key[lo]]), np.concatenate([stored.time, last])
        lo, hi = np.concatenate([nothing, lo]), np.concatenate([nothing, hi])
        base = np.append(np.arange(len(stored)), np.full(len(lo) - len(stored), -1))
        order = row_order(key, last)
        if order is not None:
            key, last, base, lo, hi = (column[order] for column in (key, last, base, lo, hi))
        starts = run_starts(key, last)
        if len(starts) < len(key):  # a stored window is followed by the same window with new records
            base, lo, hi = (np.maximum.reduceat(column, starts) for column in (base, lo, hi))
        states = schema.fold(stored, base, records, lo, hi)
        return FoldedWindows(schema.entries(key[starts], (last[starts],), states), base < 0, hi > lo)
