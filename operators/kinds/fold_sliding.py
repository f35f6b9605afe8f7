"""Record-driven sliding windows with a stored state for each window, which starts as the state of another one (KIP-450).

A record at t that arrives at close time c is in the windows that end from max(t, c) to t + size. So the records in a window
depend on its end, and change only where the interval of a record starts, or one tick after it ends:

    ends             t1      t2            t1 + size   t2 + size
    interval of 1    |---------------------|
    interval of 2            |-------------------------|
    entries          L1      L2             R1          (none: no record is left)
    state            1       1, 2           2

L1 and L2 are the left windows of the records, R1 is the right window of record 1. An entry's state is that of all windows that
end from its own end until the next entry, or until its latest record leaves, at latest + size + 1. So a new window starts with
the state of the last entry before it, or with no state if all records of that entry have left. No states are merged, nothing
is deducted, and results are exact.

A partly late record starts at the close time of its arrival. The entry there is not a window: it keeps the record for later
windows. The left window of such a record is closed when the record arrives, and is not created.
(https://cwiki.apache.org/confluence/display/KAFKA/KIP-450)
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from operators.columns.ranges import Ints, Mask, run_starts
from operators.columns.records import FAR_PAST, Records
from operators.kinds.described import WindowsPart
from operators.kinds.folding import FoldedWindows, FoldSchema, positions
from operators.kinds.kind import FoldKind
from operators.kinds.sliding import SlidingBounds
from state_backends import Entries
from state_backends.store.ordering import row_order
from state_backends.store.schema import NUMBER, TIME

_END, _LATEST, _IS_WINDOW = range(3)


@dataclass(frozen=True, slots=True)
class FoldedSliding(SlidingBounds, FoldKind):
    """Sliding windows with a stored state each."""

    name: ClassVar[str] = "sliding by fold"
    head: ClassVar[tuple[tuple[str, str], ...]] = (("end", TIME), ("latest", TIME), ("is_window", NUMBER))

    def describe(self, tick_us: int) -> WindowsPart:
        entry = "a window, about two for each distinct event time of a key", "windows", "its end"
        return self._described(tick_us, ", window by window", entry)

    def bounds(self, last_tick: Ints) -> tuple[Ints, Ints]:
        return last_tick - self.size, last_tick

    def is_window(self, entries: Entries) -> Mask:
        return entries.columns[_IS_WINDOW] != 0

    def fold(self, schema: FoldSchema, stored: Entries, records: Records, close_time: int) -> FoldedWindows:
        ends = self._ends(stored, records, close_time)
        base = self._base(stored, ends)
        lo = positions(records.key, records.time, ends.key, ends.end - self.size, "left")
        hi = positions(records.key, records.time, ends.key, ends.end, "right")
        hi = np.where(ends.end >= close_time, hi, lo)
        held = (base >= 0) | (hi > lo)
        ends, base, lo, hi = ends.take(held), base[held], lo[held], hi[held]
        begun, added = base >= 0, hi > lo
        latest = np.full(len(base), FAR_PAST)
        latest[begun] = stored.columns[_LATEST][base[begun]]
        latest[added] = np.maximum(latest[added], records.time[hi[added] - 1])
        states = schema.fold(stored, base, records, lo, hi)
        head = ends.end, latest, ends.window.astype(np.int64)
        return FoldedWindows(schema.entries(ends.key, head, states), ends.fresh, added | ends.fresh)

    def _base(self, stored: Entries, ends: "_Ends") -> Ints:
        """The stored entry with the state of each end before the batch, or -1 if no records were in it."""
        base = positions(stored.key, stored.time, ends.key, ends.end, "right") - 1
        held = base >= 0
        held[held] = stored.key[base[held]] == ends.key[held]
        held[held] = stored.columns[_LATEST][base[held]] + self.size >= ends.end[held]
        return np.where(held, base, -1)

    def _ends(self, stored: Entries, records: Records, close_time: int) -> "_Ends":
        """The ends at which an entry can be after the batch.

            stored entries           E         E
            their records leave                     G        a right window that was empty, if nothing follows
            a record t                    L             R    its left and its right window
            a partly late record            |V       R       V: the close time, from which on it is visible

        V is not a window.
        """
        left = stored.columns[_LATEST] + (self.size + 1)
        gap = _gaps(stored, left)
        parts = (
            (stored.key, stored.time, self.is_window(stored)),
            (stored.key[gap], left[gap], np.ones(len(gap), bool)),
            (records.key, np.maximum(records.time, close_time), records.time >= close_time),
            (records.key, records.time + (self.size + 1), np.ones(len(records), bool)),
        )
        key, end, window = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        before = window.copy()
        before[len(stored) :] = False
        order = row_order(key, end)
        if order is not None:
            key, end, window, before = key[order], end[order], window[order], before[order]
        starts = run_starts(key, end)
        if len(starts) < len(key):
            window, before = (np.logical_or.reduceat(mask, starts) for mask in (window, before))
        return _Ends(key[starts], end[starts], window, window & ~before)


@dataclass(frozen=True, slots=True)
class _Ends:
    """Distinct pairs of key and end, sorted; whether each is a window, and whether it is a new one."""

    key: Ints
    end: Ints
    window: Mask
    fresh: Mask

    def take(self, rows: Mask) -> "_Ends":
        return _Ends(self.key[rows], self.end[rows], self.window[rows], self.fresh[rows])


def _gaps(stored: Entries, left: Ints) -> Ints:
    """The entries whose records have all left before the next entry: right windows there were empty, and were not stored."""
    gone = np.ones(len(stored), bool)
    gone[:-1] = (stored.key[1:] != stored.key[:-1]) | (left[:-1] < stored.time[1:])
    return np.flatnonzero(gone)
