"""Operators over panes: what all window kinds share.

A step takes one batch and two close times (DESIGN.md section 4). It loads the pages that the calendar names and those that the
batch touches, and no others; lets the window kind emit; and writes back what the batch changed. Here the end of a window is its
last tick, for every kind, so a window is closed when its end is before the close time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from operators.batch import FAR_FUTURE, FAR_PAST, Records
from operators.calendar import NEVER, ClosingCalendar
from operators.emission import Counters, Emission
from operators.kernel import Ints
from operators.panes import MergedPanes, PaneSchema, merge_panes
from serializers.pages import PageLayout
from state_backends import Entries, WindowStore, WriteBatch
from state_backends.ordering import row_order
from state_backends.window_store import merge_entries

Mask = npt.NDArray[np.bool_]


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

    @property
    def reach(self) -> int:
        """How far in ticks a pane can be from what it takes to know its windows."""

    def late_before(self, close: int) -> int:
        """Return the time before which a record is late as a whole."""

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
        due: pages that the calendar named: key numbers by segment.
        first, last: per key, the span of time that is loaded; first > last loads nothing.
    """

    keys: list[bytes]
    brought: Entries
    due: dict[int, Ints] = field(default_factory=dict)
    first: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    last: Ints = field(default_factory=lambda: np.empty(0, np.int64))


