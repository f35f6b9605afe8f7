"""Record-driven sliding windows (KIP-450) over panes: one pane per distinct key and event time, windows as ranges of panes.

A step takes one batch and two close times (DESIGN.md section 4). Each window's left or right defining pane says when it
closes, so a step visits the pages that the calendar names and those that the batch touches, and no others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from operators.batch import FAR_FUTURE, FAR_PAST, Records
from operators.calendar import NEVER, ClosingCalendar
from operators.emission import Counters, Emission
from operators.kernel import Ints, Windows, distances, run_starts, sliding_windows
from operators.panes import MergedPanes, PaneSchema, merge_panes, visible
from serializers.pages import PageLayout
from state_backends import Entries, WindowStore, WriteBatch
from state_backends.ordering import row_order
from state_backends.window_store import merge_entries

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SlidingPlan:
    """What a sliding operator computes.

    Attributes:
        size: window size in ticks; both ends belong to the window.
        on_update: whether changed windows are emitted after each batch, instead of closed ones once.
        schema: the panes.
    """

    size: int
    on_update: bool
    schema: PaneSchema

    @property
    def layout(self) -> PageLayout:
        """The layout of stored panes."""
        return self.schema.layout

    def describe(self) -> dict[str, Any]:
        """Return what stored state depends on."""
        return {
            "windows": "sliding",
            "size in ticks": self.size,
            "emission": "on_update" if self.on_update else "on_close",
            "state": [op.describe() for op in self.schema.operations],
        }

    def operator(self, store: WindowStore) -> "SlidingOperator":
        """Return the operator over a store."""
        return SlidingOperator(self, store)

    def dead_before(self, close: int) -> int:
        """Return the time before which no pane can matter any more.

        On update, a pane matters while its right window is open. On close, it can also be in the closed left window of a
        partly late record that is still to come, or tell by its own right window that it was emitted: two sizes and a tick.
        """
        return close - (self.size if self.on_update else 2 * self.size) - 1

    def next_end(self, time: Ints, close: int) -> Ints:
        """Return the end of the next window to close that a pane at each time defines, or NEVER."""
        right = np.where(time + (self.size + 1) >= close, time + (self.size + 1), NEVER)
        return np.where(time >= close, time, right)


@dataclass(slots=True)
class _Work:
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


class SlidingOperator:
    """The operator over one store. `close` is the close time reached; it is kept by whoever owns the store."""

    def __init__(self, plan: SlidingPlan, store: WindowStore, close: int = FAR_PAST) -> None:
        self.plan = plan
        self.store = store
        self.close = close
        self._calendar = ClosingCalendar()

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
        late = records.time < close_start - plan.size
        counters.rows += len(records) + records.bad
        counters.bad += records.bad
        counters.late += int(np.count_nonzero(late))
        accepted = records.take(np.flatnonzero(~late)) if late.any() else records
        work = _Work(records.keys, plan.schema.accumulate(accepted, close_start))
        if not plan.on_update:
            self._add_due(work, close_end)
        self._choose_spans(work, close_start, close_end)
        stored = self._load(work)
        merged = merge_panes(plan.schema, stored, work.brought)
        windows = list(self._emit(work, stored, merged, close_start, close_end))
        self._save(work, merged, close_end)
        self.close = close_end
        counters.windows += sum(len(emission.key) for emission in windows)
        return windows

    def _add_due(self, work: _Work, close: int) -> None:
        due = self._calendar.take_due(close)
        number = {key: n for n, key in enumerate(work.keys)}
        for segment, keys in due.items():
            work.due[segment] = np.fromiter(
                (number.setdefault(key, len(number)) for key in keys), np.int64, len(keys)
            )
        if due:
            work.keys = list(number)

    def _choose_spans(self, work: _Work, close_start: int, close_end: int) -> None:
        """Which times of each key the step has to see."""
        plan, brought = self.plan, work.brought
        work.first = np.full(len(work.keys), FAR_FUTURE)
        work.last = np.full(len(work.keys), FAR_PAST)
        starts = np.flatnonzero(np.diff(brought.key, prepend=-1))
        ends = np.append(starts[1:], len(brought)) - 1
        touched, earliest, latest = (
            brought.key[starts],
            brought.time[starts],
            brought.time[ends[: len(starts)]],
        )
        work.first[touched], work.last[touched] = earliest, latest
        if plan.on_update:
            work.first[touched] -= plan.size + 1
            work.last[touched] += plan.size + 1
            return
        # A window that closes in this step began at most size + 1 before the close time of the last one; the closed left
        # window of a partly late record may have begun before that.
        closing = touched[earliest < close_end]
        since = min(self.close, int(earliest.min()) if len(starts) else FAR_FUTURE) - plan.size - 1
        self._widen(work, closing, since, close_end - 1)
        for segment, keys in work.due.items():
            begin = segment * self.store.segment_ticks
            self._widen(work, keys, min(begin, self.close - plan.size - 1), max(begin, close_end - 1))

    @staticmethod
    def _widen(work: _Work, keys: Ints, first: int, last: int) -> None:
        work.first[keys] = np.minimum(work.first[keys], first)
        work.last[keys] = np.maximum(work.last[keys], last)

    def _load(self, work: _Work) -> Entries:
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

    def _emit(
        self, work: _Work, stored: Entries, merged: MergedPanes, close_start: int, close_end: int
    ) -> Iterator[Emission]:
        if self.plan.on_update:
            yield self._changed(work, merged, close_start)
            return
        if close_start > self.close:
            yield self._closed(work, stored, self.close, close_start)
        if close_start > FAR_PAST:
            yield self._born_closed(work, merged, close_start)
        if close_end > close_start:
            yield self._closed(work, merged.panes, close_start, close_end)

    def _closed(self, work: _Work, panes: Entries, since: int, close: int) -> Emission:
        """The windows that end at `since` or later and before `close`."""
        size = self.plan.size
        panes = self.plan.schema.by_time(panes)
        time = panes.time
        left = (time >= since) & (time < close)
        right = (time >= since - size - 1) & (time < close - size - 1)
        return self._emission(work, panes, sliding_windows(panes.key, time, size, left, right))

    def _changed(self, work: _Work, merged: MergedPanes, close: int) -> Emission:
        """The open windows that hold a record of the batch, and those that a new pane defines."""
        size = self.plan.size
        starts = run_starts(merged.panes.key, merged.panes.time)
        panes = self.plan.schema.reduce(merged.panes, starts)
        if not len(panes):
            return self._emission(work, panes, sliding_windows(panes.key, panes.time, size, *_NO_MASKS))
        changed = np.logical_or.reduceat(merged.changed, starts)
        fresh = np.logical_and.reduceat(merged.fresh, starts)
        windows = sliding_windows(
            panes.key, panes.time, size, panes.time >= close, panes.time + (size + 1) >= close
        )
        before = np.concatenate([[0], np.cumsum(changed)])
        wanted = before[windows.hi] > before[windows.lo]
        wanted |= windows.right & fresh[windows.pane]
        return self._emission(work, panes, windows.take(wanted))

    def _born_closed(self, work: _Work, merged: MergedPanes, close: int) -> Emission:
        """Left windows that partly late records bring into being although they are closed already.

        Such a window holds the records that came while it was open, which the new record did not. If a pane just before it
        has it as its right window, it was emitted as such.
        """
        panes, size = merged.panes, self.plan.size
        starts = run_starts(panes.key, panes.time)
        new = np.logical_and.reduceat(merged.fresh, starts) if len(starts) else np.empty(0, bool)
        pane = starts[new & (panes.time[starts] < close)]
        place = distances(panes.key, panes.time, size + 1)
        lo = np.searchsorted(place, place[pane] - size, "left")
        # Every pair of such a window and a pane in its span, of which it keeps those that it may see.
        known = (lo > 0) & (place[lo - 1] == place[pane] - (size + 1))
        pane, lo = pane[~known], lo[~known]
        length = pane - lo
        window = np.repeat(np.arange(len(pane)), length)
        row = np.arange(len(window)) - np.repeat(np.cumsum(length) - length - lo, length)
        seen = visible(panes)[row] <= panes.time[pane][window]
        window, held = window[seen], panes.take(row[seen])
        tied = run_starts(window, held.time)
        window, held = window[tied], self.plan.schema.reduce(held, tied)
        begins = np.flatnonzero(np.diff(window, prepend=-1))
        ends = np.append(begins[1:], len(held))[: len(begins)]
        chosen = Windows(begins, ends, begins, panes.time[pane[window[begins]]], np.zeros(len(begins), bool))
        return self._emission(work, held, chosen)

    def _emission(self, work: _Work, panes: Entries, windows: Windows) -> Emission:
        states = self.plan.schema.combined(panes, windows.lo, windows.hi)
        return Emission(work.keys, panes.key[windows.pane], windows.end - self.plan.size, windows.end, states)

    def _save(self, work: _Work, merged: MergedPanes, close: int) -> None:
        """Write the pages that the batch touched, without what is dead, and enter them and the visited ones as due."""
        dead, panes = self.plan.dead_before(close), merged.panes
        for segment, touched, rows in self._pages(work, panes):
            if touched.any():
                alive = touched[panes.key[rows]] & (panes.time[rows] >= dead)
                self._replace(work, segment, touched, panes.take(rows[alive]))
            if not self.plan.on_update and len(rows):
                self._enter(work, segment, merged, rows, close)
        self.store.expire(dead)

    def _pages(self, work: _Work, panes: Entries) -> Iterator[tuple[int, Mask, Ints]]:
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

    def _replace(self, work: _Work, segment: int, touched: Mask, panes: Entries) -> None:
        names = [work.keys[n] for n in np.flatnonzero(touched).tolist()]
        local = np.cumsum(touched) - 1
        self.store.replace_segment(segment, names, Entries(local[panes.key], panes.columns))

    def _enter(self, work: _Work, segment: int, merged: MergedPanes, rows: Ints, close: int) -> None:
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


_NO_MASKS = (np.empty(0, bool), np.empty(0, bool))
