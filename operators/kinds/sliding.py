"""Record-driven sliding windows (KIP-450) over panes: one pane for each key and event time, windows as ranges of panes.

A pane at t defines two windows of a size: the left one [t - size, t], and the right one [t + 1, t + 1 + size] if it contains
a pane. (https://cwiki.apache.org/confluence/display/KAFKA/KIP-450)

A window that is closed when its pane arrives does not come to exist. It is the left one of a partly late record:

    panes                    b   t  | close time
    left of t        |-----------|              closed before t arrived: does not exist
    right of b                |-----|-----|     open: contains t

So every window that comes out was open when each of its panes arrived, and contains them all.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints
from operators.kinds.bounds import Windows, sliding_windows
from operators.kinds.pane_operator import PaneOperator, PanePlan
from operators.kinds.panes import MergedPanes
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
        """Return the time before which no window needs a pane: its right window, the last one that needs it, is closed."""
        return close_time - self.size - 1

    def next_end(self, time: Ints, close_time: int) -> Ints:
        """Return the end of the next window to close that a pane at each time defines, or NEVER."""
        right = np.where(time + (self.size + 1) >= close_time, time + (self.size + 1), NEVER)
        return np.where(time >= close_time, time, right)

    def earliest_end(self, first: int, last: int, close_time: int) -> int:
        return max(first if last >= close_time else first + self.size + 1, close_time)


class SlidingOperator(PaneOperator):
    """Sliding windows over one store."""

    plan: SlidingPlan

    def closed(self, keys: list[bytes], panes: Entries, since: int, close_time: int) -> Emission:
        size, time = self.plan.size, panes.time
        left = (time >= since) & (time < close_time)
        right = (time >= since - size - 1) & (time < close_time - size - 1)
        return self._emission(keys, panes, sliding_windows(panes.key, time, size, left, right))

    def changed(self, keys: list[bytes], merged: MergedPanes, close_time: int) -> Emission:
        """Return the open windows that contain a record of the batch, and the right windows of new panes."""
        panes, size = merged.panes, self.plan.size
        left, right = panes.time >= close_time, panes.time + (size + 1) >= close_time
        windows = sliding_windows(panes.key, panes.time, size, left, right)
        before = np.concatenate([[0], np.cumsum(merged.changed)])
        emitted = before[windows.hi] > before[windows.lo]
        emitted |= windows.right & merged.fresh[windows.pane]
        return self._emission(keys, panes, windows.take(emitted))

    def _emission(self, keys: list[bytes], panes: Entries, windows: Windows) -> Emission:
        states = self.plan.schema.combine_ranges(panes, windows.lo, windows.hi)
        return Emission(keys, panes.key[windows.pane], windows.end - self.plan.size, windows.end, states)