class PaneOperator(ABC):
    """An operator over one store. `close` is the close time reached; it is kept by whoever owns the store."""

    plan: PanePlan

    def __init__(self, store: WindowStore, close: int = FAR_PAST) -> None:
        self.store = store
        self.close = close
        self._calendar = ClosingCalendar()

    @abstractmethod
    def accumulate(self, records: Records, close: int) -> Entries:
        """Return the panes of a batch's accepted records, which come at this close time."""

    @abstractmethod
    def emit(
        self, work: Work, stored: Entries, merged: MergedPanes, close_start: int, close_end: int
    ) -> Iterator[Emission]:
        """Yield the windows to emit; `self.close` is the close time of the step before."""

    def rebuild(self, close: int, changes: Sequence[WriteBatch] | None = None) -> None:
        """Learn the due times of what is stored, after the store was filled from outside.

        Args:
            close: the close time that the stored state had reached.
            changes: what was written since the calendar was last right; None reads the whole store.
        """
        self.close = close
        if self.plan.on_update:
            return
        if changes is None:
            self._calendar.clear()
            for segment in self.store.segments():
                self._enter_segment(segment, self.store.keys(segment))
            return
        for batch in changes:
            for segment, pages in batch.puts.items():
                self._enter_segment(segment, list(pages))

    def _enter_segment(self, segment: int, keys: list[bytes]) -> None:
        panes = self.store.fetch_segment(segment, keys)
        if len(panes):
            present, starts = np.unique(panes.key, return_index=True)
            due = np.minimum.reduceat(self.plan.next_end(panes.time, self.close), starts)
            self._calendar.add(segment, [keys[n] for n in present.tolist()], due)

    def step(self, records: Records, close_start: int, close_end: int, counters: Counters) -> list[Emission]:
        """Take one batch and return the windows to emit.

        Args:
            records: the batch, in any order.
            close_start: close time in ticks that says which records are late; not before that of earlier steps.
            close_end: close time in ticks after the batch, not before `close_start`.
            counters: is added to.
        """
        plan = self.plan
        close_start = max(close_start, self.close)
        close_end = max(close_end, close_start)
        late = records.time < plan.late_before(close_start)
        counters.rows += len(records) + records.bad
        counters.bad += records.bad
        counters.late += int(np.count_nonzero(late))
        accepted = records.take(np.flatnonzero(~late)) if late.any() else records
        work = Work(records.keys, self.accumulate(accepted, close_start))
        if not plan.on_update:
            self._add_due(work, close_end)
        self._choose_spans(work, close_end)
        stored = self._load(work)
        merged = merge_panes(plan.schema, stored, work.brought)
        windows = list(self.emit(work, stored, merged, close_start, close_end))
        self._save(work, merged, close_end)
        self.close = close_end
        counters.windows += sum(len(emission.key) for emission in windows)
        return windows

    def _add_due(self, work: Work, close: int) -> None:
        due = self._calendar.take_due(close)
        number = {key: n for n, key in enumerate(work.keys)}
        for segment, keys in due.items():
            work.due[segment] = np.fromiter(
                (number.setdefault(key, len(number)) for key in keys), np.int64, len(keys)
            )
        if due:
            work.keys = list(number)

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
        # A window that closes in this step began at most `reach` before the close time of the last one; a window that a
        # partly late record brings into being may have begun before that.
        closing = touched[plan.next_end(earliest, FAR_PAST) < close]
        since = min(self.close, int(earliest.min()) if len(starts) else FAR_FUTURE) - plan.reach
        self._widen(work, closing, since, close - 1)
        for segment, keys in work.due.items():
            begin = segment * self.store.segment_ticks
            self._widen(work, keys, min(begin, self.close - plan.reach), max(begin, close - 1))

    @staticmethod
    def _widen(work: Work, keys: Ints, first: int, last: int) -> None:
        work.first[keys] = np.minimum(work.first[keys], first)
        work.last[keys] = np.maximum(work.last[keys], last)

    def _load(self, work: Work) -> Entries:
        store, parts = self.store, []
        if len(work.keys):
            lowest, highest = store.segment_of(int(work.first.min())), store.segment_of(int(work.last.max()))
            for segment in store.segments():
                if lowest <= segment <= highest:
                    begin = segment * store.segment_ticks
                    wanted = np.flatnonzero((work.first < begin + store.segment_ticks) & (work.last >= begin))
                    panes = store.fetch_segment(segment, [work.keys[n] for n in wanted.tolist()])
                    parts.append(Entries(wanted[panes.key], panes.columns))
        return merge_entries(parts, store.layout)

    def _save(self, work: Work, merged: MergedPanes, close: int) -> None:
        """Write the pages that the batch touched, without what is dead, and enter them and the visited ones as due."""
        dead, panes = self.plan.dead_before(close), merged.panes
        for segment, touched, rows in self._pages(work, panes):
            if touched.any():
                alive = touched[panes.key[rows]] & (panes.time[rows] >= dead)
                self._replace(work, segment, touched, panes.take(rows[alive]))
            if not self.plan.on_update and len(rows):
                self._enter(work, segment, merged, rows, close)
        self.store.expire(dead)

    def _pages(self, work: Work, panes: Entries) -> Iterator[tuple[int, Mask, Ints]]:
        """Each segment that was touched or due, with a mask of touched keys, and the rows of its panes."""
        ticks, brought = self.store.segment_ticks, work.brought
        numbers = brought.time // ticks
        segments = np.union1d(numbers, np.array(list(work.due), np.int64))
        if not len(segments):
            return
        segment_of = panes.time // ticks
        place = np.searchsorted(segments, segment_of)
        rows = np.flatnonzero(segments[np.minimum(place, len(segments) - 1)] == segment_of)
        order = row_order(place[rows], np.zeros(len(rows), np.int64))
        rows = rows if order is None else rows[order]
        edges = np.searchsorted(place[rows], np.arange(len(segments) + 1))
        order = row_order(numbers - segments[0], np.zeros(len(numbers), np.int64))
        keys = brought.key if order is None else brought.key[order]
        key_edges = np.searchsorted(
            numbers if order is None else numbers[order], [*segments, segments[-1] + 1]
        )
        for n, segment in enumerate(segments.tolist()):
            touched = np.zeros(len(work.keys), bool)
            touched[keys[key_edges[n] : key_edges[n + 1]]] = True
            yield segment, touched, rows[edges[n] : edges[n + 1]]

    def _replace(self, work: Work, segment: int, touched: Mask, panes: Entries) -> None:
        names = [work.keys[n] for n in np.flatnonzero(touched).tolist()]
        local = np.cumsum(touched) - 1
        self.store.replace_segment(segment, names, Entries(local[panes.key], panes.columns))

    def _enter(self, work: Work, segment: int, merged: MergedPanes, rows: Ints, close: int) -> None:
        """Enter the pages that were due again, and those for which the batch brought an earlier end than they had."""
        key = merged.panes.key[rows]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        ends = self.plan.next_end(merged.panes.time[rows], close)
        due = np.minimum.reduceat(ends, starts)
        known = np.minimum.reduceat(np.where(merged.fresh[rows], NEVER, ends), starts)
        present = key[starts]
        was_due = np.zeros(len(work.keys), bool)
        was_due[work.due.get(segment, np.empty(0, np.int64))] = True
        wanted = was_due[present] | (due < known)
        names = [work.keys[n] for n in present[wanted].tolist()]
        self._calendar.add(segment, names, due[wanted])
