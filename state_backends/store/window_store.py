"""The timestamped window store: entries by key and time, in columns, over the pages of a backend.

An entry is a key, a time in ticks and the columns of the layout. Time is cut into segments; a page holds one key's entries
of one segment, sorted by time. Changes are kept in memory until `drain_changes`; reads see them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from itertools import compress
from typing import cast

import numpy as np
import numpy.typing as npt

from serializers.edits import pages_to_log
from serializers.pages import PageLayout
from state_backends.chunks import Chunk
from state_backends.interface import LoggedPages, StateBackend, WriteBatch
from state_backends.store.entries import Entries, Ticks, contains, merge_entries, run_lengths
from state_backends.store.key_index import Bits, KeyIndex, hashes
from state_backends.store.usage import StoreUsage

TIME_MIN, TIME_MAX = -(2**63), 2**63 - 1
_FEW_NOTED = 1 << 14
"""Keys that the index may hold for pages that are gone, however few there are: 300 kB."""


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
        """Called with what `replace_segment` writes. All writes go through it."""
        self.usage = StoreUsage(layout)
        """How much is stored, and how many pages were read and written."""
        self._staged = WriteBatch()
        self._latest: dict[int, int] = {}
        self._read: dict[int, list[tuple[Sequence[bytes], list[bytes | None]]]] = {}
        """What was read from the backend since changes were last drained."""
        self._stored: set[int] | None = None
        """The backend's segments, if they were read since then."""
        self._index = KeyIndex()
        """Where the backend has pages; what is staged is not in it."""

    def segment_of(self, time: int) -> int:
        """Return the number of the segment that holds the time."""
        return time // self.segment_ticks

    def segments(self) -> list[int]:
        """Return the numbers of the segments that may hold entries, ascending."""
        drop = self._staged.drop_before
        kept = [n for n in self.backend.segments() if drop is None or n >= drop]
        return sorted({*kept, *(n for n, pages in self._staged.puts.items() if pages)})

    def locate(self, keys: Sequence[bytes]) -> Bits:
        """Return where keys have pages, for all segments at once, for `may_have`. O(keys), 0.1 us each."""
        return self._index.segments(hashes(keys))

    def may_have(self, segment: int, keys: Sequence[bytes], located: Bits) -> npt.NDArray[np.bool_]:
        """Return which keys may have a page in one segment; the others have none.

        Args:
            segment: number of the segment.
            keys: n keys.
            located: what `locate` returned for them; the backend was not written since.
        """
        if segment not in self._index:
            return np.ones(len(keys), bool)
        found = self._index.has(segment, located)
        puts = self._staged.puts.get(segment)
        if puts:
            found |= np.fromiter(map(puts.__contains__, keys), bool, len(keys))
        return found

    def fetch_segment(self, segment: int, keys: Sequence[bytes], *, located: bool = False) -> Entries:
        """Return all entries of the keys in one segment. One backend call; O(entries) array work.

        Args:
            segment: number of the segment.
            keys: distinct keys.
            located: whether `may_have` was true for all of them, so that the index need not be asked again.
        """
        if located or segment not in self._index:
            return self._fetch_pages(segment, keys)
        numbers = np.flatnonzero(self.may_have(segment, keys, self.locate(keys)))
        found = self._fetch_pages(segment, [keys[n] for n in numbers.tolist()])
        return Entries(numbers[found.key], found.columns)

    def _fetch_pages(self, segment: int, keys: Sequence[bytes]) -> Entries:
        pages, numbers = self._pages(segment, keys), np.arange(len(keys))
        if None in pages:
            numbers = np.array([number for number, page in enumerate(pages) if page is not None], np.int64)
            pages = [page for page in pages if page is not None]
        columns, counts = self.layout.decode(cast("list[bytes]", pages))
        return Entries(np.repeat(numbers, counts), tuple(columns))

    def _pages(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        staged = self._staged
        if not self._is_stored(segment):
            pages: list[bytes | None] = [None] * len(keys)
        else:
            pages = self.backend.get_many(segment, keys)
            self._read.setdefault(segment, []).append((keys, pages))
            self.usage.pages_read += len(keys) - pages.count(None)
        deletes, puts = staged.deletes.get(segment), staged.puts.get(segment)
        if deletes:
            pages = [None if key in deletes else page for key, page in zip(keys, pages, strict=True)]
        if puts:
            pages = [puts.get(key, page) for key, page in zip(keys, pages, strict=True)]
        return pages

    def replace_segment(self, segment: int, keys: Sequence[bytes], entries: Entries) -> None:
        """Replace all entries of the keys in the segment; the page of a key without entries is deleted.

        Args:
            segment: number of the segment that every entry's time falls in.
            keys: distinct keys; `entries.key` counts positions in it.
            entries: sorted by key, then by time.
        """
        present, counts = run_lengths(entries.key)
        pages = dict(
            zip([keys[n] for n in present.tolist()], self.layout.encode(entries.columns, counts), strict=True)
        )
        gone = {key for key in keys if key not in pages} if len(pages) < len(keys) else set()
        self._note_latest(segment, entries)
        staged_puts = self._staged.puts.setdefault(segment, {})
        staged_deletes = self._staged.deletes.setdefault(segment, set())
        for key in gone:
            staged_puts.pop(key, None)
        staged_deletes |= gone
        staged_deletes.difference_update(pages)
        staged_puts.update(pages)
        if self.on_write is not None:
            self.on_write(segment, keys, entries)

    def _note_latest(self, segment: int, entries: Entries) -> None:
        """Keep the latest time of segments that were empty when this store first wrote to them."""
        if not len(entries):
            return
        latest = int(entries.time.max())
        if segment in self._latest:
            self._latest[segment] = max(latest, self._latest[segment])
        elif not self._exists(segment):
            self._latest[segment] = latest
            self._index.know(segment)

    def _exists(self, segment: int) -> bool:
        """Whether the segment may hold entries."""
        return self._is_stored(segment) or bool(self._staged.puts.get(segment))

    def _is_stored(self, segment: int) -> bool:
        """Whether the backend has the segment, and will have it after this batch."""
        drop = self._staged.drop_before
        return segment in self._segments_stored() and (drop is None or segment >= drop)

    def _segments_stored(self) -> set[int]:
        """The backend's segments; it is asked once until changes are drained."""
        if self._stored is None:
            self._stored = set(self.backend.segments())
        return self._stored

    def _old_pages(self, segment: int, keys: list[bytes]) -> list[bytes | None]:
        """The pages of keys as they are stored. Those that the batch has read are not read again."""
        pages: list[bytes | None] = [None] * len(keys)
        if not self._is_stored(segment):
            return pages
        reads = self._read.get(segment, [])
        if len(reads) == 1 and reads[0][0] == keys:
            return reads[0][1]
        numbers = list(range(len(keys)))
        if segment in self._index:
            numbers = np.flatnonzero(self._index.has(segment, self.locate(keys))).tolist()
        if not numbers:
            return pages
        known = {key: page for names, found in reads for key, page in zip(names, found, strict=True)}
        unread = [keys[number] for number in numbers if keys[number] not in known]
        known.update(zip(unread, self.backend.get_many(segment, unread), strict=True))
        for number in numbers:
            pages[number] = known[keys[number]]
        return pages

    def fetch(self, key: bytes, start: int, end: int) -> Entries:
        """Return one key's entries with start <= time <= end."""
        return self.fetch_many([key], start, end)

    def fetch_many(self, keys: Sequence[bytes], start: int, end: int) -> Entries:
        """Return the entries of the keys with start <= time <= end, sorted by key number and time."""
        parts = [self.fetch_segment(segment, keys) for segment in self._segments_between(start, end)]
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
        self._write(keys, entries, lambda old, fresh: old.take(~contains(fresh, old)))

    def add_many(self, keys: Sequence[bytes], entries: Entries) -> None:
        """Add entries to those in the store, after those of the same key and time; otherwise as `put_many`."""
        self._write(keys, entries, lambda old, _: old)

    def _write(
        self, keys: Sequence[bytes], entries: Entries, kept_of: Callable[[Entries, Entries], Entries]
    ) -> None:
        numbers = entries.time // self.segment_ticks
        for segment in np.unique(numbers).tolist():
            fresh = entries.take(numbers == segment)
            touched, local = np.unique(fresh.key, return_inverse=True)
            names = [keys[n] for n in touched.tolist()]
            fresh = Entries(local, fresh.columns)
            old = self.fetch_segment(segment, names)
            kept = kept_of(old, fresh)
            self.replace_segment(segment, names, merge_entries([kept, fresh], self.layout))

    def delete_many(self, keys: Sequence[bytes], key: npt.NDArray[np.int64], time: Ticks) -> None:
        """Delete the entries at these pairs of key number and time; missing pairs are not an error."""
        numbers = time // self.segment_ticks
        for segment in np.unique(numbers).tolist():
            here = numbers == segment
            touched, local = np.unique(key[here], return_inverse=True)
            names = [keys[n] for n in touched.tolist()]
            old = self.fetch_segment(segment, names)
            gone = Entries(local, (time[here],))
            self.replace_segment(segment, names, old.take(~contains(gone, old)))

    def scan(self, start: int = TIME_MIN, end: int = TIME_MAX) -> Iterator[tuple[list[bytes], Entries]]:
        """Yield keys and entries with start <= time <= end, segment by segment in order of time, as `scan_segment` does."""
        for segment in self._segments_between(start, end):
            for keys, entries in self.scan_segment(segment):
                yield keys, entries.take((entries.time >= start) & (entries.time <= end))

    def scan_segment(self, segment: int) -> Iterator[tuple[list[bytes], Entries]]:
        """Yield the keys and entries of one segment, a few MiB at a time. The store is not changed meanwhile."""
        for keys, pages in self._scan_pages(segment):
            self._note_keys(segment, keys)
            columns, counts = self.layout.decode(pages)
            yield keys, Entries(np.repeat(np.arange(len(keys)), counts), tuple(columns))
        if not self._staged:
            self._index.know(segment)

    def _note_keys(self, segment: int, keys: Collection[bytes]) -> None:
        found = hashes(keys)
        self.usage.record_scan(segment, found)
        self._index.note(segment, found)

    def note_keys(self, segment: int) -> None:
        """Note the keys of a segment that was filled from outside and is not scanned. O(pages), 0.5 us each."""
        for keys in self.backend.scan_keys(segment):
            self._note_keys(segment, keys)
        self._index.know(segment)

    def keys(self, segment: int) -> list[bytes]:
        """Return the keys that have a page in the segment."""
        return [key for keys, _ in self._scan_pages(segment) for key in keys]

    def _scan_pages(self, segment: int) -> Iterator[Chunk]:
        """Yield keys and pages of the segment: what is stored and not changed since, then what is staged."""
        staged = self._staged
        puts, gone = staged.puts.get(segment, {}), staged.deletes.get(segment, set())
        if staged.drop_before is None or segment >= staged.drop_before:
            changed = {*puts, *gone}
            for keys, pages in self.backend.scan(segment):
                kept = _without(changed, keys, pages) if changed else (keys, pages)
                if kept[0]:
                    yield kept
        if puts:
            yield list(puts), list(puts.values())

    def expire(self, before: int) -> None:
        """Drop every segment whose entries are all older than `before`. O(segments)."""
        edge = None
        for segment in self.segments():
            if self._latest.get(segment, (segment + 1) * self.segment_ticks - 1) >= before:
                break
            edge = segment + 1
        if edge is None:
            return
        staged = self._staged
        staged.drop_before = edge if staged.drop_before is None else max(edge, staged.drop_before)
        for changes in (staged.puts, staged.deletes, self._latest):
            for segment in [n for n in changes if n < edge]:
                del changes[segment]

    def changed_outside(self, changes: Sequence[WriteBatch] | None) -> None:
        """Take note that the backend was written by someone else, and forget what is staged.

        Args:
            changes: what was written; None if anything may have changed.
        """
        self._staged = WriteBatch()
        self._read.clear()
        self._stored = None
        if changes is None:
            self._latest.clear()
            self._index.clear()
            self.usage.clear_keys()
        else:
            self.usage.record_replay(changes)
            self._note_replay(changes)
            for segment in {number for batch in changes for number in batch.puts}:
                self._latest.pop(segment, None)

    def _note_replay(self, changes: Sequence[WriteBatch]) -> None:
        for batch in changes:
            if batch.drop_before is not None:
                self._index.drop_before(batch.drop_before)
            for segment, pages in batch.puts.items():
                self._index.note(segment, hashes(pages))

    def is_empty(self) -> bool:
        """Return whether the store holds no entry at all. O(segments), unless many pages were just deleted."""
        return not any(self._holds(segment) for segment in self.segments())

    def _holds(self, segment: int) -> bool:
        if self._staged.puts.get(segment):
            return True
        gone = self._staged.deletes.get(segment, set())
        return any(key not in gone for key, _ in self.backend.iterate(segment))

    def drain_changes(self) -> WriteBatch:
        """Return what has changed since the last call, to be written to the backend, and clear it here."""
        changes = self._staged
        if changes.drop_before is not None:
            self.usage.drop_before(changes.drop_before)
            self._index.drop_before(changes.drop_before)
        self._renew_index()
        segments = {*changes.puts, *changes.deletes}
        changes.puts = {segment: pages for segment, pages in changes.puts.items() if pages}
        if changes.puts and not self.backend.resident:
            changes.logged = LoggedPages({}, {})
        for segment in segments:
            self._record_changes(segment, changes)
        changes.deletes = {segment: keys for segment, keys in changes.deletes.items() if keys}
        self._staged, self._read, self._stored = WriteBatch(), {}, None
        return changes

    def _renew_index(self) -> None:
        """Build the index again once it holds more than twice as many keys as there are pages.

        It holds keys that have gone while their segment stayed. O(pages), after at least as many keys came or went.
        """
        most = max(_FEW_NOTED, 2 * self.usage.pages)
        if len(self._index) <= most:
            return
        self._index.forget_dropped()
        if len(self._index) <= most:
            return
        known = self._index.known
        self._index.clear()
        if all(number in known for number in self._segments_stored() if self._is_stored(number)):
            self.usage.clear_keys()  # All of them are about to be noted.
        for segment in known:
            self.note_keys(segment)

    def _record_changes(self, segment: int, changes: WriteBatch) -> None:
        """Record what changes in a segment, also for the changelog, and leave out deletes of pages that are not stored."""
        puts, deletes = changes.puts.get(segment, {}), list(changes.deletes.get(segment, ()))
        old = self._old_pages(segment, [*puts, *deletes])
        stored = [page is not None for page in old[len(puts) :]]
        gone = changes.deletes[segment] = set(compress(deletes, stored))
        fresh = self.usage.record_writes(segment, puts, gone, old)
        self._index.note(segment, fresh)
        if puts and changes.logged is not None:
            whole, edits = pages_to_log(self.layout, puts, old[: len(puts)])
            changes.logged.whole[segment] = whole
            changes.logged.edits[segment] = edits


def _without(gone: Set[bytes], keys: list[bytes], pages: list[bytes]) -> Chunk:
    """The keys that are not gone, and their pages."""
    kept = [(key, page) for key, page in zip(keys, pages, strict=True) if key not in gone]
    return [key for key, _ in kept], [page for _, page in kept]
