"""What all engines work with: a store with the timers of its pages, and with the sums of pages that are not read again.

A step of an engine begins with `begin` and ends with `end`. In between it asks for the pages that its batch touches and those
that are due, and writes back those that changed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress, count, pairwise
from typing import Protocol

import numpy as np

from operators.columns.ranges import Ints, Mask, run_starts
from operators.columns.records import NEVER
from operators.steps.emission import Emission
from operators.steps.page_sums import PageSums
from operators.steps.page_timers import DueRule, PageTimers, least
from operators.steps.step import Step
from operators.steps.timers import TimerQueue
from operators.steps.touched import DuePages, Rows, Timers, Touched
from serializers.arrays import rows_between
from state_backends import Entries, WindowStore
from state_backends.store.entries import merge_entries
from state_backends.store.page_ids import PageIds, keys_and_starts

NO_KEYS = np.empty(0, np.int64)
_SORTED_BY_RADIX = 1 << 16
"""NumPy sorts whole numbers of 16 bits in one pass."""
IsDone = Callable[[int, Ints], bool]
"""Says of a segment and numbers of keys whether a step needs none of their pages any more."""
Retract = Callable[[list[bytes], Entries], Sequence[Emission]]
"""Returns rows that retract the open windows of keys, given all of their stored entries."""


class Emitted(Protocol):
    """Rows of several keys."""

    @property
    def key(self) -> Ints:
        """Each row's key."""

    @property
    def retract(self) -> bool:
        """Whether the rows retract emitted rows."""


