"""Operators over panes: what all window kinds share.

A step takes one batch and two close times (DESIGN.md section 4). It loads the pages that the calendar names and those that the
batch touches, and no others; lets the window kind emit; and writes back what the batch changed. Here the end of a window is its
last tick, for every kind, so a window is closed when its end is before the close time.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from operators.columns.ranges import Ints, run_starts
from operators.columns.records import FAR_FUTURE, FAR_PAST, Records
from operators.kinds.page_sums import PageSums
from operators.kinds.panes import MergedPanes, PaneSchema, merge_panes
from operators.steps.emission import Emission
from operators.steps.partials import Partials
from operators.steps.step import Step
from operators.steps.store_operator import (
    NO_KEYS,
    PageEnds,
    StoreOperator,
    distinct,
    least,
    rows_by_segment,
)
from operators.steps.timers import NEVER
from serializers.pages import PageLayout
from state_backends import Entries, WindowStore, WriteBatch
from state_backends.store.window_store import merge_entries


class PanePlan(Protocol):
    """A window kind with its sizes in ticks."""

    @property
    def on_update(self) -> bool:
        """Whether changed windows are emitted after each batch, instead of closed ones once."""

    @property
    def schema(self) -> PaneSchema:
        """The panes."""

    @property
    def layout(self) -> PageLayout:
        """The layout of stored panes."""

    def accumulate(self, records: Records) -> Partials:
        """Return the panes of records."""

    def reduce(self, partials: Partials) -> Partials:
        """Return one pane for each place of those of several tasks."""

    @property
    def reach(self) -> int:
        """How far in ticks a pane can be from what it takes to know its windows."""

    @property
    def size(self) -> int:
        """Ticks from the start of a window to its end."""

    def late_before(self, close: int) -> int:
        """Return the time before which a record is late as a whole."""

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end, as they are emitted, of the last window that a pane at each time is part of."""

    def dead_before(self, close: int) -> int:
        """Return the time before which no pane can matter any more."""

    def next_end(self, time: Ints, close: int) -> Ints:
        """Return the last tick of the next window to close that a pane at each time takes part in, or NEVER."""

    def describe(self) -> dict[str, Any]:
        """Return what stored state depends on, as plain values to be compared."""


@dataclass(slots=True)
class Work:
    """What one step touches.

    Attributes:
        keys: the keys of the step; those of the batch come first.
        brought: the batch's panes.
        segment: shape (n,), int64: the segment of each of these.
        brought_to: those segments, ascending.
        due: pages that the calendar named: key numbers by segment.
        first, last: per key, the span of time that is loaded; first > last loads nothing.
    """

    keys: list[bytes]
    brought: Entries
    segment: Ints
    brought_to: Ints
    due: dict[int, Ints] = field(default_factory=dict)
    first: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    last: Ints = field(default_factory=lambda: np.empty(0, np.int64))


