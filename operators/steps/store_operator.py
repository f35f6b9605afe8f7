"""The base of all operators: steps over one store, and timers that follow from what is stored.

A timer belongs to a page, so a step reads only the pages that its batch touches and those that are due.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from operators.columns.ranges import Ints, Mask, run_starts
from operators.columns.records import FAR_FUTURE, FAR_PAST, Records
from operators.steps.step import Step
from operators.steps.timers import NEVER, TimerQueue
from state_backends import Entries, WindowStore, WriteBatch
from state_backends.store.entries import merge_entries
from state_backends.store.ordering import row_order

NO_KEYS = np.empty(0, np.int64)
_FEW_PAGES = 1 << 18
"""Pages that are read at once when a store is opened: about a quarter of a second."""
_LOOK_UP = 4
"""How many keys of a segment are read, in order, in the time of one look-up. On RocksDB it is 5, in memory 1."""
Bounds = Callable[[Ints], tuple[Ints, Ints]]
"""Returns start and end of windows for times in ticks."""


@dataclass(slots=True)
class Touched:
    """What a step touches: keys, pages that are due, and the span of time that it reads of each key.

    Attributes:
        keys: the keys of the batch, then those that only have a page that is due.
        due: key numbers of the due pages by segment.
        first, last: shape (keys,), int64: the span of each key; `first` > `last` reads nothing.
    """

    keys: list[bytes]
    due: dict[int, Ints]
    first: Ints = field(init=False)
    last: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.first = np.full(len(self.keys), FAR_FUTURE)
        self.last = np.full(len(self.keys), FAR_PAST)

    def widen(self, keys: Ints, first: Ints | int, last: Ints | int) -> None:
        """Extend the spans of these distinct keys, so that they include the time from `first` to `last`."""
        self.first[keys] = np.minimum(self.first[keys], first)
        self.last[keys] = np.maximum(self.last[keys], last)


class PageIds(NamedTuple):
    """Which pages: shape (n,), int64: key number and segment of each; they may repeat."""

    key: Ints
    segment: Ints

    @classmethod
    def of(cls, key: Ints, segment: Ints) -> "PageIds":
        """Return the pages of rows that are sorted by key and segment, given those of each row."""
        start = run_starts(key, segment)
        return cls(key[start], segment[start])

    @classmethod
    def joined(cls, parts: "Iterable[PageIds]") -> "PageIds":
        """Return the pages of all parts, of which there is at least one."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@dataclass(frozen=True, slots=True)
class Pages:
    """Entries by the page that they belong to.

    Attributes:
        entries: sorted by key, those of one page in a row.
        key, segment: shape (n,), int64: key number and segment of each page.
        start: shape (n,), int64: where its entries begin.
    """

    entries: Entries
    key: Ints
    segment: Ints
    start: Ints

    @classmethod
    def of(cls, entries: Entries, segment_ticks: int, since: int = FAR_PAST) -> "Pages":
        """Return entries by page. Entries before `since` form pages of a segment that no store has."""
        segment = entries.time // segment_ticks
        if since > FAR_PAST:
            segment = np.where(entries.time >= since, segment, FAR_PAST)
        start = run_starts(entries.key, segment)
        return cls(entries, entries.key[start], segment[start], start)

    @property
    def ids(self) -> PageIds:
        """The pages without their entries."""
        return PageIds(self.key, self.segment)

    def least(self, value: Ints) -> Ints:
        """Return the least value of each page's entries."""
        return least(value, self.start)

    def entries_of(self, pages: Ints) -> Entries:
        """Return the entries of the pages at these positions, sorted by key and time if the pages are of one segment."""
        stop = np.append(self.start[1:], len(self.entries))
        return self.entries.take_runs(self.start[pages], (stop - self.start)[pages])


