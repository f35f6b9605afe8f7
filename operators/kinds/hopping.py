"""Hopping and tumbling windows: where they lie in time, and which panes each contains.

A pane covers as many ticks as the greatest common divisor of the window's size and advance, so that no window holds only a
part of one. (Hazelcast Jet's sliding windows)
"""

from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

import numpy as np

from operators.columns.duration_text import length
from operators.columns.ranges import Ints, Mask
from operators.columns.records import FAR_PAST, NEVER
from operators.kinds.bounds import distances
from operators.kinds.described import WindowsPart
from operators.kinds.kind import PaneKind, WindowKind, Windows


@dataclass(frozen=True, slots=True)
class Hops(WindowKind):
    """Windows [start, start + size) that begin every `advance` ticks.

    Attributes:
        size: window size in ticks.
        advance: ticks from one window's start to the next one's, at most `size`.
        offset: ticks from the epoch to the start of some window, from 0 to below `advance`.
    """

    size: int
    advance: int
    offset: int
    name: ClassVar[str] = "hopping"

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "windows": self.name,
            "size in ticks": self.size,
            "step in ticks": self.advance,
            "offset in ticks": self.offset,
        }

    @property
    def max_bound_offset(self) -> int:
        return self.size

    @property
    def dependency_span(self) -> int:
        return self.size

    def _described(
        self, tick_us: int, title: str, entry: tuple[str, str], kept: tuple[int, int]
    ) -> WindowsPart:
        """The windows as text.

        Args:
            tick_us: length of a tick in microseconds.
            title: what follows the lengths in the title.
            entry: what an entry is, and a plural noun for entries.
            kept: for how many ticks after its start an entry is kept, and by how many two of them are apart.
        """
        size, step = length(self.size * tick_us), length(self.advance * tick_us)
        name = f"tumbling windows of {size}" if size == step else f"hopping windows of {size} every {step}"
        shifted = f", shifted by {length(self.offset * tick_us)}" if self.offset else ""
        return WindowsPart(
            f"{name}{title}",
            f"[start, start + {size}), a start every {step} since the epoch{shifted}",
            "a record whose last window is closed",
            "a window whose end (exclusive) is at or before the close time",
            *entry,
            "its start",
            kept[0] * tick_us,
            kept[1] * tick_us,
        )

    def first_start(self, time: Ints) -> Ints:
        """Return the first start of a window at each time or after it."""
        return time + (self.offset - time) % self.advance

    def last_start(self, time: Ints) -> Ints:
        """Return the start of the last window that contains each time."""
        return time - (time - self.offset) % self.advance

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        start = self.last_start(time)
        return start, start + self.size

    def late_before(self, close_time: int) -> int:
        """Return the first start of a window that is open at a close time: earlier times are in closed windows only."""
        return int(self.first_start(np.asarray(close_time + 1 - self.size)))

    def dead_before(self, close_time: int) -> int:
        """Return the time before which every window is closed."""
        return self.late_before(close_time)

    def starts(
        self, key: Ints, time: Ints, length: int, since: int, before: int | None = None
    ) -> tuple[Ints, Ints]:
        """Return every window that contains slices of time: the row of the first slice in it, and its start.

        A window is returned once, for the first slice that it contains:

            slices of a key      a  b           c
            windows           |-----|                     of a: [ includes a, ) excludes b
                                 |-----|                  of a
                                    |-----|               of b
                                             |-----|      of c
                                                |-----|   of c

        Args:
            key, time: shape (n,), int64: key and start of each slice, sorted.
            length: the length of a slice in ticks; no window contains only a part of one.
            since: a close time; windows that it closes are left out.
            before: a close time; windows that are still open at it are left out. By default all are returned.

        Cost: O(slices + windows).
        """
        low, high = self.first_start(time + length - self.size), self.last_start(time)
        low[1:] = np.where(key[1:] == key[:-1], np.maximum(low[1:], high[:-1] + self.advance), low[1:])
        low = np.maximum(low, self.late_before(since))
        if before is not None:
            high = np.minimum(high, self.late_before(before) - self.advance)
        count = np.maximum((high - low) // self.advance + 1, 0)
        row = np.repeat(np.arange(len(key)), count)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        return row, low[row] + nth * self.advance


@dataclass(frozen=True, slots=True)
class Hopping(Hops, PaneKind):
    """Hopping or tumbling windows over panes."""

    condenses: ClassVar[bool] = True

    def describe(self, tick_us: int) -> WindowsPart:
        pane = length(self.pane * tick_us)
        one = self.pane == self.size
        entry = "a window" if one else f"a pane of {pane} (the greatest common divisor of size and advance)"
        entries = f"{entry} with a record in it", "windows" if one else "panes"
        return self._described(tick_us, "", entries, (self.size, self.pane))

    @property
    def grid(self) -> tuple[int, int]:
        return self.pane, self.offset

    @property
    def pane(self) -> int:
        """Length of a pane in ticks."""
        return gcd(self.size, self.advance)

    def pane_of(self, time: Ints) -> Ints:
        return time - (time - self.offset) % self.pane

    def next_end(self, time: Ints, close_time: int) -> Ints:
        following = self._following(time, close_time)
        return np.where(following <= self.last_start(time), following + self.size - 1, NEVER)

    def earliest_end(self, first: int, last: int, close_time: int) -> int:
        return int(self._following(np.asarray(first), close_time)) + self.size - 1

    def _following(self, time: Ints, close_time: int) -> Ints:
        """The start of the first window that is open and could contain a pane at each time."""
        first_open = self.first_start(np.maximum(close_time + 1 - self.size, FAR_PAST))
        return np.maximum(self.first_start(time + self.pane - self.size), first_open)

    def closed_windows(self, key: Ints, time: Ints, since: int, close_time: int) -> Windows:
        return self._windows(key, time, since, close_time)

    def changed_windows(self, key: Ints, time: Ints, changed: Mask, fresh: Mask, close_time: int) -> Windows:
        """Return the open windows that contain a record of the batch."""
        del fresh
        windows = self._windows(key, time, close_time, None)
        return windows.take(windows.contain(changed))

    def _windows(self, key: Ints, time: Ints, since: int, close_time: int | None) -> Windows:
        """The windows with a pane that end at `since` or later, and before `close_time` if given."""
        lo, start = self.starts(key, time, self.pane, since, close_time)
        place = distances(key, time, self.size)
        hi = np.searchsorted(place, place[lo] + (start + (self.size - self.pane) - time[lo]), "right")
        return Windows(lo, hi, lo, start, start + self.size)