class PaneOperator(StoreOperator):
    """An operator over the panes of one store."""

    def __init__(self, plan: PanePlan, store: WindowStore) -> None:
        super().__init__(store, closes=not plan.on_update)
        self.plan = plan
        self._sums = PageSums(plan.schema, store)

    @abstractmethod
    def arrive(self, panes: Entries, close: int) -> Entries:
        """Return the panes of a batch's accepted records as they are stored when they come at this close time."""

    @abstractmethod
    def closed(self, work: Work, panes: Entries, since: int, close: int) -> Emission:
        """Return the windows of sorted panes that end at `since` or later and before `close`."""

    @abstractmethod
    def emit(self, work: Work, merged: MergedPanes, close_start: int, close_end: int) -> Iterator[Emission]:
        """Yield the windows to emit when the batch has been taken in; those that close before it have been emitted."""

    def next_due(self, entries: Entries) -> Ints:
        return self.plan.next_end(entries.time, self.close)

    def take(self, batch: Partials, step: Step) -> list[Emission]:
        plan, close_start, close_end = self.plan, step.close_start, step.close_end
        batch.check_order(distinct=True)
        late = batch.entries.time < plan.late_before(close_start)
        batch.report(step, late, plan.last_window)
        accepted = batch.entries.take(~late) if late.any() else batch.entries
        segment = accepted.time // self.store.segment_ticks
        work = Work(batch.keys, self.arrive(accepted, close_start), segment, distinct(segment))
        if not plan.on_update:
            work.keys, work.due = self._take_due(work.keys, close_end)
        self._choose_spans(work, close_end)
        stored, windows = self._load(work, close_start, close_end), []
        if not plan.on_update and close_start > self.close:
            before = merge_entries(stored, self.store.layout)
            windows.append(self.closed(work, before, self.close, close_start))
        merged = merge_panes(plan.schema, stored, work.brought)
        del stored  # as large as what was made of it, and room for what follows
        step.counters.panes += int(np.count_nonzero(merged.fresh))
        windows += self.emit(work, merged, close_start, close_end)
        self._save(work, merged, close_end)
        return windows

    def rebuild(self, close: int, changes: Sequence[WriteBatch] | None = None) -> None:
        super().rebuild(close, changes)
        if changes is None:
            self._sums.clear()
        for batch in changes or ():
            for pages in (batch.puts, batch.deletes):
                for segment, keys in pages.items():
                    self._sums.forget(segment, keys)

    def _load(self, work: Work, close_start: int, close_end: int) -> list[Entries]:
        """The panes that the step has to see, by segment; of a page that all its windows hold as a whole, the sum will do.

        A window that the step emits because it closes ends at `self.close` or later, and begins before `close_end` less its
        size. Keys with a partly late record are read as they are: older windows may come to be.
        """
        if self.plan.on_update:
            return [self._fetch(work.keys, work.first, work.last, work.due)]
        ticks, brought, parts = self.store.segment_ticks, work.brought, []
        plain = np.zeros(len(work.keys), bool)
        plain[brought.key[brought.time < close_start]] = True
        since = self._since(work)
        for segment, numbers in self._wanted(work.first, work.last, work.due):
            begin = segment * ticks
            inside = begin >= close_end - self.plan.size and begin + ticks <= self.close
            summed = np.zeros(len(numbers), bool)
            if inside:
                summed = ~plain[numbers] & ~np.isin(numbers, work.due.get(segment, NO_KEYS))
            for read, some in (
                (self.store.fetch_segment, numbers[~summed]),
                (self._sums.fetch, numbers[summed]),
            ):
                if len(some):
                    entries = read(segment, [work.keys[n] for n in some.tolist()])
                    if begin < since and segment not in work.brought_to:
                        entries = entries.take(np.flatnonzero(entries.time >= since))
                    parts.append(Entries(some[entries.key], entries.columns))
        return parts

    def _since(self, work: Work) -> int:
        """The time before which no pane matters to windows that the step closes, or that its records bring into being.

        A window that closes in this step began at most `reach` before the close time of the last one; a window that a
        partly late record brings into being may have begun before that.
        """
        earliest = int(work.brought.time.min()) if len(work.brought) else FAR_FUTURE
        return min(self.close, earliest) - self.plan.reach

    def _choose_spans(self, work: Work, close: int) -> None:
        """Which times of each key the step has to see."""
        plan, brought = self.plan, work.brought
        work.first = np.full(len(work.keys), FAR_FUTURE)
        work.last = np.full(len(work.keys), FAR_PAST)
        starts = np.flatnonzero(np.diff(brought.key, prepend=-1))
        ends = np.append(starts[1:], len(brought))[: len(starts)] - 1
        touched, earliest, latest = brought.key[starts], brought.time[starts], brought.time[ends]
        work.first[touched], work.last[touched] = earliest, latest
        if plan.on_update:
            work.first[touched] -= plan.reach
            work.last[touched] += plan.reach
            return
        closing = touched[plan.next_end(earliest, FAR_PAST) < close]
        self._widen(work, closing, self._since(work), close - 1)
        for segment, keys in work.due.items():
            begin = segment * self.store.segment_ticks
            self._widen(work, keys, min(begin, self.close - plan.reach), max(begin, close - 1))

    @staticmethod
    def _widen(work: Work, keys: Ints, first: int, last: int) -> None:
        work.first[keys] = np.minimum(work.first[keys], first)
        work.last[keys] = np.maximum(work.last[keys], last)

    def _save(self, work: Work, merged: MergedPanes, close: int) -> None:
        """Write the pages that the batch touched, without what is dead, and enter them and the visited ones as due."""
        dead, panes, ticks = self.plan.dead_before(close), merged.panes, self.store.segment_ticks
        number = np.where(panes.time >= dead, panes.time // ticks, FAR_PAST)
        starts = run_starts(panes.key, number)
        stops, key = np.append(starts[1:], len(panes)), panes.key[starts]
        ends = self._page_ends(merged, starts, close) if self.closes else None
        segments = np.union1d(work.brought_to, np.fromiter(work.due, np.int64, len(work.due)))
        for segment, pages in zip(segments.tolist(), rows_by_segment(number[starts], segments), strict=True):
            if segment in work.brought_to:
                touched = np.zeros(len(work.keys), bool)
                touched[work.brought.key[work.segment == segment]] = True
                kept = pages[touched[key[pages]]]
                held = panes.take_runs(starts[kept], stops[kept] - starts[kept])
                self._sums.forget(segment, self._replace(segment, work.keys, touched, held))
            if ends is not None:
                self._enter(segment, work.keys, work.due, ends.take(pages))
        self.store.expire(dead)
        self._sums.keep_from(dead // ticks)

    def _page_ends(self, merged: MergedPanes, starts: Ints, close: int) -> PageEnds:
        """When the pages are due whose first panes are at `starts`."""
        key, ends = merged.panes.key[starts], self.plan.next_end(merged.panes.time, close)
        before = np.where(merged.fresh, NEVER, ends)
        return PageEnds(key, least(ends, starts), least(before, starts))
