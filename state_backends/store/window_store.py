"""The timestamped window store: entries by key and time, in columns, over the pages of a backend.

An entry is a key, a time in ticks and the columns of the layout. Time is cut into segments, and a key's entries of one segment
into pages, sorted by time. Changes are kept in memory until `drain_changes`; reads see them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from itertools import chain, compress, takewhile
from typing import cast

import numpy as np
import numpy.typing as npt

from serializers.pages import PageLayout
from state_backends.interface import LoggedPages, StateBackend, WriteBatch
from state_backends.store.cutting import encode_pages
from state_backends.store.entries import Entries, Ticks, contains, merge_entries
from state_backends.store.key_index import Bits
from state_backends.store.page_directory import PageDirectory
from state_backends.store.page_ids import PageIds, distinct_keys, keys_of
from state_backends.store.staged_pages import StagedPages
from state_backends.store.usage import StoreUsage

TIME_MIN, TIME_MAX = -(2**63), 2**63 - 1
_FEW_NOTED = 1 << 14
"""Keys that the index may hold for pages that are gone, however few there are: 300 kB."""
_KEYS_AT_ONCE = 1 << 10
"""Keys whose pages are read at once where keys have several pages."""


class WindowStore:
    """Range reads and writes by key and time over one backend.

    Args:
        backend: where the pages live; this store is its only user.
        layout: the columns of an entry.
        segment_ticks: length of a segment in ticks, at least 1.
    """

    def __init__(self, backend: StateBackend, layout: PageLayout, segment_ticks: int) -> None:
        if segment_ticks < 1:
            raise ValueError(f"segment length is {segment_ticks} ticks: it must be at least 1")
        self.backend = backend
        self.layout = layout
        self.segment_ticks = segment_ticks
        self.on_write: Callable[[int, Sequence[bytes], Entries], None] | None = None
        """Called with the names of the pages that `write` wrote or deleted, and the entries by position of the name."""
        self.usage = StoreUsage(layout)
        """How much is stored, and how many pages were read and written."""
        self._staged = StagedPages(backend)
        self._latest: dict[int, int] = {}
        self._directory = PageDirectory()

    def segment_of(self, time: int) -> int:
        """Return the number of the segment that holds the time."""
        return time // self.segment_ticks

    def span_of(self, segment: int) -> tuple[int, int]:
        """Return the first and the last tick of a segment."""
        begin = segment * self.segment_ticks
        return max(begin, TIME_MIN), min(begin + self.segment_ticks - 1, TIME_MAX)

    def segments(self) -> list[int]:
        """Return the numbers of the segments that may hold entries, ascending."""
        return self._staged.segments()

    def locate(self, keys: Sequence[bytes]) -> Bits:
        """Return where keys have pages, for all segments at once, for `may_have`. O(keys), 0.1 us each."""
        return self._directory.locate(keys)

    def may_have(self, segment: int, keys: Sequence[bytes], located: Bits) -> npt.NDArray[np.bool_]:
        """Return which keys may have a page in one segment; the others have none.

        Args:
            segment: number of the segment.
            keys: n keys.
            located: what `locate` returned for them; the backend was not written since.
        """
        if not self._directory.knows_keys(segment):
            return np.ones(len(keys), bool)
        found = self._directory.may_have(segment, keys, located)
        puts = self._staged.puts(segment)
        return found | np.fromiter(map(puts.__contains__, keys), bool, len(keys)) if puts else found

    def pages(
        self,
        segment: int,
        keys: Sequence[bytes],
        number: npt.NDArray[np.int64],
        span: tuple[Ticks, Ticks] | None = None,
    ) -> PageIds:
        """Return the pages that keys have in a segment; of keys without further pages the first one, which may not exist.

        Args:
            segment: number of the segment.
            keys: distinct keys.
            number: shape (n,), int64: positions in `keys` of those that are asked for, ascending.
            span: shape (keys,), int64: the first and the last tick that is asked for, of each of `keys`; by default all.
        """
        self._complete_directory(segment)
        if not self._directory.has_further(segment):
            return PageIds.first(self.span_of(segment), number)
        further = self._directory.further(segment, [keys[n] for n in number.tolist()])
        pages = PageIds.all_of(self.span_of(segment), number, further)
        if span is None:
            return pages
        first, last = span
        return pages.take((pages.start <= last[pages.key]) & (pages.last >= first[pages.key]))

    def _complete_directory(self, segment: int) -> None:
        """Read the names of a segment's pages, unless all further ones are known."""
        if self._directory.knows_further(segment):
            return
        none = self.usage.pages_of(segment) > 0 and not self.usage.further_of(segment)
        if none or not self._staged.is_stored(segment):
            self._directory.know_further(segment)
        else:
            self.note_keys(segment)

    def read(self, segment: int, keys: Sequence[bytes], pages: PageIds) -> Entries:
        """Return the entries of pages by key number, sorted. One backend call; O(entries) array work."""
        numbers, entries = self._read_names(segment, pages.names(keys))
        return Entries(pages.key[numbers], entries)

    def read_names(self, segment: int, names: Sequence[bytes]) -> Entries:
        """Return the entries of pages by position of the page's name. One backend call; O(entries) array work."""
        return Entries(*self._read_names(segment, names))

    def _read_names(
        self, segment: int, names: Sequence[bytes]
    ) -> tuple[npt.NDArray[np.int64], tuple[npt.NDArray[np.generic], ...]]:
        pages, found = self._staged.get(segment, names)
        self.usage.pages_read += found
        numbers = np.arange(len(names))
        if None in pages:
            numbers = np.array([number for number, page in enumerate(pages) if page is not None], np.int64)
            pages = [page for page in pages if page is not None]
        columns, counts = self._staged.decode(self.layout, cast("list[bytes]", pages))
        return np.repeat(numbers, counts), tuple(columns)

    def write(self, segment: int, keys: Sequence[bytes], pages: PageIds, entries: Entries) -> Ticks:
        """Replace all entries of pages; they are cut where they become large, and deleted if they have no entry.

        Args:
            segment: number of the segment.
            keys: distinct keys; `entries.key` and `pages.key` count positions in it.
            pages: the pages.
            entries: sorted by key, then by time; each is in one of the pages.

        Returns:
            Shape (entries,), int64: the start of the page that each entry is in now.
        """
        page = pages.holding(entries.key, entries.time)
        if (page < 0).any():
            raise RuntimeError(f"entries of segment {segment} are in none of the pages to write")
        written, counts, encoded = encode_pages(self.layout, pages, page, entries)
        filled = np.zeros(len(pages), bool)
        filled[page] = True
        names, emptied = written.names(keys), pages.take(~filled)
        gone = emptied.names(keys)
        self._note_latest(segment, entries)
        self._directory.write(segment, keys, written, emptied)
        self._staged.put(segment, zip(names, encoded, strict=True), gone)
        number = np.repeat(np.arange(len(written)), counts)
        if self.on_write is not None:
            self.on_write(segment, [*names, *gone], Entries(number, entries.columns))
        return written.start[number]

    def fetch_segment(self, segment: int, keys: Sequence[bytes]) -> Entries:
        """Return all entries of distinct keys in one segment. One backend call; O(entries) array work."""
        pages = self.pages(segment, keys, self._present(segment, keys))
        return self.read(segment, keys, pages)

    def _present(self, segment: int, keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """Numbers of the keys that may have a page in a segment."""
        if not self._directory.knows_keys(segment):
            return np.arange(len(keys))
        return np.flatnonzero(self.may_have(segment, keys, self.locate(keys)))

    def replace_segment(self, segment: int, keys: Sequence[bytes], entries: Entries) -> None:
        """Replace all entries of the keys in the segment.

        Args:
            segment: number of the segment that every entry's time falls in.
            keys: distinct keys; `entries.key` counts positions in it.
            entries: sorted by key, then by time.
        """
        self.write(segment, keys, self.pages(segment, keys, np.arange(len(keys))), entries)

    def _note_latest(self, segment: int, entries: Entries) -> None:
        """Keep the latest time of segments that were empty when this store first wrote to them."""
        if not len(entries):
            return
        latest = int(entries.time.max())
        if segment in self._latest:
            self._latest[segment] = max(latest, self._latest[segment])
        elif not self._staged.exists(segment):
            self._latest[segment] = latest
            self._directory.know(segment)

    def latest_of(self, segment: int) -> int:
        """Return a time after which a segment has no entries: that of the latest, or the segment's last tick."""
        return self._latest.get(segment, self.span_of(segment)[1])

    def fetch(self, key: bytes, start: int, end: int) -> Entries:
        """Return one key's entries with start <= time <= end."""
        return self.fetch_many([key], start, end)

    def fetch_many(self, keys: Sequence[bytes], start: int, end: int) -> Entries:
        """Return the entries of the keys with start <= time <= end, sorted by key number and time."""
        span, parts = (np.full(len(keys), start), np.full(len(keys), end)), []
        for segment in self._segments_between(start, end):
            pages = self.pages(segment, keys, self._present(segment, keys), span)
            parts.append(self.read(segment, keys, pages))
        merged = merge_entries(parts, self.layout)
        return merged.take((merged.time >= start) & (merged.time <= end))

    def _segments_between(self, start: int, end: int) -> list[int]:
        return [n for n in self.segments() if self.segment_of(start) <= n <= self.segment_of(end)]

    def put_many(self, keys: Sequence[bytes], entries: Entries) -> None:
        """Write entries; what the store holds for the same key and time is replaced.

        Args:
            keys: distinct keys; `entries.key` counts positions in it.
            entries: sorted by key, then by time; several of one key and time are kept in their order.
        """
        self._change(
            keys,
            entries,
            lambda old, fresh: merge_entries([old.take(~contains(fresh, old)), fresh], self.layout),
        )

    def add_many(self, keys: Sequence[bytes], entries: Entries) -> None:
        """Add entries to those in the store, after those of the same key and time; otherwise as `put_many`."""
        self._change(keys, entries, lambda old, fresh: merge_entries([old, fresh], self.layout))

    def delete_many(self, keys: Sequence[bytes], key: npt.NDArray[np.int64], time: Ticks) -> None:
        """Delete the entries at these pairs of key number and time; missing pairs are not an error."""
        order = np.lexsort((time, key))
        self._change(
            keys, Entries(key[order], (time[order],)), lambda old, gone: old.take(~contains(gone, old))
        )

    def _change(
        self, keys: Sequence[bytes], places: Entries, changed: Callable[[Entries, Entries], Entries]
    ) -> None:
        """Change the pages that hold places; `changed` returns their entries, given those that are stored and the places."""
        numbers = places.time // self.segment_ticks
        for segment in np.unique(numbers).tolist():
            here = places.take(numbers == segment)
            touched, local = np.unique(here.key, return_inverse=True)
            names, here = [keys[n] for n in touched.tolist()], Entries(local, here.columns)
            pages = self.pages(segment, names, np.arange(len(names)))
            pages = pages.take(np.unique(pages.holding(here.key, here.time)))
            maybe = np.zeros(len(names), bool)
            maybe[self._present(segment, names)] = True
            old = self.read(segment, names, pages.take(maybe[pages.key]))
            self.write(segment, names, pages, changed(old, here))

    def scan(self, start: int = TIME_MIN, end: int = TIME_MAX) -> Iterator[tuple[list[bytes], Entries]]:
        """Yield keys and entries with start <= time <= end, segment by segment in order of time, as `scan_segment` does."""
        for segment in self._segments_between(start, end):
            for keys, entries in self.scan_segment(segment):
                yield keys, entries.take((entries.time >= start) & (entries.time <= end))

    def scan_segment(self, segment: int) -> Iterator[tuple[list[bytes], Entries]]:
        """Yield the keys and entries of one segment, some MiB at a time, each key once. The store is not changed meanwhile."""
        self._complete_directory(segment)
        if not self._directory.has_further(segment):
            yield from self.scan_pages(segment)
            return
        keys = self.keys(segment)
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[begin : begin + _KEYS_AT_ONCE]
            yield some, self.fetch_segment(segment, some)

    def scan_pages(self, segment: int) -> Iterator[tuple[list[bytes], Entries]]:
        """Yield the names and entries of one segment's pages, a few MiB at a time. The store is not changed meanwhile."""
        for names, pages in self._staged.scan(segment):
            self._note_names(segment, names)
            columns, counts = self._staged.decode(self.layout, pages)
            yield names, Entries(np.repeat(np.arange(len(names)), counts), tuple(columns))
        if not self._staged.changes:
            self._directory.know(segment)

    def _note_names(self, segment: int, names: Collection[bytes]) -> None:
        """Note pages that are stored."""
        self.usage.record_scan(segment, self._directory.note(segment, names))

    def note_keys(self, segment: int) -> None:
        """Note the keys of a segment that was filled from outside and is not scanned. O(pages), 0.5 us each."""
        for names in self.backend.scan_keys(segment):
            self._note_names(segment, names)
        self._directory.forget(segment, self._staged.changes.deletes.get(segment, ()))
        self._directory.know(segment)

    def keys(self, segment: int) -> list[bytes]:
        """Return the keys that have entries in the segment."""
        return distinct_keys([name for names, _ in self._staged.scan(segment) for name in names])[0]

    def expire(self, before: int) -> None:
        """Drop every segment whose entries are all older than `before`. O(segments)."""
        old = list(takewhile(lambda segment: self.latest_of(segment) < before, self.segments()))
        if old:
            edge = old[-1] + 1
            self._staged.drop_segments_below(edge)
            self._directory.forget_before(edge)
            self._latest = {segment: latest for segment, latest in self._latest.items() if segment >= edge}

    def changed_outside(self) -> None:
        """Forget what is staged, and what is known of pages: someone else wrote to the backend."""
        self._staged.clear()
        self._latest.clear()
        self._directory.clear()
        self.usage.clear_keys()

    def _without_pages(self, segment: int, gone: Set[bytes]) -> list[bytes]:
        """Return those of the keys of deleted pages that have no other page in the segment. O(deleted pages)."""
        keys, _ = distinct_keys(list(gone))
        if self._directory.has_further(segment):
            numbers = {*self._directory.further(segment, keys)[0].tolist()}
            keys = [key for number, key in enumerate(keys) if number not in numbers]
        # Of those whose first page is not among the deleted ones, it may be left.
        unsure = [key for key in keys if key not in gone]
        pages = self._staged.get(segment, unsure)[0] if unsure else []
        left = {key for key, page in zip(unsure, pages, strict=True) if page is not None}
        return [key for key in keys if key not in left] if left else keys

    def peek(self, segment: int) -> tuple[list[bytes], Entries]:
        """Return the names and entries of a segment's pages, and note nothing."""
        parts = list(self._staged.scan(segment))
        names = [name for some, _ in parts for name in some]
        columns, counts = self._staged.decode(self.layout, [page for _, pages in parts for page in pages])
        return names, Entries(np.repeat(np.arange(len(names)), counts), tuple(columns))

    def check(self) -> None:
        """Raise AssertionError if what memory knows does not agree with the pages: between batches. O(entries), for tests."""
        names = {n: list(chain.from_iterable(self.backend.scan_keys(n))) for n in self.backend.segments()}
        staged = {segment: self.peek(segment) for segment in self.segments()}
        self._directory.check(names, {segment: found for segment, (found, _) in staged.items()})
        noted = {n: keys_of(found) for n, found in names.items() if self._directory.knows_keys(n)}
        self.usage.check(self.backend, {} if self._staged.changes else noted)
        for segment, (_, entries) in staged.items():
            if (entries.time > self.latest_of(segment)).any():
                raise AssertionError(f"segment {segment} has entries after {self.latest_of(segment)}")

    def is_empty(self) -> bool:
        """Return whether the store holds no entry at all. O(segments), unless many pages were just deleted."""
        return self._staged.is_empty()

    def drain_changes(self) -> WriteBatch:
        """Return what has changed since the last call, to be written to the backend, and clear it here."""
        changes = self._staged.changes
        if changes.drop_segments_below is not None:
            self.usage.drop_segments_below(changes.drop_segments_below)
            self._directory.drop_segments_below(changes.drop_segments_below)
        self._renew_index()
        segments = {*changes.puts, *changes.deletes}
        changes.puts = {segment: pages for segment, pages in changes.puts.items() if pages}
        if changes.puts and not self.backend.resident:
            changes.logged = LoggedPages({}, {})
        for segment in segments:
            self._record_changes(segment, changes)
        changes.deletes = {segment: names for segment, names in changes.deletes.items() if names}
        self._staged.clear()
        return changes

    def forget_reads(self) -> None:
        """Forget what was read since changes were drained, before they are written to the backend."""
        self._staged.forget_reads()

    def _renew_index(self) -> None:
        """Build the index again once it holds more than twice as many keys as there are pages.

        It holds keys that have gone while their segment stayed. O(pages), after at least as many keys came or went.
        """
        known = self._directory.outgrown(max(_FEW_NOTED, 2 * self.usage.pages))
        if known and all(number in known for number in self._staged.stored()):
            self.usage.clear_keys()  # All of them are about to be noted.
        for segment in known:
            self.note_keys(segment)

    def _record_changes(self, segment: int, changes: WriteBatch) -> None:
        """Record what changes in a segment, also for the changelog, and leave out deletes of pages that are not stored."""
        puts, deletes = changes.puts.get(segment, {}), list(changes.deletes.get(segment, ()))
        names = [*puts, *deletes]
        old = self._staged.before(segment, names, self._directory.may_store(segment, names))
        stored = [page is not None for page in old[len(puts) :]]
        gone = changes.deletes[segment] = set(compress(deletes, stored))
        # Also of those that are not stored: a scan may have noted them while they were staged.
        without = self._without_pages(segment, {*deletes}) if deletes else []
        fresh = self.usage.record_writes(segment, puts, gone, old, without)
        self._directory.note_keys(segment, fresh)
        self._staged.log(self.layout, segment, old[: len(puts)])