class TimedStore:
    """A window store with timers.

    Args:
        store: has the entries.
        rule: says when entries are due.
        sums: the sums of the store's pages, if the engine reads any.
        retract: makes rows that retract windows of forgotten keys; None if no window comes out before it is closed.
        queue: the timers' queue, if it is not a plain one.

    Attributes:
        store, sums: as given.
        timers: the timers of the pages.
    """

    def __init__(
        self,
        store: WindowStore,
        rule: DueRule,
        sums: PageSums | None = None,
        retract: Retract | None = None,
        queue: TimerQueue | None = None,
    ) -> None:
        self.store = store
        self.timers = PageTimers(store, rule, TimerQueue() if queue is None else queue)
        self.sums = sums
        self._retract = retract
        self._retracting: Sequence[Emission] = ()
        """Windows of keys that were forgotten since the last step."""

    @property
    def close_time(self) -> int:
        """The close time of the last step, in ticks, until the next one ends. Whoever has the store persists it."""
        return self.timers.close_time

    def rebuild(self, close_time: int) -> None:
        """Make what is in memory anew, after the store was written from outside: timers and sums.

        Args:
            close_time: the close time of the stored state.
        """
        self._retracting = ()
        self.timers.rebuild(close_time)
        if self.sums is not None:
            self.sums.clear()

    def check(self) -> None:
        """Raise AssertionError if what is in memory does not agree with the pages: between batches. O(entries), for tests."""
        self.store.check()
        self.timers.check()
        if self.sums is not None:
            self.sums.check()

    def begin(self, step: Step) -> None:
        """Begin a step: it goes on from the close time of the last one."""
        step.begin(self.close_time)
        self.timers.read_on(step.close_time_end)

    def end(self, step: Step, emitted: Sequence[Emitted]) -> Sequence[Emitted]:
        """End a step, and return its rows, after those that retract windows of forgotten keys. Rows are counted."""
        retracting, self._retracting = self._retracting, ()
        if retracting:
            emitted = [*(rows.without(emitted) for rows in retracting), *emitted]
        self.timers.close_time = step.close_time_end
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
            if self._retract is not None:
                parts.append(store.read(segment, keys, pages))
            self.write(segment, keys, pages, nothing)
        if self._retract is not None and parts:
            self._retracting = self._retract(keys, merge_entries(parts, store.layout))

    def stages(self, since: int, before: int, piece_bytes: int, most_pieces: int) -> Iterator[int]:
        """Yield times between two close times, so that what is stored between them has about so many bytes.

        A segment of more is cut, as if its bytes were evenly spread over the time of what it has due:

            segment     | begin                                     end |
            rows                   first due . . . . . . latest
            times                       |      |      |

        Args:
            since, before: ticks.
            piece_bytes: the size in bytes of the pages between two times.
            most_pieces: the greatest number of pieces of one segment.
        """
        size = 0
        for segment, more in sorted(self.store.usage.segment_bytes().items()):
            begin, end = self.store.span_of(segment)
            if end < since or begin >= before:
                continue
            if size and size + more > piece_bytes:
                yield begin
                size = 0
            pieces = min(max(1, -(-more // piece_bytes)), most_pieces)
            first = self.timers.first_due(segment) if pieces > 1 else None
            if first is not None:
                yield from _cuts(max(since, first), min(before, self.store.latest_of(segment) + 1), pieces)
            size += more // pieces

    def touch(self, keys: list[bytes], close_time: int) -> Touched:
        """Return the keys of a batch and the pages that are due before the close time, whose spans are still empty."""
        due = {
            segment: keys_and_starts(names, self.store.span_of(segment)[0])
            for segment, names in self.timers.queue.drain_due(close_time).items()
        }
        # Of many keys of a batch, few have pages that are due.
        wanted = dict.fromkeys(chain.from_iterable(of for of, _ in due.values()))
        number = {keys[n]: n for n in compress(count(), map(wanted.__contains__, keys))} if due else {}
        more = [key for key in wanted if key not in number]
        number.update(zip(more, count(len(keys))))
        numbered = {
            segment: DuePages(np.fromiter(map(number.__getitem__, of), np.int64, len(of)), start)
            for segment, (of, start) in due.items()
        }
        touched = Touched([*keys, *more] if more else keys, numbered)
        self.timers.read_few_keys(len(touched.keys))
        return touched

    def fetch(self, touched: Touched) -> Entries:
        """Return the pages that a step touches, whole: those that are due, and those in the span of a key."""
        parts = []
        for segment, pages in self.pages(touched):
            touched.held[segment] = pages
            parts.append(self.store.read(segment, touched.keys, pages))
        return merge_entries(parts, self.store.layout)

    def pages(self, touched: Touched, is_done: IsDone = lambda *_: False) -> Iterator[tuple[int, PageIds]]:
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
    def hold(touched: Touched, segment: int, pages: PageIds, changing: Iterable[Rows]) -> Mask:
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

    def write_back(
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
        ticks, alive = self.store.segment_ticks, entries.time >= dead_before
        change = Rows(*(np.concatenate(columns) for columns in zip(*changed, strict=True)))
        number = change.time // ticks
        due = np.fromiter(touched.due, np.int64, len(touched.due))
        segments = np.unique(np.concatenate([number[_runs(number)], due]))
        rows = rows_by_segment(entries.time // ticks, segments)
        changes = rows_by_segment(number, segments)
        before = [] if timers is None else rows_by_segment(timers.stored.time // ticks, segments)
        for nth, segment in enumerate(segments.tolist()):
            changing = Rows(change.key[changes[nth]], change.time[changes[nth]])
            pages, changed_pages = self._with_new(touched, segment, changing, dead_before)
            present = rows[nth]
            page = pages.holding(entries.key[present], entries.time[present])
            held = page >= 0
            if not held.all():
                present, page = present[held], page[held]
            changes_here = changed_pages[page]
            written = changes_here & alive[present]
            start = pages.start[page]
            whole = len(present) == len(entries) and written.all()
            writing = entries if whole else entries.take_ascending(present[written])
            start[written] = self.write(segment, touched.keys, pages.take(changed_pages), writing)
            if timers is not None:
                kept = written | ~changes_here
                was = before[nth]
                self._set_timers(
                    segment,
                    touched,
                    pages,
                    (page[kept], start[kept], timers.due[present[kept]]),
                    (Rows(timers.stored.key[was], timers.stored.time[was]), timers.was_due[was]),
                )
        self.store.expire(dead_before)

    def _with_new(
        self, touched: Touched, segment: int, changing: Rows, dead_before: int
    ) -> tuple[PageIds, Mask]:
        """The pages that the step holds, with the first pages of keys that have none, and which of all of them change.

        A key gets no page for entries that no window needs any more: those of windows that a batch both opens and closes.
        """
        pages = touched.held.get(segment, PageIds.first(self.store.span_of(segment), NO_KEYS))
        key, time = changing
        at = pages.holding(key, time)
        missing = at < 0
        if np.isin(key[missing], pages.key).any():
            raise RuntimeError(f"a step changes entries of segment {segment} in pages that it has not read")
        new = np.unique(key[missing & (time >= dead_before)])
        if len(new):
            pages = pages.union(PageIds.first(pages.span, new))
            at = pages.holding(key, time)
        changes = np.zeros(len(pages), bool)
        changes[at[at >= 0]] = True
        return pages, changes

    def write(self, segment: int, keys: list[bytes], pages: PageIds, entries: Entries) -> Ints:
        """Replace all entries of pages, and return the start of the page that each is in now."""
        starts = self.store.write(segment, keys, pages, entries)
        if self.sums is not None:
            self.sums.forget(segment, keys, pages)
        return starts

    def _set_timers(
        self,
        segment: int,
        touched: Touched,
        pages: PageIds,
        now: tuple[Ints, Ints, Ints],
        before: tuple[Rows, Ints],
    ) -> None:
        """Set the timers of one segment's pages.

        Args:
            segment: number of the segment.
            touched: what the step touched.
            pages: those that the step holds, as they were, and first pages of keys that had none.
            now: each entry's page in `pages`, where the page that it is in now starts, and when it is due.
            before: key and time of entries as they were stored, and when they were due.
        """
        page, start, due = now
        begins = run_starts(page, start)
        if not len(begins):
            return
        page, start, due = page[begins], start[begins], least(due, begins)
        exact = pages.start[page] == start
        was_due = np.full(len(pages), NEVER)
        (stored, times), ticks = before
        at = pages.holding(stored, times)
        np.minimum.at(was_due, at[at >= 0], ticks[at >= 0])
        fired = touched.is_due(segment, pages)
        chosen = ~exact | fired[page] | (due < was_due[page])
        written = PageIds(pages.span, pages.key[page[chosen]], start[chosen], start[chosen])
        self.timers.queue.add(segment, written.names(touched.keys), due[chosen])


def _cuts(begin: int, end: int, pieces: int) -> list[int]:
    """Times that cut a span into pieces of equal length."""
    times = {begin + (end - begin) * n // pieces for n in range(1, pieces)} if end > begin else set[int]()
    return sorted(times - {begin})


def rows_by_segment(number: Ints, segments: Ints) -> list[Ints]:
    """Return the rows of each of the segments, in their order.

    Args:
        number: shape (n,), int64: the segment of each row.
        segments: distinct segments, ascending.
    """
    if not len(segments):
        return []
    begin = _runs(number)
    count = np.diff(begin, append=len(number))
    place = np.searchsorted(segments, number[begin])
    runs = np.flatnonzero(segments[np.minimum(place, len(segments) - 1)] == number[begin])
    place = place[runs].astype(np.uint16 if len(segments) <= _SORTED_BY_RADIX else np.int64)
    order = np.argsort(place, kind="stable")
    begin, count = begin[runs[order]], count[runs[order]]
    rows = rows_between(begin, count)
    edges = np.append(0, np.cumsum(count))[np.searchsorted(place[order], np.arange(len(segments) + 1))]
    return [rows[a:b] for a, b in pairwise(edges.tolist())]


def _runs(number: Ints) -> Ints:
    """Where each run of equal numbers begins."""
    return np.flatnonzero(np.diff(number, prepend=number[:1] - 1))
