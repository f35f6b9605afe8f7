"""Hopping and tumbling windows over frames: each record is accumulated once, in one frame, and windows combine their frames.

A frame is the greatest common divisor of the window's size and step. (Hazelcast Jet's sliding windows)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints
from operators.columns.records import FAR_PAST, Records
from operators.kinds.bounds import distances
from operators.kinds.pane_operator import PaneOperator
from operators.kinds.panes import MergedPanes, PaneSchema
from operators.steps.emission import Emission
from operators.steps.partials import Partials
from operators.steps.timers import NEVER
from serializers.pages import PageLayout
from state_backends import Entries, WindowStore


@dataclass(frozen=True, slots=True)
class FramedPlan:
    """What a hopping or tumbling operator computes.

    Attributes:
        size: window size in ticks; a window is [start, start + size).
        step: ticks from one window's start to the next one's, at most `size`.
        offset: ticks from the epoch to the start of some window, from 0 to below `step`.
        on_update: whether changed windows are emitted after each batch, instead of closed ones once.
        schema: the panes, one per frame.
    """

    size: int
    step: int
    offset: int
    on_update: bool
    schema: PaneSchema

    @property
    def frame(self) -> int:
        """Length of a frame in ticks: no window ever splits it."""
        return gcd(self.size, self.step)

    @property
    def condenses(self) -> bool:
        """Whether entries are few where records are many."""
        return True

    @property
    def layout(self) -> PageLayout:
        """The layout of stored panes."""
        return self.schema.layout

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        """The stored columns before the states."""
        return self.schema.head

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations whose states are stored."""
        return self.schema.operations

    @property
    def reach(self) -> int:
        """How far a pane can be from what it takes to know its windows."""
        return self.size

    def describe(self) -> dict[str, Any]:
        """Return what stored state depends on."""
        return {
            "windows": "hopping",
            "size in ticks": self.size,
            "step in ticks": self.step,
            "offset in ticks": self.offset,
            "emission": "on_update" if self.on_update else "on_close",
            "state": [op.describe() for op in self.schema.operations],
        }

    def operator(self, store: WindowStore) -> "FramedOperator":
        """Return the operator over a store."""
        return FramedOperator(self, store)

    def frame_of(self, time: Ints) -> Ints:
        """Return the start of the frame that holds each time."""
        return time - (time - self.offset) % self.frame

    def accumulate(self, records: Records) -> Partials:
        """Return one pane for each key and frame of the records."""
        return self.schema.accumulate(records, self.frame_of(records.time))

    def reduce(self, partials: Partials) -> Partials:
        """Return one pane for each key and frame of the partial ones."""
        return self.schema.join(partials)

    def first_end(self, frame: Ints) -> Ints:
        """Return the last tick of the first window that holds each frame."""
        return self._aligned_up(frame + self.frame - self.size) + self.size - 1

    def last_end(self, frame: Ints) -> Ints:
        """Return the last tick of the last window that holds each frame."""
        return frame - (frame - self.offset) % self.step + self.size - 1

    def _aligned_up(self, time: Ints) -> Ints:
        """The first start of a window at each time or after it."""
        return time + (self.offset - time) % self.step

    def next_end(self, time: Ints, close: int) -> Ints:
        """Return the last tick of the next window to close that a frame is part of, or NEVER."""
        open_end = self._aligned_up(np.maximum(close + 1 - self.size, FAR_PAST)) + self.size - 1
        following = np.maximum(self.first_end(time), open_end)
        return np.where(following <= self.last_end(time), following, NEVER)

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end of the last window that holds each frame."""
        end = self.last_end(time) + 1
        return end - self.size, end

    def late_before(self, close: int) -> int:
        """Return the time before which a record is late: its last window is closed."""
        return self.dead_before(close)

    def dead_before(self, close: int) -> int:
        """Return the time before which every window is closed: the first start of an open one."""
        return int(self._aligned_up(np.asarray(close - self.size + 1)))


@dataclass(frozen=True, slots=True)
class _Frames:
    """Windows as ranges [lo, hi) of panes; `end` is the last tick of each."""

    lo: Ints
    hi: Ints
    end: Ints

    def take(self, rows: Any) -> "_Frames":
        return _Frames(self.lo[rows], self.hi[rows], self.end[rows])


class FramedOperator(PaneOperator):
    """Hopping or tumbling windows over one store."""

    plan: FramedPlan

    def arrive(self, panes: Entries, close: int) -> Entries:
        # A window that is still open sees every record that was accepted, so panes need not know when they came.
        del close
        return panes

    def closed(self, keys: list[bytes], panes: Entries, since: int, close: int) -> Emission:
        return self._emission(keys, panes, self._windows(panes, since, close))

    def emit(
        self, keys: list[bytes], merged: MergedPanes, close_start: int, close_end: int
    ) -> Iterator[Emission]:
        if self.plan.on_update:
            windows = self._windows(merged.panes, close_start, None)
            before = np.concatenate([[0], np.cumsum(merged.changed)])
            changed = before[windows.hi] > before[windows.lo]
            yield self._emission(keys, merged.panes, windows.take(changed))
        elif close_end > close_start:
            yield self.closed(keys, merged.panes, close_start, close_end)

    def _windows(self, panes: Entries, since: int, close: int | None) -> _Frames:
        """The windows that hold a pane and end at `since` or later, and before `close` if given.

        Each window is made by the first pane in it: those that a pane shares with the one before are that one's.
        """
        plan, key, frame = self.plan, panes.key, panes.time
        low, high = plan.first_end(frame), plan.last_end(frame)
        again = key[1:] == key[:-1]
        low[1:] = np.where(again, np.maximum(low[1:], high[:-1] + plan.step), low[1:])
        low = np.maximum(low, int(plan.dead_before(since)) + plan.size - 1)
        if close is not None:
            high = np.minimum(high, int(plan.dead_before(close)) + plan.size - 1 - plan.step)
        count = np.maximum((high - low) // plan.step + 1, 0)
        lo = np.repeat(np.arange(len(key)), count)
        nth = np.arange(len(lo)) - np.repeat(np.cumsum(count) - count, count)
        end = low[lo] + nth * plan.step
        place = distances(key, frame, plan.size)
        hi = np.searchsorted(place, place[lo] + (end + 1 - plan.frame - frame[lo]), "right")
        return _Frames(lo, hi, end)

    def _emission(self, keys: list[bytes], panes: Entries, windows: _Frames) -> Emission:
        states = self.plan.schema.combined(panes, windows.lo, windows.hi)
        start = windows.end + 1 - self.plan.size
        return Emission(keys, panes.key[windows.lo], start, windows.end + 1, states)
