"""Record-driven sliding windows (KIP-450) as ranges of panes: one pane for each key and event time.

A pane at t defines two windows of a size: the left one [t - size, t], and the right one [t + 1, t + 1 + size] if it contains
a pane. (https://cwiki.apache.org/confluence/display/KAFKA/KIP-450)

A window that is already closed when its pane arrives is not created. It is the left one of a partly late record:

    panes                    b   t  | close time
    left of t        |-----------|              closed before t arrived: does not exist
    right of b                |-----|-----|     open: contains t

So every window that comes out was open when each of its panes arrived, and contains them all.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.columns.duration_text import length
from operators.columns.ranges import Ints, Mask
from operators.columns.records import NEVER
from operators.kinds.bounds import distances
from operators.kinds.described import CLOSED, WindowsPart
from operators.kinds.kind import PaneKind, WindowKind, Windows


@dataclass(frozen=True, slots=True)
class SlidingBounds(WindowKind):
    """Where sliding windows lie.

    Attributes:
        size: window size in ticks; both ends belong to the window.
    """

    size: int
    name: ClassVar[str] = "sliding"

    @property
    def identity(self) -> dict[str, Any]:
        return {"windows": self.name, "size in ticks": self.size}

    @property
    def max_bound_offset(self) -> int:
        """Up to the end of a record's right window."""
        return self.size + 1

    @property
    def dependency_span(self) -> int:
        """Up to the end of a record's right window."""
        return self.size + 1

    def _described(self, tick_us: int, title: str, entry: tuple[str, str, str]) -> WindowsPart:
        """The windows as text.

        Args:
            tick_us: length of a tick in microseconds.
            title: what follows the size in the title.
            entry: what an entry is, a plural noun for entries, and since when one is kept.
        """
        size, tick = length(self.size * tick_us), length(tick_us)
        behind = length(-self.late_before(0) * tick_us)
        return WindowsPart(
            f"sliding windows of {size}{title}",
            f"[t - {size}, t] for each event time t of a key, and [t + {tick}, t + {tick} + {size}] if a record is in it",
            f"a record more than {behind} before the close time: all windows that could contain it are closed",
            CLOSED,
            *entry,
            (1 - self.dead_before(0)) * tick_us,
        )

    def late_before(self, close_time: int) -> int:
        return close_time - self.size

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        return time, time + self.size

    def dead_before(self, close_time: int) -> int:
        """Return the time before which nothing is needed: its right window, the last one that needs it, is closed.

        So an entry of a fold is kept until its latest record, which is not after its end, has left all open windows.
        """
        return close_time - self.size - 1


@dataclass(frozen=True, slots=True)
class Sliding(SlidingBounds, PaneKind):
    """Sliding windows over panes, one for each distinct event time of a key."""

    condenses: ClassVar[bool] = False

    def describe(self, tick_us: int) -> WindowsPart:
        entry = "a pane for each distinct event time of a key", "panes", "its event time"
        return self._described(tick_us, "", entry)

    def pane_of(self, time: Ints) -> Ints:
        return time

    def next_end(self, time: Ints, close_time: int) -> Ints:
        right = np.where(time + (self.size + 1) >= close_time, time + (self.size + 1), NEVER)
        return np.where(time >= close_time, time, right)

    def earliest_end(self, first: int, last: int, close_time: int) -> int:
        return max(first if last >= close_time else first + self.size + 1, close_time)

    def within_all(self, close_time: int) -> int:
        return close_time - self.size

    def closed_windows(self, key: Ints, time: Ints, since: int, close_time: int) -> Windows:
        left = (time >= since) & (time < close_time)
        right = (time >= since - self.size - 1) & (time < close_time - self.size - 1)
        return sliding_windows(key, time, self.size, left, right)

    def changed_windows(self, key: Ints, time: Ints, changed: Mask, fresh: Mask, close_time: int) -> Windows:
        """Return the open windows that contain a record of the batch, and the right windows of new panes."""
        left, right = time >= close_time, time + (self.size + 1) >= close_time
        windows = sliding_windows(key, time, self.size, left, right)
        is_right = windows.start > time[windows.pane]
        return windows.take(windows.contain(changed) | (is_right & fresh[windows.pane]))


def sliding_windows(key: Ints, time: Ints, size: int, left: Mask, right: Mask) -> Windows:
    """Return the left windows [t - size, t] and the non-empty right windows [t + 1, t + 1 + size] of some panes.

    A right window with the bounds of another pane's left window is the same window, and is left out. (KIP-450)

    Args:
        key, time: the panes, sorted, one per distinct (key, time).
        size: window size in ticks.
        left, right: masks of the panes whose left and right windows are returned.

    Cost: two binary searches over sorted queries.
    """
    place = distances(key, time, size + 1)
    a, b = np.flatnonzero(left), np.flatnonzero(right)
    lo = np.searchsorted(place, place[a] - size, "left")
    beyond = place[b] + (size + 1)
    hi = np.searchsorted(place, beyond, "right")
    kept = np.flatnonzero((hi > b + 1) & (place[hi - 1] != beyond))
    b, hi = b[kept], hi[kept]
    end = np.concatenate([time[a], time[b] + (size + 1)])
    return Windows(
        np.concatenate([lo, b + 1]), np.concatenate([a + 1, hi]), np.concatenate([a, b]), end - size, end
    )
