"""Record-driven sliding windows as Kafka's proposal has them (KIP-450): a stored state per window, made from those of others.

A record at t that came at close time c counts in the windows that end from max(t, c) to t + size: in an interval of ends.
So what windows hold, as a function of their end, changes only where some record's interval begins or has just ended. There
an entry stands, unless nothing is held: its state is right from its end up to the next entry's, or until its latest
record has left, at latest + size + 1. So the state of any new window is that of the last entry at its end or before, or
is empty if that one's latest record has left. Nothing has to be merged or taken away, and nothing is approximate.

Entries at a record's time and one tick after it has left are windows: its left and its right one. An entry where a partly
late record begins to be seen, at the close time of then, is no window of its own but keeps that record for later ones. A
closed left window that a partly late record brings about stays on record when emission is on close: it is emitted once.
(https://cwiki.apache.org/confluence/display/KAFKA/KIP-450)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints, Mask, run_starts
from operators.columns.records import FAR_PAST, Records
from operators.kinds.fold_operator import FoldPlan
from operators.kinds.folding import FoldedWindows, positions
from state_backends import Entries
from state_backends.store.ordering import row_order
from state_backends.store.schema import NUMBER, TIME

_END, _LATEST, _IS_WINDOW = range(3)


@dataclass(frozen=True, slots=True)
class FoldSlidingPlan(FoldPlan):
    """What a sliding operator computes by folds.

    Attributes:
        size: window size in ticks; both ends belong to the window.
        on_update: whether changed windows are emitted after each batch, instead of closed ones once.
        operations: the distinct operations of all aggregates.
    """

    size: int
    on_update: bool
    operations: tuple[Operation, ...]

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        return ("end", TIME), ("latest", TIME), ("is_window", NUMBER)

    @property
    def identity(self) -> dict[str, Any]:
        return {"windows": "sliding by fold", "size in ticks": self.size}

    @property
    def reach(self) -> int:
        """How far in ticks an entry can be from a record that changes it, or whose windows begin as it is."""
        return self.size + 1

    def late_before(self, close: int) -> int:
        """Return the time before which a record is late: no window that ends at `close` or later can hold it."""
        return close - self.size

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return the bounds of the last window that can hold a record at each time."""
        return time, time + self.size

    def dead_before(self, close: int) -> int:
        """Return the end before which no entry can matter any more.

        An entry matters while its latest record, which is no later than its end, is in a window that is open or comes to be,
        or has just left the one before. On close the closed left window of a partly late record can come to be: two sizes.
        """
        return close - (self.size + 1 if self.on_update else 2 * self.size)

    def bounds(self, end: Ints) -> tuple[Ints, Ints]:
        """Return starts and ends of windows as they are emitted."""
        return end - self.size, end

    def is_window(self, entries: Entries) -> Mask:
        """Return which entries are windows."""
        return entries.columns[_IS_WINDOW] != 0

    def fold(self, stored: Entries, records: Records, close: int) -> FoldedWindows:
        """Return the windows after a batch.

        Args:
            stored: entries of the records' keys that can matter to them, sorted by key and end.
            records: those that are not late, sorted by key and time.
            close: the close time at which they come.
        """
        ends = self._ends(stored, records, close)
        base = self._base(stored, ends)
        lo = positions(records.key, records.time, ends.key, ends.end - self.size, "left")
        hi = positions(records.key, records.time, ends.key, ends.end, "right")
        hi = np.where(ends.end >= close, hi, lo)
        held = (base >= 0) | (hi > lo)
        ends, base, lo, hi = ends.take(held), base[held], lo[held], hi[held]
        begun, added = base >= 0, hi > lo
        latest = np.full(len(base), FAR_PAST)
        latest[begun] = stored.columns[_LATEST][base[begun]]
        latest[added] = np.maximum(latest[added], records.time[hi[added] - 1])
        states = self.schema.fold(stored, base, records, lo, hi)
        head = ends.end, latest, ends.window.astype(np.int64)
        return FoldedWindows(self.schema.entries(ends.key, head, states), ends.fresh, added | ends.fresh)

    def _base(self, stored: Entries, ends: "_Ends") -> Ints:
        """The stored entry that holds what each end held before the batch, or -1 where that was nothing."""
        base = positions(stored.key, stored.time, ends.key, ends.end, "right") - 1
        held = base >= 0
        held[held] = stored.key[base[held]] == ends.key[held]
        held[held] = stored.columns[_LATEST][base[held]] + self.size >= ends.end[held]
        return np.where(held, base, -1)

    def _ends(self, stored: Entries, records: Records, close: int) -> "_Ends":
        """Where entries can stand now: where they stood, and where records come to be seen or leave."""
        left = stored.columns[_LATEST] + (self.size + 1)
        gap = _gaps(stored, left)
        # On update nobody asks for closed windows.
        partly = np.flatnonzero(records.time < close) if not self.on_update else np.empty(0, np.int64)
        parts = (
            (stored.key, stored.time, self.is_window(stored)),
            (stored.key[gap], left[gap], np.ones(len(gap), bool)),
            (records.key, np.maximum(records.time, close), records.time >= close),
            (records.key, records.time + (self.size + 1), np.ones(len(records), bool)),
            (records.key[partly], records.time[partly], np.ones(len(partly), bool)),
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
    """Distinct pairs of key and end, sorted; whether each is a window, and whether it was none before."""

    key: Ints
    end: Ints
    window: Mask
    fresh: Mask

    def take(self, rows: Mask) -> "_Ends":
        return _Ends(self.key[rows], self.end[rows], self.window[rows], self.fresh[rows])


def _gaps(stored: Entries, left: Ints) -> Ints:
    """The entries whose content is gone before the next one begins: a right window that was empty stands there."""
    gone = np.ones(len(stored), bool)
    gone[:-1] = (stored.key[1:] != stored.key[:-1]) | (left[:-1] < stored.time[1:])
    return np.flatnonzero(gone)
