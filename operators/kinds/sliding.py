"""Record-driven sliding windows (KIP-450) over panes: one pane for each key and event time, windows as ranges of panes.

A pane at t defines two windows of a size: the left one [t - size, t], and the right one [t + 1, t + 1 + size] if it contains
a pane. (https://cwiki.apache.org/confluence/display/KAFKA/KIP-450)
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
        """How many ticks a pane can be away from the panes that determine its windows: up to the end of its right window."""
        return self.size + 1

    def pane_of(self, time: Ints) -> Ints:
        return time

    def late_before(self, close_time: int) -> int:
        """Return the time before which a record is late: no window that ends at `close_time` or later can contain it."""
        return close_time - self.size

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return the bounds of the last window that can contain a record at each time."""
        return time, time + self.size

    def operator(self, store: WindowStore) -> "SlidingOperator":
        """Return the operator over a store."""
        return SlidingOperator(self, store)

    def dead_before(self, close_time: int) -> int:
        """Return the time before which no window needs a pane.

        On update, a pane is needed until its right window is closed. On close, also for the left window that a partly late
        record can still create: the record is not before the close time less a size, and the window starts a size earlier. A
        pane one tick before that window has it as its right window, which shows that it was emitted:

                     p|-------------------t|-------------------|
                       left window of t      last window with t
            close time less:  p two sizes and a tick, t a size
        """
        return close_time - (self.size if self.on_update else 2 * self.size) - 1

    def next_end(self, time: Ints, close_time: int) -> Ints:
        """Return the end of the next window to close that a pane at each time defines, or NEVER."""
        right = np.where(time + (self.size + 1) >= close_time, time + (self.size + 1), NEVER)
        return np.where(time >= close_time, time, right)

    def earliest_end(self, first: int, last: int, close_time: int) -> int:
        return max(first if last >= close_time else first + self.size + 1, close_time)


class SlidingOperator(PaneOperator):
    """Sliding windows over one store."""

    plan: SlidingPlan

    def arrive(self, panes: Entries, close_time: int) -> Entries:
        return seen_from(panes, close_time)

    def emit(
        self, keys: list[bytes], merged: MergedPanes, close_time_start: int, close_time_end: int
    ) -> Iterator[Emission]:
        if self.plan.on_update:
            yield self._changed(keys, merged, close_time_start)
            return
        if (merged.changed & (merged.panes.time < close_time_start)).any():
            yield self._created_closed(keys, merged, close_time_start)
        if close_time_end > close_time_start:
            yield self.closed(keys, merged.panes, close_time_start, close_time_end)

    def closed(self, keys: list[bytes], panes: Entries, since: int, close_time: int) -> Emission:
        size = self.plan.size
        panes = self.plan.schema.by_time(panes)
        time = panes.time
        left = (time >= since) & (time < close_time)
        right = (time >= since - size - 1) & (time < close_time - size - 1)
        return self._emission(keys, panes, sliding_windows(panes.key, time, size, left, right))

    def _changed(self, keys: list[bytes], merged: MergedPanes, close_time: int) -> Emission:
        """The open windows that contain a record of the batch, and the right windows of new panes."""
        size = self.plan.size
        starts = run_starts(merged.panes.key, merged.panes.time)
        panes = self.plan.schema.reduce(merged.panes, starts)
        if not len(panes):
            return self._emission(keys, panes, sliding_windows(panes.key, panes.time, size, *_NO_MASKS))
        changed = np.logical_or.reduceat(merged.changed, starts)
        fresh = np.logical_and.reduceat(merged.fresh, starts)
        windows = sliding_windows(
            panes.key, panes.time, size, panes.time >= close_time, panes.time + (size + 1) >= close_time
        )
        before = np.concatenate([[0], np.cumsum(changed)])
        emitted = before[windows.hi] > before[windows.lo]
        emitted |= windows.right & fresh[windows.pane]
        return self._emission(keys, panes, windows.take(emitted))

    def _created_closed(self, keys: list[bytes], merged: MergedPanes, close_time: int) -> Emission:
        """The left windows of partly late records, which are closed when the records arrive and have not been emitted.

            panes                    b   t  | close time
            left of t        |-----------|              closed before t arrived: contains b and not t
            right of b                |-----|-----|     open: contains t

        The left window of t contains the panes that it sees: those that arrived while it was open. If it sees none, it is not
        emitted. It is not emitted either if it was the right window of a pane one tick before it: then it was emitted before.
        """
        panes, size = merged.panes, self.plan.size
        starts = run_starts(panes.key, panes.time)
        new = np.logical_and.reduceat(merged.fresh, starts) if len(starts) else np.empty(0, bool)
        pane = starts[new & (panes.time[starts] < close_time)]
        place = distances(panes.key, panes.time, size + 1)
        lo = np.searchsorted(place, place[pane] - size, "left")
        known = (lo > 0) & (place[lo - 1] == place[pane] - (size + 1))
        pane, lo = pane[~known], lo[~known]
        # Every pair of such a window and a pane that it contains; those that the window sees are kept.
        window, row = rows_of_ranges(lo, pane)
        seen = visible(panes)[row] <= panes.time[pane][window]
        window, inside = window[seen], panes.take(row[seen])
        same_time = run_starts(window, inside.time)
        window, inside = window[same_time], self.plan.schema.reduce(inside, same_time)
        begins = np.flatnonzero(np.diff(window, prepend=-1))
        ends = np.append(begins[1:], len(inside))[: len(begins)]
        created = Windows(begins, ends, begins, panes.time[pane[window[begins]]], np.zeros(len(begins), bool))
        return self._emission(keys, inside, created)

    def _emission(self, keys: list[bytes], panes: Entries, windows: Windows) -> Emission:
        states = self.plan.schema.combine_ranges(panes, windows.lo, windows.hi)
        return Emission(keys, panes.key[windows.pane], windows.end - self.plan.size, windows.end, states)


_NO_MASKS = (np.empty(0, bool), np.empty(0, bool))
