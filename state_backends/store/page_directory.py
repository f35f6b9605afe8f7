"""Where pages are, as far as memory can know it: which keys have any in a segment, and which further ones those have.

Nothing of it is stored: the names of pages say it all. It is filled by what is written and scanned.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from state_backends.store.agreement import agree
from state_backends.store.key_index import Bits, Hashes, KeyIndex, hashes
from state_backends.store.page_ids import Ints, Mask, PageIds, distinct_keys, further_starts, keys_of
from state_backends.store.rows_by_key import RowsByKey


class PageDirectory:
    """The segments of each key, and the starts of its further pages: 8 bytes a page, and some 130 for each key that has any.

    Of the segments of keys it knows what the backend has; of further pages also those that are staged. It is right for
    segments of which all pages have been noted; a segment may be known for one and not for the other.
    """

    def __init__(self) -> None:
        self._index = KeyIndex()
        self._starts = RowsByKey(1)
        self._complete: set[int] = set()

    def __len__(self) -> int:
        """How many keys take up space in the index, those among them whose segments were dropped."""
        return len(self._index)

    def knows_keys(self, segment: int) -> bool:
        """Whether all keys of the segment have been noted."""
        return segment in self._index

    def knows_further(self, segment: int) -> bool:
        """Whether all further pages of the segment have been noted."""
        return segment in self._complete

    def know(self, segment: int) -> None:
        """All pages of the segment have been noted."""
        self._index.know(segment)
        self._complete.add(segment)

    def know_further(self, segment: int) -> None:
        """All further pages of the segment have been noted."""
        self._complete.add(segment)

    def locate(self, keys: Iterable[bytes]) -> Bits:
        """Return where keys have pages, for all segments at once, for `may_have`. O(keys), 0.1 us each."""
        return self._index.segments(hashes(keys))

    def may_have(self, segment: int, keys: Sequence[bytes], located: Bits) -> Mask:
        """Return which keys may have pages in a segment whose keys it knows."""
        found = self._index.has(segment, located)
        return found | self._starts.has(segment, keys) if segment in self._starts else found

    def may_store(self, segment: int, names: Sequence[bytes]) -> list[int]:
        """Return the positions of the pages that the backend may have."""
        if segment not in self._index:
            return list(range(len(names)))
        return np.flatnonzero(self._index.has(segment, self.locate(keys_of(names)))).tolist()

    def has_further(self, segment: int) -> bool:
        """Whether any key is known to have further pages in the segment."""
        return segment in self._starts

    def further(self, segment: int, keys: Sequence[bytes]) -> tuple[Ints, Ints]:
        """Return of each further page the position of its key in `keys`, and its start; sorted by both."""
        owner, starts = self._starts.rows(segment, keys)
        return owner, starts[:, 0]

    def note(self, segment: int, names: Collection[bytes]) -> Hashes:
        """Note pages that the backend has, and return the hashes of their keys."""
        found = hashes(distinct_keys(names)[0])
        self.note_keys(segment, found)
        self._note_further(segment, names)
        return found

    def note_keys(self, segment: int, found: Hashes) -> None:
        """Note keys that have pages in the backend, by their hashes."""
        self._index.note(segment, found)

    def _note_further(self, segment: int, names: Collection[bytes]) -> None:
        keys, number, start = further_starts(names)
        if keys:
            self._starts.add(segment, keys, number, start[:, None])

    def forget(self, segment: int, names: Collection[bytes]) -> None:
        """Note that further pages are gone. First pages are not told apart from others of their keys, and stay."""
        if segment in self._starts:
            keys, number, start = further_starts(names)
            if keys:
                self._starts.remove(segment, keys, number, start)

    def write(self, segment: int, keys: Sequence[bytes], written: PageIds, gone: PageIds) -> None:
        """Note that pages are staged, and others are to be deleted."""
        if written.further.any():
            owners, number, start = _further(keys, written)
            self._starts.add(segment, owners, number, start[:, None])
        if gone.further.any():
            self._starts.remove(segment, *_further(keys, gone))

    def forget_before(self, segment: int) -> None:
        """Forget the further pages of earlier segments, which are to be dropped."""
        self._starts.drop_segments_below(segment)
        self._complete = {number for number in self._complete if number >= segment}

    def drop_segments_below(self, segment: int) -> None:
        """Note that the backend has no earlier segments any more. What is staged in them stays noted."""
        self._index.drop_segments_below(segment)

    def clear(self) -> None:
        """Forget everything."""
        self._index.clear()
        self._starts.clear()
        self._complete.clear()

    def check(self, stored: Mapping[int, Collection[bytes]], staged: Mapping[int, Collection[bytes]]) -> None:
        """Raise AssertionError if it does not agree with the pages.

        Args:
            stored: names of the pages that the backend has, by segment.
            staged: names of those that it will have after the batch.
        """
        self._index.check({segment: keys_of(names) for segment, names in stored.items()})
        for segment, names in staged.items():
            held = self._starts.keys(segment)
            owner, start = self.further(segment, held)
            known = {(held[n], begin) for n, begin in zip(owner.tolist(), start.tolist(), strict=True)}
            keys, number, begins = further_starts(names)
            found = {(keys[n], begin) for n, begin in zip(number.tolist(), begins.tolist(), strict=True)}
            if segment not in self._complete:
                found &= known
            agree(f"further pages of segment {segment}", known, found)

    def outgrown(self, most: int) -> list[int]:
        """Return the segments to scan again because more keys than `most` are noted, after they were forgotten; or none."""
        if len(self._index) <= most:
            return []
        self._index.forget_dropped()
        if len(self._index) <= most:
            return []
        known = self._index.known
        self._index.clear()
        return known


def _further(keys: Sequence[bytes], pages: PageIds) -> tuple[list[bytes], Ints, Ints]:
    """What `further_starts` returns of the names of pages: the keys of further ones, and of each its key and its start."""
    further = pages.take(pages.further)
    owners, number = np.unique(further.key, return_inverse=True)
    return [keys[owner] for owner in owners.tolist()], number, further.start
