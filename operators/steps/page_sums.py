"""Sums of whole pages, for steps with long windows over keys with many records.

If all windows of a step contain a page as a whole, the step reads its sum instead: it reads only the pages in which windows
begin or end. If all pages of a key in a segment are such pages, one sum of them will do.
"""

from collections.abc import Callable, Sequence

import numpy as np

from operators.columns.ranges import Ints, Mask, run_starts
from operators.steps.panes import PaneSchema
from serializers.pages import CODES
from state_backends import Entries, WindowStore
from state_backends.store.agreement import agree
from state_backends.store.entries import merge_entries, run_lengths
from state_backends.store.page_ids import PageIds
from state_backends.store.rows_by_key import RowsByKey

_MOST_BYTES = 64 << 20
"""Bytes of sums that are kept; beyond, those go of segments that were not read lately, and no others are added."""


class PageSums:
    """The combined panes of pages, and of all pages of a key in a segment, in memory until a page changes.

    Only keys with several pages in a segment have sums: a single page is read as fast as a sum is found. Sums with states of
    variable width are packed, so that functions of users, which may change the states that they get, get copies.

    Args:
        schema: the panes.
        store: has the pages.
        panes_of: returns the panes among stored entries.
    """

    def __init__(
        self, schema: PaneSchema, store: WindowStore, panes_of: Callable[[Entries], Entries]
    ) -> None:
        self._schema = schema
        self._store = store
        self._panes_of = panes_of
        self._codes = schema.layout.codes
        self._packs = schema.layout.has_objects
        width = 2 if self._packs else 1 + len(self._codes)
        self._pages = RowsByKey(width)
        """By page: its start, and the columns of its sum, or where the packed sum is in `_packed`."""
        self._keys = RowsByKey(width)
        """By key: 0, and the same of the sum of its pages."""
        self._packed: dict[int, list[bytes]] = {}
        """By segment the packed sums, those among them that were forgotten since."""
        self._packed_bytes = 0
        self._read: dict[int, int] = {}
        """The segments that have sums, and in which step each was last read; those that were read last come last."""
        self._step = 0

    @property
    def size(self) -> int:
        """Bytes of all sums."""
        return self._pages.size + self._keys.size + self._packed_bytes

    @staticmethod
    def has(pages: PageIds) -> Mask:
        """Return of which pages there are sums: those of keys with several pages."""
        return pages.further | ~pages.is_last

    def fetch(self, segment: int, keys: Sequence[bytes], pages: PageIds) -> list[Entries]:
        """Return the sums of pages that have any, as `has` says: a pane for each page with panes, or for all pages of a key.

        Cost: a page is read when its sum is requested for the first time.
        """
        self._note_read(segment)
        whole = _are_all(pages)
        parts = []
        if whole.any():
            parts.append(self._of_keys(segment, keys, pages.take(whole)))
        if not whole.all():
            parts.append(self._of_pages(segment, keys, pages.take(~whole)))
        self._trim(segment)
        return parts

    def knows(self, segment: int, keys: Sequence[bytes], numbers: Ints) -> bool:
        """Return whether the sums of all pages of each of these keys are there."""
        return segment in self._keys and bool(
            self._keys.has(segment, [keys[n] for n in numbers.tolist()]).all()
        )

    def of_known_keys(self, segment: int, keys: Sequence[bytes], numbers: Ints) -> Entries:
        """Return the sums of all pages of these keys, one for each, without a list of the pages."""
        self._note_read(segment)
        return self._known(segment, [keys[n] for n in numbers.tolist()], numbers)

    def of_pages(self, segment: int, keys: Sequence[bytes], pages: PageIds) -> Entries:
        """Return the sums of pages that have any, as `has` says: a pane for each page with panes."""
        self._note_read(segment)
        sums = self._of_pages(segment, keys, pages)
        self._trim(segment)
        return sums

    def _note_read(self, segment: int) -> None:
        """Note that this step reads the segment."""
        self._read.pop(segment, None)
        self._read[segment] = self._step

    def _known(self, segment: int, names: list[bytes], numbers: Ints) -> Entries:
        """The sums of keys, all of which have one."""
        owner, rows = self._keys.rows(segment, names)
        return self._entries(segment, numbers[owner], rows)

    def _of_keys(self, segment: int, keys: Sequence[bytes], pages: PageIds) -> Entries:
        """One pane for each key, of which these are all pages."""
        numbers, _ = run_lengths(pages.key)
        names = [keys[n] for n in numbers.tolist()]
        missing = ~self._keys.has(segment, names)
        if missing.any():
            sums = self._of_pages(segment, keys, pages.take(np.isin(pages.key, numbers[missing])))
            sums = self._schema.reduce(sums, np.flatnonzero(np.diff(sums.key, prepend=-1)))
            rows = self._rows(segment, np.zeros(len(sums), np.int64), sums)
            self._keys.add(segment, names, np.searchsorted(numbers, sums.key), rows)
        return self._known(segment, names, numbers)

    def _of_pages(self, segment: int, keys: Sequence[bytes], pages: PageIds) -> Entries:
        """One pane for each page."""
        numbers, _ = run_lengths(pages.key)
        names = [keys[n] for n in numbers.tolist()]
        owner, rows = self._pages.rows(segment, names)
        known = PageIds(pages.span, numbers[owner], rows[:, 0], rows[:, 0])
        missing = pages.take(~pages.among(known))
        wanted = np.flatnonzero(known.among(pages))
        found = self._entries(segment, known.key[wanted], rows[wanted])
        if not len(missing):
            return found
        panes = self._panes_of(self._store.read(segment, keys, missing))
        start = missing.start[missing.holding(panes.key, panes.time)]
        begins = run_starts(panes.key, start)
        sums = self._schema.reduce(panes, begins)
        self._pages.add(
            segment, names, np.searchsorted(numbers, sums.key), self._rows(segment, start[begins], sums)
        )
        return merge_entries([found, sums], self._schema.layout)

    def _rows(self, segment: int, first: Ints, sums: Entries) -> Ints:
        """The rows of sums, each with a first word."""
        if self._packs:
            held = self._packed.setdefault(segment, [])
            packed = self._schema.layout.encode(sums.columns, np.ones(len(sums), np.int64))
            self._packed_bytes += sum(map(len, packed))
            held += packed
            return np.stack([first, np.arange(len(held) - len(packed), len(held))], axis=1)
        columns = [
            np.ascontiguousarray(column, CODES[code]).view(np.int64)
            for column, code in zip(sums.columns, self._codes, strict=True)
        ]
        return np.stack([first, *columns], axis=1)

    def _entries(self, segment: int, key: Ints, rows: Ints) -> Entries:
        """The sums in rows."""
        if self._packs:
            held = self._packed.get(segment, [])
            columns, _ = self._schema.layout.decode([held[number] for number in rows[:, 1].tolist()])
        else:
            columns = [
                np.ascontiguousarray(rows[:, number]).view(CODES[code])
                for number, code in enumerate(self._codes, 1)
            ]
        return Entries(key, tuple(columns))

    def _trim(self, segment: int) -> None:
        """Drop sums while there are too many: of segments that the step before has not read, or else of the one just read.

        Steps read their segments in the same order. If the one that was not read for longest went, as in most caches, it would
        always be the one to be read next.
        """
        stale = [number for number, step in self._read.items() if step < self._step - 1]
        for number in (*stale, segment):
            if self.size <= _MOST_BYTES:
                return
            self._drop(number)

    def _drop(self, segment: int) -> None:
        """Drop the sums of a segment."""
        self._read.pop(segment, None)
        self._pages.remove_segment(segment)
        self._keys.remove_segment(segment)
        self._packed_bytes -= sum(map(len, self._packed.pop(segment, ())))

    def forget(self, segment: int, keys: Sequence[bytes], pages: PageIds) -> None:
        """Drop the sums of pages that were written."""
        if segment in self._pages:
            numbers, local = np.unique(pages.key, return_inverse=True)
            names = [keys[n] for n in numbers.tolist()]
            self._pages.remove(segment, names, local, pages.start)
            self._keys.remove_keys(segment, names)

    def check(self) -> None:
        """Raise AssertionError if a sum is not that of its pages: between batches. O(entries), for tests."""
        fresh = PageSums(self._schema, self._store, self._panes_of)
        for segment in [*self._read]:
            for held, of in ((self._pages, PageSums._of_pages), (self._keys, PageSums._of_keys)):
                keys = held.keys(segment)
                pages = self._store.pages(segment, keys, np.arange(len(keys)))
                pages = pages.take(self.has(pages))
                known, found = (of(sums, segment, keys, pages) for sums in (self, fresh))
                columns = zip((known.key, *known.columns), (found.key, *found.columns), strict=True)
                for one, other in columns:
                    agree(f"sums of segment {segment}", repr(one.tolist()), repr(other.tolist()))

    def end_step(self, segment: int) -> None:
        """Drop the sums of segments before this one, which no later step needs."""
        self._step += 1
        for number in [number for number in self._read if number < segment]:
            self._drop(number)

    def clear(self) -> None:
        """Drop all sums."""
        for segment in list(self._read):
            self._drop(segment)


def _are_all(pages: PageIds) -> Mask:
    """Which pages are of keys that have all their pages there: they follow one another from begin to end of the segment."""
    if not len(pages):
        return np.zeros(0, bool)
    begins = np.flatnonzero(np.diff(pages.key, prepend=-1))
    opens = pages.start == pages.span[0]
    opens[1:] |= (pages.key[1:] == pages.key[:-1]) & (pages.start[1:] == pages.last[:-1] + 1)
    whole = np.logical_and.reduceat(opens, begins)
    whole &= pages.is_last[np.append(begins[1:], len(pages)) - 1]
    return np.repeat(whole, np.diff(np.append(begins, len(pages))))
