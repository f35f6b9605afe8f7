"""The base of all operators: steps over one store, and timers that follow from what is stored.

A timer belongs to a page, so a step reads only the pages that its batch touches and those that are due.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from operators.columns.ranges import Ints, Mask, run_starts
from operators.columns.records import FAR_PAST, Records
from operators.steps.emission import Emission
from operators.steps.step import Step
from operators.steps.timers import NEVER, TimerQueue
from operators.steps.touched import DuePages, Rows, Timers, Touched
from state_backends import Entries, WindowStore, WriteBatch
from state_backends.store.entries import merge_entries
from state_backends.store.ordering import row_order
from state_backends.store.page_ids import PageIds, keys_and_starts

NO_KEYS = np.empty(0, np.int64)
_FEW_PAGES = 1 << 18
"""Pages that are read at once when a store is opened: about a quarter of a second."""
_LOOK_UP = 4
"""How many keys of a segment are read, in order, in the time of one look-up. On RocksDB it is 5, in memory 1."""
Bounds = Callable[[Ints], tuple[Ints, Ints]]
"""Returns start and end of windows for times in ticks."""
IsDone = Callable[[int, Ints], bool]
"""Says of a segment and numbers of keys whether a step needs none of their pages any more."""


class Emitted(Protocol):
    """Rows of several keys."""

    @property
    def key(self) -> Ints:
        """Each row's key."""

    @property
    def retract(self) -> bool:
        """Whether the rows retract emitted rows."""


