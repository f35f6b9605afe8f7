"""Where hopping and tumbling windows lie in time."""

from dataclasses import dataclass

import numpy as np

from operators.columns.ranges import Ints


@dataclass(frozen=True, slots=True)
class Hops:
    """Windows [start, start + size) that begin every `advance` ticks.

    Attributes:
        size: window size in ticks.
        advance: ticks from one window's start to the next one's, at most `size`.
        offset: ticks from the epoch to the start of some window, from 0 to below `advance`.
    """

    size: int
    advance: int
    offset: int

    @property
    def lengths(self) -> dict[str, int]:
        """The lengths, under the names that are stored with the state."""
        return {
            "size in ticks": self.size,
            "step in ticks": self.advance,
            "offset in ticks": self.offset,
        }

    @property
    def reach(self) -> int:
        """How far in ticks the end of a window can be from a time in it."""
        return self.size

    def first_start(self, time: Ints) -> Ints:
        """Return the first start of a window at each time or after it."""
        return time + (self.offset - time) % self.advance

    def last_start(self, time: Ints) -> Ints:
        """Return the start of the last window that contains each time."""
        return time - (time - self.offset) % self.advance

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end of the last window that contains each time."""
        start = self.last_start(time)
        return start, start + self.size

    def late_before(self, close_time: int) -> int:
        """Return the first start of a window that is open at a close time: earlier times are in closed windows only."""
        return int(self.first_start(np.asarray(close_time + 1 - self.size)))

    def windows(
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
            length: of a slice in ticks; no window contains only a part of one.
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
