"""Hopping and tumbling windows: where they lie in time, and which panes each contains.

A pane is as long as the greatest common divisor of the window's size and advance, so that no window holds only a part of one.
(Hazelcast Jet's sliding windows)
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.columns.ranges import Ints, Mask
from operators.columns.records import FAR_FUTURE, FAR_PAST, NEVER
from operators.columns.zones import Zone
from operators.kinds.bounds import distances
from operators.kinds.described import WindowsPart
from operators.kinds.kind import PaneKind, WindowKind, Windows
from operators.kinds.timetables import Timetable


@dataclass(frozen=True, slots=True)
class Hops(WindowKind):
    """Windows [start, end) by a timetable.

    Attributes:
        times: when windows start and end.
    """

    times: Timetable
    name: ClassVar[str] = "hopping"

    @property
    def size(self) -> int:
        """The most ticks that a window lasts."""
        return self.times.size

    @property
    def identity(self) -> dict[str, Any]:
        return {"windows": f"{self.times.adjective}{self.name}", **self.times.identity}

    @property
    def zone(self) -> Zone | None:
        return self.times.zone

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
            kept: ticks that an entry is kept after its start, and ticks between the starts of two entries.
        """
        size, step, _, since = self.times.texts(tick_us)
        name = f"tumbling windows of {size}" if size == step else f"hopping windows of {size} every {step}"
        return WindowsPart(
            f"{name}{title}",
            f"[start, start + {size}), a start every {step} {since}",
            "a record whose last window is closed",
            "a window whose end (exclusive) is at or before the close time",
            *entry,
            "its start",
            kept[0] * tick_us,
            kept[1] * tick_us,
        )

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        number = self.times.last_at(time)
        return self.times.start(number), self.times.end(number)

    def late_before(self, close_time: int) -> int:
        """Return the first start of a window that is open at a close time: earlier times are in closed windows only."""
        return int(self.times.start(self._first_open(close_time))[0])

    def dead_before(self, close_time: int) -> int:
        """Return the time before which every window is closed."""
        return self.late_before(close_time)

    def stored_span(self, close_time: int, latest: int) -> tuple[int, int]:
        _, end = self.last_window(np.array([max(close_time, latest)]))
        return self.late_before(close_time), int(end[0])

    def _first_open(self, close_time: int) -> Ints:
        """The first window that is open at a close time, in an array."""
        return self.times.first_after(np.array([min(max(close_time, FAR_PAST), FAR_FUTURE)]))

    def numbers(self, key: Ints, time: Ints, since: int, before: int | None = None) -> tuple[Ints, Ints]:
        """Return every window that contains slices of time: the row of the first slice in it, and its number.

        A window is returned once, for the first slice that it contains:

            slices of a key      a  b           c
            windows           |-----|                     of a: [ includes a, ) excludes b
                                 |-----|                  of a
                                    |-----|               of b
                                             |-----|      of c
                                                |-----|   of c

        Args:
            key, time: shape (n,), int64: key and start of each slice, sorted; no window contains only a part of one.
            since: a close time; windows that it closes are left out.
            before: a close time; windows that are still open at it are left out. By default all are returned.

        Cost: O(slices + windows).
        """
        low, high = self.times.first_after(time), self.times.last_at(time)
        low[1:] = np.where(key[1:] == key[:-1], np.maximum(low[1:], high[:-1] + 1), low[1:])
        low = np.maximum(low, self._first_open(since))
        if before is not None:
            high = np.minimum(high, self._first_open(before) - 1)
        count = np.maximum(high - low + 1, 0)
        row = np.repeat(np.arange(len(key)), count)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        number = low[row] + nth
        left_out = self.times.left_out(number)
        return (row, number) if left_out is None else (row[~left_out], number[~left_out])


@dataclass(frozen=True, slots=True)
class Hopping(Hops, PaneKind):
    """Hopping or tumbling windows over panes."""

    condenses: ClassVar[bool] = True

    def describe(self, tick_us: int) -> WindowsPart:
        size, _, pane, _ = self.times.texts(tick_us)
        one = pane == size
        entry = "a window" if one else f"a pane of {pane} (the greatest common divisor of size and advance)"
        entries = f"{entry} with a record in it", "windows" if one else "panes"
        return self._described(tick_us, "", entries, (self.size, self.times.spacing))

    @property
    def grid(self) -> tuple[int, int] | None:
        return self.times.grid

    @property
    def longest_pane(self) -> int:
        return self.times.pane

    def pane_of(self, time: Ints) -> Ints:
        return self.times.pane_of(time)

    def next_end(self, time: Ints, close_time: int) -> Ints:
        following = self._following(time, close_time)
        is_in_it = following <= self.times.last_at(time)
        return np.where(is_in_it, self.times.end(following) - 1, NEVER)

    def earliest_end(self, first: int, last: int, close_time: int) -> int:
        return int(self.times.end(self._following(np.array([first]), close_time))[0]) - 1

    def _following(self, time: Ints, close_time: int) -> Ints:
        """The first window that is open and could contain a pane at each time."""
        return np.maximum(self.times.first_after(time), self._first_open(close_time))

    def within_all(self, close_time: int) -> int:
        return int(self.times.start(self._first_open(close_time) - 1)[0])

    def closed_windows(self, key: Ints, time: Ints, since: int, close_time: int) -> Windows:
        return self._windows(key, time, since, close_time)

    def changed_windows(self, key: Ints, time: Ints, changed: Mask, fresh: Mask, close_time: int) -> Windows:
        """Return the open windows that contain a record of the batch."""
        del fresh
        windows = self._windows(key, time, close_time, None)
        return windows.take(windows.contain(changed))

    def _windows(self, key: Ints, time: Ints, since: int, close_time: int | None) -> Windows:
        """The windows with a pane that end at `since` or later, and before `close_time` if given."""
        lo, number = self.numbers(key, time, since, close_time)
        start, end = self.times.start(number), self.times.end(number)
        place = distances(key, time, self.size)
        hi = np.searchsorted(place, place[lo] + (end - time[lo]), "left")
        return Windows(lo, hi, lo, start, end)