class StoreOperator(ABC):
    """An operator over one store.

    Attributes:
        store: holds its entries.
        closes: whether it has timers, because it emits windows when they close.
        close_time: the close time of the last step, in ticks. The owner of the store persists it.
    """

    def __init__(self, store: WindowStore, closes: bool) -> None:
        self.store = store
        self.closes = closes
        self.close_time = FAR_PAST
        self._timers = TimerQueue()
        self._unread: dict[int, int] = {}
        """Segments whose timers have not been set since the store was opened, and when the first of them may be due."""
        self._unknown: dict[int, None] = {}
        """Segments whose keys have not been read since then."""
        self._retracting: Sequence[Emission] = ()
        """Windows of keys that were forgotten since the last step."""

    @abstractmethod
    def next_due(self, entries: Entries) -> Ints:
        """Return the last tick of the next window to close that contains each stored entry, or NEVER."""

    def earliest_due(self, first: int, last: int) -> int:
        """Return a tick before which no entry with a time from `first` to `last` is due; by default nothing is known."""
        del first, last
        return FAR_PAST

    def rebuild(self, close_time: int, changes: Sequence[WriteBatch] | None = None) -> None:
        """Set the timers of what is stored, after the store was written from outside.

        Args:
            close_time: the close time of the stored state.
            changes: what was written since the timers were last right; None reads the whole store.
        """
        self.close_time, self._retracting = close_time, ()
        if changes is None:
            self._timers.clear()
            self._open(self.store.segments())
            return
        if not self.closes:
            return
        for batch in changes:
            for segment, pages in batch.puts.items():
                names = list(pages)
                self._set_page_timers(segment, names, self.store.read_names(segment, names))

    def _open(self, segments: Sequence[int]) -> None:
        """Set the timers of all segments, or of a large state only those that are due before its close time."""
        ticks, few = self.store.segment_ticks, self.store.usage.pages <= _FEW_PAGES
        self._unread = {
            segment: self.earliest_due(segment * ticks, (segment + 1) * ticks - 1) if self.closes else NEVER
            for segment in segments
        }
        self._unknown = dict.fromkeys(segments)
        self._read(list(segments) if few else self._maybe_due(self.close_time))

    def _read(self, segments: Sequence[int]) -> None:
        """Read segments for the first time: their timers, or their keys if there are no timers."""
        for segment in segments:
            self._unknown.pop(segment, None)
            if self._unread.pop(segment) == NEVER:
                self.store.note_keys(segment)
                continue
            for names, entries in self.store.scan_pages(segment):
                self._set_page_timers(segment, names, entries)
        self.store.usage.keys_known = not self._unknown

    def _maybe_due(self, close_time: int) -> list[int]:
        """The segments that were not read yet and may have timers that are due before the close time."""
        return [segment for segment, due in self._unread.items() if due < close_time]

    def _read_on(self, close_time: int) -> None:
        """Read the segments that may be due, and the keys of one more. So the first batch after a restart comes soon."""
        if not self._unread:
            return
        self._read(self._maybe_due(close_time))
        if self._unknown:
            self._read_keys([next(reversed(self._unknown))])

    def _read_keys(self, segments: Iterable[int]) -> None:
        """Read the keys of segments for the first time, and leave their timers for later."""
        for segment in segments:
            self.store.note_keys(segment)
            del self._unknown[segment]
        self.store.usage.keys_known = not self._unknown

    def _set_page_timers(self, segment: int, names: Sequence[bytes], entries: Entries) -> None:
        """Set the timers of pages, given their entries by position of the name."""
        present, due = first_by_key(entries.key, self.next_due(entries))
        self._timers.add(segment, [names[n] for n in present.tolist()], due)

    def _touched(self, keys: list[bytes], close_time: int) -> Touched:
        """Return the keys of a batch and the pages that are due before the close time, whose spans are still empty."""
        due = self._timers.drain_due(close_time) if self.closes else {}
        number = {key: n for n, key in enumerate(keys)} if due else {}
        numbered = {}
        for segment, names in due.items():
            of, start = keys_and_starts(names, self.store.span_of(segment)[0])
            key = np.fromiter((number.setdefault(key, len(number)) for key in of), np.int64, len(of))
            numbered[segment] = DuePages(key, start)
        touched = Touched(list(number) if due else keys, numbered)
        pages, most = self.store.usage.pages_of, _LOOK_UP * len(touched.keys)
        self._read_keys([segment for segment in self._unknown if pages(segment) <= most])
        return touched

    def step(self, batch: Any, step: Step) -> Sequence[Emitted]:
        """Process one batch and return the rows to emit.

        Args:
            batch: as `Program.read` returns it for the plan.
            step: the close times, and where to count.
        """
        step.begin(self.close_time)
        self._read_on(step.close_time_end)
        retracting, self._retracting = self._retracting, ()
        emitted = self.process(batch, step)
        if retracting:
            emitted = [*(rows.without(emitted) for rows in retracting), *emitted]
        self.close_time = step.close_time_end
        for rows in emitted:
            if rows.retract:
                step.counters.retracted += len(rows.key)
            else:
                step.counters.windows += len(rows.key)
        return emitted

    def forget(self, keys: list[bytes]) -> None:
        """Delete all that is stored of distinct keys; the next step begins with rows that retract their open windows.

        Windows that are closed stay where they came out: they are final. Timers stay, as early ones of pages that are gone.

        Cost: O(segments and pages of the keys).
        """
        store, parts, nothing = self.store, list[Entries](), merge_entries([], self.store.layout)
        located = store.locate(keys)
        for segment in store.segments():
            present = np.flatnonzero(store.may_have(segment, keys, located))
            pages = store.pages(segment, keys, present)
            if self.retracts:
                parts.append(store.read(segment, keys, pages))
            self._write(segment, keys, pages, nothing)
        self._retracting = self.retracted(keys, merge_entries(parts, store.layout)) if parts else ()

    @property
    def retracts(self) -> bool:
        """Whether windows come out before they are closed, by rows that can be retracted; by default not."""
        return False

    def retracted(self, keys: list[bytes], entries: Entries) -> Sequence[Emission]:
        """Return rows that retract the open windows of keys, given all of their stored entries. Called if `retracts`."""
        del keys, entries
        return ()

    @abstractmethod
    def process(self, batch: Any, step: Step) -> Sequence[Emitted]:
        """Process one batch while `close_time` is still that of the step before; rows are counted by `step`."""

    @staticmethod
    def _accepted(records: Records, late: Mask, step: Step, bounds: Bounds) -> Records:
        """Count records, report the late ones, and return the others sorted by key and time.

        Args:
            records: those of a batch.
            late: shape (n,), bool: which of them are late.
            step: where to count and report.
            bounds: returns start and end of the last window that could have contained records of these times.
        """
        step.count_rows(records.key, records.bad)
        rows = np.flatnonzero(late)
        step.report_late(rows, bounds(records.time[rows]))
        accepted = records.take(np.flatnonzero(~late)) if len(rows) else records
        order = row_order(accepted.key, accepted.time)
        return accepted if order is None else accepted.take(order)

    def _fetch(self, touched: Touched) -> Entries:
        """Return the pages that a step touches, whole: those that are due, and those in the span of a key."""
        parts = []
        for segment, pages in self._pages(touched):
            touched.held[segment] = pages
            parts.append(self.store.read(segment, touched.keys, pages))
        return merge_entries(parts, self.store.layout)

    def _pages(self, touched: Touched, is_done: IsDone = lambda *_: False) -> Iterator[tuple[int, PageIds]]:
        """Yield the segments that may have pages in the span of their key, or pages that are due, and these pages."""
        store, located = self.store, self.store.locate(touched.keys)
        for segment in store.segments():
            begin, end = store.span_of(segment)
            read = (touched.first <= end) & (touched.last >= begin)
            if segment in touched.due:
                read[touched.due[segment].key] = True
            if not read.any():
                continue
            numbers = np.flatnonzero(read & store.may_have(segment, touched.keys, located))
            if len(numbers) and not is_done(segment, numbers):
                pages = store.pages(segment, touched.keys, numbers)
                wanted = (pages.start <= touched.last[pages.key]) & (pages.last >= touched.first[pages.key])
                if not wanted.all():
                    pages = pages.take(wanted | touched.is_due(segment, pages))
                yield segment, pages

    @staticmethod
    def _hold(touched: Touched, segment: int, pages: PageIds, changing: Iterable[Rows]) -> Mask:
        """Return which pages have to be read whole, because the step may write them or set their timers, and note them.

        Args:
            touched: gets the pages.
            segment: number of the segment.
            pages: those that the step reads.
            changing: where entries are that it adds or changes.
        """
        held = touched.is_due(segment, pages)
        for key, time in changing:
            inside = (time >= pages.span[0]) & (time <= pages.span[1])
            at = pages.holding(key[inside], time[inside])
            held[at[at >= 0]] = True
        touched.held[segment] = pages.take(held)
        return held

    def _write_back(
        self,
        touched: Touched,
        entries: Entries,
        changed: Sequence[Rows],
        timers: Timers | None,
        dead_before: int,
    ) -> None:
        """Write the pages that changed, set timers, and drop the segments that no window needs any more.

        A timer is set for pages that are new or were due, since their timers have fired, and for pages that are due earlier
        than before. A page that is due later keeps its timer: an early timer costs one read of a page, and the queue
        stays short.

        Args:
            touched: what the step touched.
            entries: all entries after the step of the pages that it holds, and perhaps of others; sorted.
            changed: where entries were added, changed or removed.
            timers: when `entries` are due; None if windows do not close.
            dead_before: the time before which no window needs an entry: those of them in pages that are written are left out.
        """
        ticks = self.store.segment_ticks
        alive = entries.time >= dead_before
        parts = [entries.time // ticks, *(each.time // ticks for each in changed)]
        numbers = [part[np.flatnonzero(np.diff(part, prepend=part[:1] - 1))] for part in parts[1:]]
        segments = np.unique(np.concatenate([*numbers, np.fromiter(touched.due, np.int64, len(touched.due))]))
        rows = [rows_by_segment(part, segments) for part in parts]
        before = [] if timers is None else rows_by_segment(timers.stored.time // ticks, segments)
        for nth, segment in enumerate(segments.tolist()):
            changing = [
                Rows(each.key[at[nth]], each.time[at[nth]])
                for each, at in zip(changed, rows[1:], strict=True)
            ]
            pages, changes = self._with_new(touched, segment, changing)
            present = rows[0][nth]
            page = pages.holding(entries.key[present], entries.time[present])
            present, page = present[page >= 0], page[page >= 0]
            written = changes[page] & alive[present]
            start = pages.start[page]
            whole = len(present) == len(entries) and written.all()
            writing = entries if whole else entries.take(present[written])
            start[written] = self._write(segment, touched.keys, pages.take(changes), writing)
            if timers is not None:
                kept = written | ~changes[page]
                was = before[nth]
                self._set_timers(
                    segment,
                    touched,
                    pages,
                    (Rows(entries.key[present[kept]], start[kept]), timers.due[present[kept]]),
                    (Rows(timers.stored.key[was], timers.stored.time[was]), timers.was_due[was]),
                )
        self.store.expire(dead_before)

    def _with_new(self, touched: Touched, segment: int, changing: Sequence[Rows]) -> tuple[PageIds, Mask]:
        """The pages that the step holds, with the first pages of keys that have none, and which of all of them change."""
        nothing = PageIds.first(self.store.span_of(segment), NO_KEYS)
        held = touched.held.get(segment, nothing)
        key, time = (np.concatenate(columns) for columns in zip(*changing, strict=True))
        new = np.unique(key[held.holding(key, time) < 0])
        pages = held.joined(PageIds.first(held.span, new)) if len(new) else held
        at = pages.holding(key, time)
        if np.isin(new, held.key).any() or (at < 0).any():
            raise RuntimeError(f"a step changes entries of segment {segment} in pages that it has not read")
        changes = np.zeros(len(pages), bool)
        changes[at] = True
        return pages, changes

    def _write(self, segment: int, keys: list[bytes], pages: PageIds, entries: Entries) -> Ints:
        """Replace all entries of pages, and return the start of the page that each is in now."""
        return self.store.write(segment, keys, pages, entries)

    def _set_timers(
        self,
        segment: int,
        touched: Touched,
        pages: PageIds,
        now: tuple[Rows, Ints],
        before: tuple[Rows, Ints],
    ) -> None:
        """Set the timers of one segment's pages.

        Args:
            segment: number of the segment.
            touched: what the step touched.
            pages: those that the step holds, as they were, and first pages of keys that had none.
            now: of each entry the key and the start of its page, and when it is due.
            before: of entries as they were stored the key and the time, and when they were due.
        """
        (key, start), due = now
        begins = run_starts(key, start)
        if not len(begins):
            return
        after, due = DuePages(key[begins], start[begins]), least(due, begins)
        page = pages.holding(after.key, after.start)
        exact = pages.start[page] == after.start
        was_due = np.full(len(pages), NEVER)
        (stored, times), ticks = before
        at = pages.holding(stored, times)
        np.minimum.at(was_due, at[at >= 0], ticks[at >= 0])
        fired = touched.is_due(segment, pages)
        chosen = ~exact | fired[page] | (due < was_due[page])
        written = PageIds(pages.span, after.key[chosen], after.start[chosen], after.start[chosen])
        self._timers.add(segment, written.names(touched.keys), due[chosen])


def first_by_key(key: Ints, value: Ints) -> tuple[Ints, Ints]:
    """Return the distinct keys of rows that are sorted by key, and the least value of each key."""
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    return key[starts], least(value, starts)


def least(value: Ints, starts: Ints) -> Ints:
    """Return the least value of each run of rows that begins at `starts`."""
    return np.minimum.reduceat(value, starts) if len(starts) else value[:0]


def rows_by_segment(number: Ints, segments: Ints) -> list[Ints]:
    """Return the rows of each of the segments, in their order.

    Args:
        number: shape (n,), int64: the segment of each row.
        segments: distinct segments, ascending.
    """
    if not len(segments):
        return []
    place = np.searchsorted(segments, number)
    rows = np.flatnonzero(segments[np.minimum(place, len(segments) - 1)] == number)
    order = row_order(place[rows], np.zeros(len(rows), np.int64))
    rows = rows if order is None else rows[order]
    edges = np.searchsorted(place[rows], np.arange(len(segments) + 1))
    return [rows[a:b] for a, b in pairwise(edges.tolist())]
