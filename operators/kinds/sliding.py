"""Record-driven sliding windows (KIP-450) over panes: one pane per distinct key and event time, windows as ranges of panes.

Each window's left or right defining pane says when it closes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints, rows_of_ranges, run_starts
from operators.kinds.bounds import Windows, distances, sliding_windows
from operators.kinds.pane_operator import PaneOperator, PanePlan
from operators.kinds.panes import MergedPanes, VisiblePaneSchema, seen_from, visible
from operators.steps.emission import Emission
from operators.steps.timers import NEVER
from state_backends import Entries, WindowStore


@dataclass(frozen=True, slots=True)
class SlidingPlan(PanePlan):
    """What a sliding operator computes.

    Attributes:
        size: window size in ticks; both ends belong to the window.
        on_update: whether changed windows are emitted after each batch, instead of closed ones once.
        operations: the distinct operations of all aggregates.
    """

    size: int
    on_update: bool
    operations: tuple[Operation, ...]
    condenses: ClassVar[bool] = False

    @property
    def schema(self) -> VisiblePaneSchema:
        return VisiblePaneSchema(self.operations)

    @property
    def identity(self) -> dict[str, Any]:
        return {"windows": "sliding", "size in ticks": self.size}

    @property
    def reach(self) -> int:
        """How far a pane can be from what it takes to know its windows: its right window's last tick."""
        return self.size + 1

    def pane_of(self, time: Ints) -> Ints:
        return time

    def late_before(self, close: int) -> int:
        """Return the time before which a record is late: no window that ends at `close` or later can hold it."""
        return close - self.size

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return the bounds of the last window that can hold a record at each time."""
        return time, time + self.size

    def operator(self, store: WindowStore) -> "SlidingOperator":
        """Return the operator over a store."""
        return SlidingOperator(self, store)

    def dead_before(self, close: int) -> int:
        """Return the time before which no pane can matter any more.

        On update, a pane matters while its right window is open. On close, it can also be in the closed left window of a
        partly late record that is still to come, or tell by its own right window that it was emitted: two sizes and a tick.
        """
        return close - (self.size if self.on_update else 2 * self.size) - 1

    def next_end(self, time: Ints, close: int) -> Ints:
        """Return the end of the next window to close that a pane at each time defines, or NEVER."""
        right = np.where(time + (self.size + 1) >= close, time + (self.size + 1), NEVER)
        return np.where(time >= close, time, right)


class SlidingOperator(PaneOperator):
    """Sliding windows over one store."""

    plan: SlidingPlan

    def arrive(self, panes: Entries, close: int) -> Entries:
        return seen_from(panes, close)

    def emit(
        self, keys: list[bytes], merged: MergedPanes, close_start: int, close_end: int
    ) -> Iterator[Emission]:
        if self.plan.on_update:
            yield self._changed(keys, merged, close_start)
            return
        if (merged.changed & (merged.panes.time < close_start)).any():
            yield self._born_closed(keys, merged, close_start)
        if close_end > close_start:
            yield self.closed(keys, merged.panes, close_start, close_end)

    def closed(self, keys: list[bytes], panes: Entries, since: int, close: int) -> Emission:
        size = self.plan.size
        panes = self.plan.schema.by_time(panes)
        time = panes.time
        left = (time >= since) & (time < close)
        right = (time >= since - size - 1) & (time < close - size - 1)
        return self._emission(keys, panes, sliding_windows(panes.key, time, size, left, right))

    def _changed(self, keys: list[bytes], merged: MergedPanes, close: int) -> Emission:
        """The open windows that hold a record of the batch, and those that a new pane defines."""
        size = self.plan.size
        starts = run_starts(merged.panes.key, merged.panes.time)
        panes = self.plan.schema.reduce(merged.panes, starts)
        if not len(panes):
            return self._emission(keys, panes, sliding_windows(panes.key, panes.time, size, *_NO_MASKS))
        changed = np.logical_or.reduceat(merged.changed, starts)
        fresh = np.logical_and.reduceat(merged.fresh, starts)
        windows = sliding_windows(
            panes.key, panes.time, size, panes.time >= close, panes.time + (size + 1) >= close
        )
        before = np.concatenate([[0], np.cumsum(changed)])
        wanted = before[windows.hi] > before[windows.lo]
        wanted |= windows.right & fresh[windows.pane]
        return self._emission(keys, panes, windows.take(wanted))

    def _born_closed(self, keys: list[bytes], merged: MergedPanes, close: int) -> Emission:
        """Left windows that partly late records bring into being although they are closed already.

        Such a window holds the records that came while it was open, which the new record did not. If a pane just before it
        has it as its right window, it was emitted as such.
        """
        panes, size = merged.panes, self.plan.size
        starts = run_starts(panes.key, panes.time)
        new = np.logical_and.reduceat(merged.fresh, starts) if len(starts) else np.empty(0, bool)
        pane = starts[new & (panes.time[starts] < close)]
        place = distances(panes.key, panes.time, size + 1)
        lo = np.searchsorted(place, place[pane] - size, "left")
        # Every pair of such a window and a pane in its span, of which it keeps those that it may see.
        known = (lo > 0) & (place[lo - 1] == place[pane] - (size + 1))
        pane, lo = pane[~known], lo[~known]
        window, row = rows_of_ranges(lo, pane)
        seen = visible(panes)[row] <= panes.time[pane][window]
        window, held = window[seen], panes.take(row[seen])
        tied = run_starts(window, held.time)
        window, held = window[tied], self.plan.schema.reduce(held, tied)
        begins = np.flatnonzero(np.diff(window, prepend=-1))
        ends = np.append(begins[1:], len(held))[: len(begins)]
        chosen = Windows(begins, ends, begins, panes.time[pane[window[begins]]], np.zeros(len(begins), bool))
        return self._emission(keys, held, chosen)

    def _emission(self, keys: list[bytes], panes: Entries, windows: Windows) -> Emission:
        states = self.plan.schema.combine_ranges(panes, windows.lo, windows.hi)
        return Emission(keys, panes.key[windows.pane], windows.end - self.plan.size, windows.end, states)


_NO_MASKS = (np.empty(0, bool), np.empty(0, bool))