@dataclass(frozen=True, slots=True)
class PageEnds:
    """When pages are due.

    Attributes:
        now, before: shape (pages,), int64: last tick of the next window to close, after and before the step, or NEVER.
    """

    now: Ints
    before: Ints


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
        self.close_time = close_time
        if changes is None:
            self._timers.clear()
            self._open(self.store.segments())
            return
        if not self.closes:
            return
        for batch in changes:
            for segment, pages in batch.puts.items():
                keys = list(pages)
                self._set_page_timers(segment, keys, self.store.fetch_segment(segment, keys))

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
            for keys, entries in self.store.scan_segment(segment):
                self._set_page_timers(segment, keys, entries)
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

    def _set_page_timers(self, segment: int, keys: list[bytes], entries: Entries) -> None:
        present, due = first_by_key(entries.key, self.next_due(entries))
        self._timers.add(segment, [keys[n] for n in present.tolist()], due)

    def _touched(self, keys: list[bytes], close_time: int) -> Touched:
        """Return the keys of a batch and the pages that are due before the close time, whose spans are still empty."""
        due = self._timers.drain_due(close_time) if self.closes else {}
        number = {key: n for n, key in enumerate(keys)} if due else {}
        numbered = {
            segment: np.fromiter((number.setdefault(key, len(number)) for key in names), np.int64, len(names))
            for segment, names in due.items()
        }
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
        emitted = self.process(batch, step)
        self.close_time = step.close_time_end
        for rows in emitted:
            if rows.retract:
                step.counters.retracted += len(rows.key)
            else:
                step.counters.windows += len(rows.key)
        return emitted

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
        step.counters.rows += len(records) + records.bad
        step.counters.bad += records.bad
        rows = np.flatnonzero(late)
        step.report_late(rows, bounds(records.time[rows]))
        accepted = records.take(np.flatnonzero(~late)) if len(rows) else records
        order = row_order(accepted.key, accepted.time)
        return accepted if order is None else accepted.take(order)

    def _fetch(self, touched: Touched) -> Entries:
        """Return the pages that a step touches, whole: those that are due, and those in the span of a key."""
        parts = []
        for segment, numbers in self._pages(touched):
            keys = [touched.keys[n] for n in numbers.tolist()]
            entries = self.store.fetch_segment(segment, keys, located=True)
            parts.append(Entries(numbers[entries.key], entries.columns))
        return merge_entries(parts, self.store.layout)

    def _pages(self, touched: Touched) -> Iterator[tuple[int, Ints]]:
        """Yield the segments that may have pages to read, and the numbers of their keys."""
        ticks, located = self.store.segment_ticks, self.store.locate(touched.keys)
        for segment in self.store.segments():
            begin = segment * ticks
            read = (touched.first < begin + ticks) & (touched.last >= begin)
            read[touched.due.get(segment, NO_KEYS)] = True
            if read.any():
                numbers = np.flatnonzero(read & self.store.may_have(segment, touched.keys, located))
                if len(numbers):
                    yield segment, numbers

    def _write_back(
        self, touched: Touched, pages: Pages, changed: PageIds, ends: PageEnds | None, dead_before: int
    ) -> None:
        """Write the pages that changed, set timers, and drop the segments that no window needs any more.

        A timer is set for pages that were due, since their timers have fired, and for pages that are due earlier than
        before. A page that is due later keeps its timer: an early timer costs one read of a page, and the queue stays short.

        Args:
            touched: what the step touched.
            pages: all entries of the pages after the step; those that no window needs are in no segment.
            changed: pages that lost or gained an entry; they may repeat.
            ends: when each of `pages` is due; None if windows do not close.
            dead_before: the time before which no window needs an entry.
        """
        segments = np.union1d(changed.segment, np.fromiter(touched.due, np.int64, len(touched.due)))
        rows = [rows_by_segment(each.segment, segments) for each in (pages, changed)]
        for segment, present, written in zip(segments.tolist(), *rows, strict=True):
            if len(written):
                mask = np.zeros(len(touched.keys), bool)
                mask[changed.key[written]] = True
                self._replace(
                    segment, touched.keys, mask, pages.entries_of(present[mask[pages.key[present]]])
                )
            if ends is not None:
                self._set_timers(
                    segment, touched, pages.key[present], ends.now[present], ends.before[present]
                )
        self.store.expire(dead_before)

    def _replace(self, segment: int, keys: list[bytes], replaced: Mask, entries: Entries) -> list[bytes]:
        """Replace the pages of the keys under the mask, and return these; the entries are all that they hold, sorted."""
        names = [keys[n] for n in np.flatnonzero(replaced).tolist()]
        local = np.cumsum(replaced) - 1
        self.store.replace_segment(segment, names, Entries(local[entries.key], entries.columns))
        return names

    def _set_timers(self, segment: int, touched: Touched, key: Ints, now: Ints, before: Ints) -> None:
        was_due = np.zeros(len(touched.keys), bool)
        was_due[touched.due.get(segment, NO_KEYS)] = True
        set_now = was_due[key] | (now < before)
        self._timers.add(segment, [touched.keys[n] for n in key[set_now].tolist()], now[set_now])


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
