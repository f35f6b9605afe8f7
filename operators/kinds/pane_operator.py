"""Operators over panes: what sliding and hopping windows share.

A step processes one batch between two close times. It reads the pages that are due and those that the batch touches, emits
windows, and writes back the pages that the batch changed. In this module the end of a window is its last tick, so a window is
closed if its end is before the close time.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np

from operators.columns.ranges import Ints, key_edges
from operators.columns.records import FAR_PAST, Records
from operators.kinds.page_sums import SummingOperator
from operators.kinds.panes import MergedPanes, PaneSchema, merge_panes
from operators.kinds.plan import WindowPlan
from operators.steps.emission import Emission
from operators.steps.partials import Partials
from operators.steps.step import Step
from operators.steps.touched import Rows, Timers, Touched
from state_backends import Entries, WindowStore
from state_backends.store.entries import merge_entries


class PanePlan(WindowPlan):
    """A window kind over panes."""

    __slots__ = ()
    size: int
    condenses: ClassVar[bool]
    """Whether a pane stands for a span of time, so that panes are few even if records are many."""

    @property
    def schema(self) -> PaneSchema:
        """The panes."""
        return PaneSchema(self.operations)

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        return self.schema.head

    @abstractmethod
    def pane_of(self, time: Ints) -> Ints:
        """Return the time of the pane that each record belongs to, which ascends with the record's own."""

    def accumulate(self, records: Records) -> Partials:
        """Return the panes of records."""
        return self.schema.accumulate(records, self.pane_of(records.time))

    def reduce(self, partials: Partials) -> Partials:
        """Return the panes of several tasks sorted, and one for each key and time."""
        return self.schema.join(partials)

    @property
    @abstractmethod
    def reach(self) -> int:
        """How many ticks a pane can be away from the panes that determine its windows."""

    @abstractmethod
    def late_before(self, close_time: int) -> int:
        """Return the time before which a record is late: all its windows are closed."""

    @abstractmethod
    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end, as they are emitted, of the last window that contains a pane at each time."""

    @abstractmethod
    def dead_before(self, close_time: int) -> int:
        """Return the time before which no window needs a pane."""

    @abstractmethod
    def next_end(self, time: Ints, close_time: int) -> Ints:
        """Return the last tick of the next window to close that a pane at each time defines, or NEVER."""

    @abstractmethod
    def earliest_end(self, first: int, last: int, close_time: int) -> int:
        """Return a tick before which `next_end` is of no pane at a time from `first` to `last`."""


class PaneOperator(SummingOperator):
    """An operator over the panes of one store."""

    def __init__(self, plan: PanePlan, store: WindowStore) -> None:
        super().__init__(store, not plan.on_update, plan.schema, lambda panes: panes)
        self.plan = plan

    @abstractmethod
    def closed(self, keys: list[bytes], panes: Entries, since: int, close_time: int) -> Emission:
        """Return the windows of distinct sorted panes that end at `since` or later and before `close_time`."""

    @abstractmethod
    def changed(self, keys: list[bytes], merged: MergedPanes, close_time: int) -> Emission:
        """Return the windows that a batch changed, without those that its first close time closed."""

    def next_due(self, entries: Entries) -> Ints:
        return self.plan.next_end(entries.time, self.close_time)

    def earliest_due(self, first: int, last: int) -> int:
        return self.plan.earliest_end(first, last, self.close_time)

    def process(self, batch: Partials, step: Step) -> list[Emission]:
        plan, close_time_start, close_time_end = self.plan, step.close_time_start, step.close_time_end
        batch.check_order(distinct=True)
        late = batch.entries.time < plan.late_before(close_time_start)
        batch.report(step, late, plan.last_window)
        accepted = batch.entries.take(~late) if late.any() else batch.entries
        new = Rows(accepted.key, accepted.time)
        touched = self._touched(batch.keys, close_time_end)
        self._choose_spans(touched, new, close_time_end)
        stored, windows = self._load(touched, new, close_time_end), []
        if not plan.on_update and close_time_start > self.close_time:
            # Former versions of this library stored several panes of one time, of records that arrived at other close times.
            before = plan.schema.by_time(merge_entries(stored, self.store.layout))
            windows.append(self.closed(touched.keys, before, self.close_time, close_time_start))
        merged = merge_panes(plan.schema, stored, accepted)
        del stored  # It is as large as `merged`, and the rest of the step needs memory.
        step.counters.panes += int(np.count_nonzero(merged.fresh))
        if plan.on_update:
            windows.append(self.changed(touched.keys, merged, close_time_start))
        elif close_time_end > close_time_start:
            windows.append(self.closed(touched.keys, merged.panes, close_time_start, close_time_end))
        self._save(touched, new, merged, close_time_end)
        return windows

    @property
    def retracts(self) -> bool:
        return self.plan.on_update

    def retracted(self, keys: list[bytes], entries: Entries) -> list[Emission]:
        panes = self.plan.schema.by_time(entries)
        all_ = np.ones(len(panes), bool)
        return [replace(self.changed(keys, MergedPanes(panes, all_, all_), self.close_time), retract=True)]

    def _load(self, touched: Touched, new: Rows, close_time: int) -> list[Entries]:
        """Read the panes that the step needs, by segment. If its windows contain a whole page, they need only its sum.

        A window that closes in this step ends at `self.close_time` or later and before `close_time`:

            first window        |--------------------|              ends at self.close_time
            last window                |--------------------|       ends before close_time
            pages            |read |read | sum | sum |read |read |

        A page that all of them contain starts at `close_time` less the size or later, and ends before `self.close_time`. Pages
        that the step writes, or sets the timers of, are read whole.
        """
        if self.plan.on_update:
            return [self._fetch(touched)]
        since, parts = self._since, []
        for segment, pages in self._pages(touched):
            held = self._hold(touched, segment, pages, [new])
            inside = (pages.start >= close_time - self.plan.size) & (pages.last < self.close_time)
            summed = inside & ~held & self._sums.has(pages)
            others = ~held & ~summed & (pages.start < close_time)
            if summed.any():
                parts += self._sums.fetch(segment, touched.keys, pages.take(summed))
            if held.any():
                parts.append(self.store.read(segment, touched.keys, touched.held[segment]))
            if others.any():
                entries = self.store.read(segment, touched.keys, pages.take(others))
                parts.append(entries if pages.span[0] >= since else entries.take(entries.time >= since))
        return parts

    @property
    def _since(self) -> int:
        """The time before which the windows that the step emits have no pane.

        The earliest window that closes in this step ends at `self.close_time`, the close time of the last step.
        """
        return self.close_time - self.plan.reach

    def _choose_spans(self, touched: Touched, panes: Rows, close_time: int) -> None:
        """Set the span of time of each key that the step reads.

        A key that has a record in a window that closes, or a page that is due, has to be read for all windows that close:

            since                                      close_time - 1
              |---- windows that close in this step ---------|
                                 ^ a record, or a page that is due

        For the other keys, the pages of their records are enough. On update, windows change that contain a record:

            t - reach             t             t + reach
              |-------------------|-------------------|
        """
        plan = self.plan
        first, last = key_edges(panes.key)
        keys, earliest, latest = panes.key[first], panes.time[first], panes.time[last]
        if plan.on_update:
            touched.widen(keys, earliest - plan.reach, latest + plan.reach)
            return
        touched.widen(keys, earliest, latest)
        closing = keys[plan.next_end(earliest, FAR_PAST) < close_time]
        touched.widen(closing, self._since, close_time - 1)
        for due in touched.due.values():
            touched.widen(due.key, np.minimum(due.start, self._since), np.maximum(due.start, close_time - 1))

    def _save(self, touched: Touched, new: Rows, merged: MergedPanes, close_time: int) -> None:
        """Write the pages in which the batch has panes, without panes that no window needs."""
        dead, panes = self.plan.dead_before(close_time), merged.panes
        timers = None
        if self.closes:
            ends, stored = self.plan.next_end(panes.time, close_time), ~merged.fresh
            timers = Timers(ends, Rows(panes.key[stored], panes.time[stored]), ends[stored])
        self._write_back(touched, panes, [new], timers, dead)
        self._sums.end_step(dead // self.store.segment_ticks)
