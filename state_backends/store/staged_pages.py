"""The pages of a backend as they are once the changes of a batch are written."""

from collections.abc import Iterable, Iterator, Sequence, Set

from serializers.edits import pages_to_log
from serializers.pages import Column, PageLayout
from state_backends.chunks import Chunk
from state_backends.errors import pages_of_copy
from state_backends.interface import StateBackend, WriteBatch
from state_backends.store.page_ids import Ints


class StagedPages:
    """The pages of a backend, and the changes of a batch over them, in memory until they are drained.

    Args:
        backend: where the pages are.
    """

    def __init__(self, backend: StateBackend) -> None:
        self._backend = backend
        self.changes = WriteBatch()
        self._read: dict[int, list[tuple[Sequence[bytes], list[bytes | None]]]] = {}
        """What was read from the backend since changes were last drained."""
        self._stored: set[int] | None = None
        """The backend's segments, if they were read since then."""

    def segments(self) -> list[int]:
        """Return the numbers of the segments that may have pages, ascending."""
        kept = [number for number in self._backend.segments() if self._is_kept(number)]
        return sorted({*kept, *(number for number, pages in self.changes.puts.items() if pages)})

    def decode(self, layout: PageLayout, pages: Sequence[bytes]) -> tuple[list[Column], Ints]:
        """Return the entries of pages, as the layout does.

        Raises:
            DamagedCopyError: a page of a local copy is damaged.
            CorruptDataError: one is that the journal has.
        """
        with pages_of_copy(resident=self._backend.resident):
            return layout.decode(pages)

    def log(self, layout: PageLayout, segment: int, old: Sequence[bytes | None]) -> None:
        """Have the changelog get less than all pages that were put in a segment, where `logged` is kept.

        Args:
            layout: the layout of the pages.
            segment: number of the segment.
            old: the page of each of them before, None where there was none.

        Raises:
            DamagedCopyError, CorruptDataError: as for `decode`.
        """
        puts, logged = self.puts(segment), self.changes.logged
        if puts and logged is not None:
            with pages_of_copy(resident=self._backend.resident):
                logged.whole[segment], logged.edits[segment] = pages_to_log(layout, puts, old)

    def puts(self, segment: int) -> dict[bytes, bytes]:
        """Return the pages that the batch has put in a segment, by name."""
        return self.changes.puts.get(segment, {})

    def exists(self, segment: int) -> bool:
        """Whether the segment may have pages."""
        return self.is_stored(segment) or bool(self.puts(segment))

    def is_stored(self, segment: int) -> bool:
        """Whether the backend has the segment, and will have it after this batch."""
        return segment in self._segments_stored() and self._is_kept(segment)

    def stored(self) -> list[int]:
        """Return the segments that the backend has, and will have after this batch."""
        return [number for number in self._segments_stored() if self._is_kept(number)]

    def _is_kept(self, segment: int) -> bool:
        return self.changes.drop_segments_below is None or segment >= self.changes.drop_segments_below

    def _segments_stored(self) -> set[int]:
        """The backend's segments; it is asked once until changes are drained."""
        if self._stored is None:
            self._stored = set(self._backend.segments())
        return self._stored

    def get(self, segment: int, names: Sequence[bytes]) -> tuple[list[bytes | None], int]:
        """Return pages, None for each that there is not, and how many were found in the backend."""
        pages: list[bytes | None] = [None] * len(names)
        found = 0
        if self.is_stored(segment):
            pages = self._backend.get_many(segment, names)
            self._read.setdefault(segment, []).append((names, pages))
            found = len(names) - pages.count(None)
        deletes, puts = self.changes.deletes.get(segment), self.puts(segment)
        if deletes:
            pages = [None if name in deletes else page for name, page in zip(names, pages, strict=True)]
        if puts:
            pages = [puts.get(name, page) for name, page in zip(names, pages, strict=True)]
        return pages, found

    def put(self, segment: int, pages: Iterable[tuple[bytes, bytes]], gone: Iterable[bytes]) -> None:
        """Put pages by name, and delete those that are gone, which need not exist."""
        puts = self.changes.puts.setdefault(segment, {})
        deletes = self.changes.deletes.setdefault(segment, set())
        for name in gone:
            puts.pop(name, None)
            deletes.add(name)
        named = dict(pages)
        deletes.difference_update(named)
        puts.update(named)

    def before(self, segment: int, names: Sequence[bytes], maybe: Sequence[int]) -> list[bytes | None]:
        """Return pages as the backend has them. Those that the batch has read are not read again.

        Args:
            segment: number of the segment.
            names: n names.
            maybe: positions of the names that the backend may have.
        """
        pages: list[bytes | None] = [None] * len(names)
        if not self.is_stored(segment):
            return pages
        reads = self._read.get(segment, [])
        if len(reads) == 1 and reads[0][0] == names:
            return reads[0][1]
        known = {name: page for read, found in reads for name, page in zip(read, found, strict=True)}
        unread = [names[number] for number in maybe if names[number] not in known]
        if unread:
            known.update(zip(unread, self._backend.get_many(segment, unread), strict=True))
        for number in maybe:
            pages[number] = known[names[number]]
        return pages

    def scan(self, segment: int) -> Iterator[Chunk]:
        """Yield names and pages of the segment: what is stored and not changed since, then what is staged."""
        puts, gone = self.puts(segment), self.changes.deletes.get(segment, set())
        if self._is_kept(segment):
            changed = {*puts, *gone}
            for names, pages in self._backend.scan(segment):
                kept = _without(changed, names, pages) if changed else (names, pages)
                if kept[0]:
                    yield kept
        if puts:
            yield list(puts), list(puts.values())

    def is_empty(self) -> bool:
        """Return whether there is no page at all. O(segments), unless many pages were just deleted."""
        return not any(self._holds(segment) for segment in self.segments())

    def _holds(self, segment: int) -> bool:
        if self.puts(segment):
            return True
        gone = self.changes.deletes.get(segment, set())
        return any(name not in gone for name, _ in self._backend.iterate(segment))

    def drop_segments_below(self, segment: int) -> None:
        """Drop all earlier segments."""
        changes = self.changes
        changes.drop_segments_below = (
            segment if changes.drop_segments_below is None else max(segment, changes.drop_segments_below)
        )
        for staged in (changes.puts, changes.deletes):
            for number in [number for number in staged if number < segment]:
                del staged[number]

    def forget_reads(self) -> None:
        """Forget what was read: the backend is about to be changed."""
        self._read, self._stored = {}, None

    def clear(self) -> None:
        """Forget the changes: they were written, or the backend was changed otherwise."""
        self.changes = WriteBatch()
        self.forget_reads()


def _without(gone: Set[bytes], names: list[bytes], pages: list[bytes]) -> Chunk:
    """The names that are not gone, and their pages."""
    kept = [(name, page) for name, page in zip(names, pages, strict=True) if name not in gone]
    return [name for name, _ in kept], [page for _, page in kept]
