"""The timers of the pages of a store. They follow from what is stored, so they are never written.

A timer belongs to a page, so a step reads only the pages that its batch touches and those that are due.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from operators.columns.ranges import Ints
from operators.columns.records import FAR_PAST, NEVER
from operators.steps.timers import TimerQueue
from state_backends import Entries, WindowStore
from state_backends.store.page_ids import key_of

_FEW_PAGES = 1 << 18
"""Pages that are read at once when a store is opened: about a quarter of a second."""
_LOOK_UP = 4
"""How many keys of a segment are read, in order, in the time of one look-up. On RocksDB it is 5, in memory 1."""


class DueRule(Protocol):
    """A plan, as far as timers go."""

    @property
    def has_timers(self) -> bool:
        """Whether entries become due."""

    def next_due(self, entries: Entries, close_time: int) -> Ints:
        """Return the last tick of the next window to close that contains each stored entry, or NEVER."""

    def earliest_due(self, first: int, last: int, close_time: int) -> int:
        """Return a tick before which no entry with a time from `first` to `last` is due."""


class PageTimers:
    """When the pages of a store are due.

    Args:
        store: has the pages.
        rule: says when entries are due.
        queue: the queue of the timers.
    """

    def __init__(self, store: WindowStore, rule: DueRule, queue: TimerQueue) -> None:
        self._store = store
        self._rule = rule
        self.queue = queue
        self.close_time = FAR_PAST
        """The close time of what is stored: that of the last step."""
        self._unread: dict[int, int] = {}
        """Segments whose timers have not been set since the store was opened, and when the first of them may be due."""
        self._unknown: dict[int, None] = {}
        """Segments whose keys have not been read since then."""

    def rebuild(self, close_time: int) -> None:
        """Set the timers of what is stored anew; of a large state only those that are due before its close time.

        Args:
            close_time: the close time of the stored state.
        """
        self.close_time = close_time
        self.queue.clear()
        segments, few = self._store.segments(), self._store.usage.pages <= _FEW_PAGES
        self._unread = {segment: self._earliest_due(segment) for segment in segments}
        self._unknown = dict.fromkeys(segments)
        self._read(segments if few else self._maybe_due(close_time))

    def _earliest_due(self, segment: int) -> int:
        """A tick before which nothing in the segment is due."""
        if not self._rule.has_timers:
            return NEVER
        return self._rule.earliest_due(*self._store.span_of(segment), self.close_time)

    def _read(self, segments: Sequence[int]) -> None:
        """Read segments for the first time: their timers, or their keys if there are no timers."""
        for segment in segments:
            self._unknown.pop(segment, None)
            if self._unread.pop(segment) == NEVER:
                self._store.note_keys(segment)
                continue
            for names, entries in self._store.scan_pages(segment):
                self.set_pages(segment, names, entries)
        self._store.usage.keys_known = not self._unknown

    def _maybe_due(self, close_time: int) -> list[int]:
        """The segments that were not read yet and may have timers that are due before the close time."""
        return [segment for segment, due in self._unread.items() if due < close_time]

    def read_on(self, close_time: int) -> None:
        """Read the segments that may be due, and the keys of one more. So the first batch after a restart comes soon."""
        if not self._unread:
            return
        self._read(self._maybe_due(close_time))
        if self._unknown:
            self._read_keys([next(reversed(self._unknown))])

    def read_few_keys(self, keys: int) -> None:
        """Read the keys of segments that have so few that this takes less time than to look up a step's keys in them."""
        pages = self._store.usage.pages_of
        self._read_keys([segment for segment in self._unknown if pages(segment) <= _LOOK_UP * keys])

    def _read_keys(self, segments: Iterable[int]) -> None:
        """Read the keys of segments for the first time, and leave their timers for later."""
        for segment in segments:
            self._store.note_keys(segment)
            del self._unknown[segment]
        self._store.usage.keys_known = not self._unknown

    def set_pages(self, segment: int, names: Sequence[bytes], entries: Entries) -> None:
        """Set the timers of pages, given their entries by position of the name."""
        present, due = first_by_key(entries.key, self._rule.next_due(entries, self.close_time))
        self.queue.add(segment, [names[n] for n in present.tolist()], due)

    def first_due(self, segment: int) -> int | None:
        """Return when a segment's first timer is due, None if it has none; the segment's begin as long as that is not known."""
        first = self.queue.first_due(segment)
        return self._store.span_of(segment)[0] if first is None and segment in self._unread else first

    def check(self) -> None:
        """Raise AssertionError if a page is due before its timer: between batches. O(entries), for tests."""
        segments = self._store.segments() if self._rule.has_timers else []
        pages, found = list[tuple[int, bytes]](), list[tuple[Ints, ...]]()
        numbers: dict[bytes, int] = {}
        for segment in segments:
            names, entries = self._store.peek(segment)
            number = np.array([numbers.setdefault(key_of(name), len(numbers)) for name in names], np.int64)
            found.append((number[entries.key], entries.key + len(pages), *entries.columns))
            pages += [(segment, name) for name in names]
        if not pages:
            return
        key, page, *columns = (np.concatenate(parts) for parts in zip(*found, strict=True))
        # Of a key as a whole: what is due by one page alone may be early.
        order = np.lexsort((columns[0], key))
        due, entries = np.full(len(pages), NEVER), Entries(key, tuple(columns)).take(order)
        np.minimum.at(due, page[order], self._rule.next_due(entries, self.close_time))
        timers = {segment: self.queue.earliest(segment) for segment in segments}
        for (segment, name), tick in zip(pages, due.tolist(), strict=True):
            if min(timers[segment].get(name, NEVER), self._unread.get(segment, NEVER)) > tick:
                raise AssertionError(f"page {name!r} of segment {segment} is due at {tick}, before its timer")


def first_by_key(key: Ints, value: Ints) -> tuple[Ints, Ints]:
    """Return the distinct keys of rows that are sorted by key, and the least value of each key."""
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    return key[starts], least(value, starts)


def least(value: Ints, starts: Ints) -> Ints:
    """Return the least value of each run of rows that begins at `starts`."""
    return np.minimum.reduceat(value, starts) if len(starts) else value[:0]
