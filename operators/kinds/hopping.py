"""Hopping and tumbling windows over panes: each record is accumulated in one pane, and windows combine their panes.

A pane covers as many ticks as the greatest common divisor of the window's size and advance, so that no window holds only a
part of one. (Hazelcast Jet's sliding windows)
"""

from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

import numpy as np

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints, Mask
from operators.columns.records import FAR_PAST
from operators.kinds.bounds import distances
from operators.kinds.hops import Hops
from operators.kinds.pane_operator import PaneOperator, PanePlan
from operators.kinds.panes import MergedPanes
from operators.steps.emission import Emission
from operators.steps.timers import NEVER
from state_backends import Entries, WindowStore


@dataclass(frozen=True, slots=True)
class HoppingPlan(Hops, PanePlan):
    """What a hopping or tumbling operator computes.

    Attributes:
        size, advance, offset: as `Hops` has them.
        on_update: whether changed windows are emitted after each batch, instead of closed ones once.
        operations: the distinct operations of all aggregates.
    """

    on_update: bool
    operations: tuple[Operation, ...]
    condenses: ClassVar[bool] = True

    @property
    def pane(self) -> int:
        """Length of a pane in ticks."""
        return gcd(self.size, self.advance)

    @property
    def identity(self) -> dict[str, Any]:
        return {"windows": "hopping", **self.lengths}

    def operator(self, store: WindowStore) -> "HoppingOperator":
        """Return the operator over a store."""
        return HoppingOperator(self, store)

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

    def dead_before(self, close_time: int) -> int:
        """Return the time before which every window is closed."""
        return self.late_before(close_time)


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows as ranges [lo, hi) of panes, with the start of each."""

    lo: Ints
    hi: Ints
    start: Ints

    def take(self, rows: Mask) -> "_Windows":
        return _Windows(self.lo[rows], self.hi[rows], self.start[rows])


class HoppingOperator(PaneOperator):
    """Hopping or tumbling windows over one store."""

    plan: HoppingPlan

    def closed(self, keys: list[bytes], panes: Entries, since: int, close_time: int) -> Emission:
        return self._emission(keys, panes, self._windows(panes, since, close_time))

    def changed(self, keys: list[bytes], merged: MergedPanes, close_time: int) -> Emission:
        windows = self._windows(merged.panes, close_time, None)
        before = np.concatenate([[0], np.cumsum(merged.changed)])
        return self._emission(keys, merged.panes, windows.take(before[windows.hi] > before[windows.lo]))

    def _windows(self, panes: Entries, since: int, close_time: int | None) -> _Windows:
        """The windows with a pane that end at `since` or later, and before `close_time` if given."""
        plan, key, time = self.plan, panes.key, panes.time
        lo, start = plan.windows(key, time, plan.pane, since, close_time)
        place = distances(key, time, plan.size)
        hi = np.searchsorted(place, place[lo] + (start + (plan.size - plan.pane) - time[lo]), "right")
        return _Windows(lo, hi, start)

    def _emission(self, keys: list[bytes], panes: Entries, windows: _Windows) -> Emission:
        states = self.plan.schema.combine_ranges(panes, windows.lo, windows.hi)
        start = windows.start
        return Emission(keys, panes.key[windows.lo], start, start + self.plan.size, states)
