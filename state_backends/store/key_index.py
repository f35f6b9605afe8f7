"""Which segments have a page of a key, as far as a worker's memory can know it in a few bytes for each key.

A backend takes about a microsecond to find that a page is not there, and a batch of scattered keys asks for ten such pages for
each that is there. The index answers that for all segments at once. It may say that there is a page where there is none: two
keys may have the same hash, segments that are 32 apart share a bit, and a page may be deleted. It never says the opposite.
A key is forgotten with the last of its segments. As a segment may stay for ever while keys come and go, the store builds the
index again from time to time.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import compress

import numpy as np
import numpy.typing as npt

from state_backends.store.agreement import agree

Hashes = npt.NDArray[np.uint32]
Bits = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.bool_]
_WIDTH = 32
_FEWEST_BITS = 10
_MOST_FULL, _AS_GROWN = 0.6, 0.4
_AT_ONCE = 1 << 18


def hashes(keys: Iterable[bytes]) -> Hashes:
    """Return a hash of each key, never 0. The same key has another one in another process."""
    wide = np.fromiter(map(hash, keys), np.int64)
    return np.maximum(wide.view(np.uint64) >> np.uint64(_WIDTH), 1).astype(np.uint32)


class KeyIndex:
    """The segments of each key, by 32 bits of the key's hash: 8 bytes a place, 13 to 20 bytes a key.

    A segment is known if all its pages have been noted. Of other segments the index says nothing.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._allocate(_FEWEST_BITS)

    def _allocate(self, bits: int) -> None:
        self._shift = np.uint32(_WIDTH - bits)
        self._hash: Hashes = np.zeros(1 << bits, np.uint32)
        self._bits: Bits = np.zeros(1 << bits, np.uint32)
        self._used = 0

    def __contains__(self, segment: int) -> bool:
        """Whether the segment is known."""
        return segment in self._known

    def __len__(self) -> int:
        """How many keys take up space, those among them whose segments were dropped."""
        return self._used

    @property
    def known(self) -> list[int]:
        """The segments that are known."""
        return sorted(self._known)

    def know(self, segment: int) -> None:
        """All pages of this segment have been noted."""
        self._known.add(segment)

    def note(self, segment: int, found: Hashes) -> None:
        """Note that keys with these hashes have a page in the segment. O(keys), 0.1 us each."""
        for begin in range(0, len(found), _AT_ONCE):
            some = found[begin : begin + _AT_ONCE]
            self._reserve(len(some))
            self._bits[self._insert(some)] |= _bit(segment)

    def segments(self, wanted: Hashes) -> Bits:
        """Return the segments of keys with these hashes, as bits for `has`. O(keys), 0.1 us each."""
        found = np.zeros(len(wanted), np.uint32)
        rows, place = np.arange(len(wanted)), (wanted >> self._shift).astype(np.int64)
        last = len(self._hash) - 1
        while len(rows):
            here = self._hash[place]
            same = here == wanted[rows]
            found[rows[same]] = self._bits[place[same]]
            further = ~same & (here != 0)
            rows, place = rows[further], (place[further] + 1) & last
        return found

    def has(self, segment: int, bits: Bits) -> Mask:
        """Return which keys may have a page in a known segment, from what `segments` returned for them."""
        return (bits & _bit(segment)) != 0

    def drop_segments_below(self, segment: int) -> None:
        """Note that there is no page in an earlier segment. O(places), a millisecond for each million."""
        dropped = {number for number in self._known if number < segment}
        self._known -= dropped
        kept = _join(self._known)
        gone = _join(dropped) & ~kept
        if gone:
            self._bits &= ~gone

    def clear(self) -> None:
        """Forget everything."""
        self.__init__()  # type: ignore[misc]

    def forget_dropped(self) -> None:
        """Free the space of keys whose segments were dropped. O(places), some 10 ms for each million."""
        self._resize(0)

    def check(self, keys: Mapping[int, Collection[bytes]]) -> None:
        """Raise AssertionError if it misses a key.

        Args:
            keys: the keys of the pages that the backend has, by segment.
        """
        live = np.flatnonzero(self._hash)
        agree("places that keys take up", self._used, len(live))
        agree("places of keys", self._bits[live].tolist(), self.segments(self._hash[live]).tolist())
        for segment in self._known:
            held = list(keys.get(segment, ()))
            found = self.has(segment, self.segments(hashes(held)))
            agree(f"keys of segment {segment}", list(compress(held, found)), held)

    def _reserve(self, more: int) -> None:
        """Make place for more keys."""
        if self._used + more > _MOST_FULL * len(self._hash):
            self._resize(more)

    def _resize(self, more: int) -> None:
        """Allocate as much as the keys that have a page need, and more keys."""
        live = np.flatnonzero(self._bits)
        old, bits = self._hash[live], self._bits[live]
        del live
        self._allocate(max(_FEWEST_BITS, int((len(old) + more) / _AS_GROWN).bit_length()))
        for begin in range(0, len(old), _AT_ONCE):
            some = slice(begin, begin + _AT_ONCE)
            self._bits[self._insert(old[some])] |= bits[some]

    def _insert(self, found: Hashes) -> npt.NDArray[np.int64]:
        """Return the place of each hash, which may be a new one."""
        places = np.empty(len(found), np.int64)
        rows, place = np.arange(len(found)), (found >> self._shift).astype(np.int64)
        last = len(self._hash) - 1
        while len(rows):
            here, wanted = self._hash[place], found[rows]
            free = here == 0
            # Of several that want one free place, the last one gets it, and the others go on behind it.
            self._hash[place[free]] = wanted[free]
            done = self._hash[place] == wanted
            self._used += int(np.count_nonzero(free & done))
            places[rows[done]] = place[done]
            rows, place = rows[~done], (place[~done] + 1) & last
        return places


def _bit(segment: int) -> np.uint32:
    return np.uint32(1 << (segment % _WIDTH))


def _join(segments: Iterable[int]) -> np.uint32:
    joined = np.uint32(0)
    for segment in segments:
        joined |= _bit(segment)
    return joined
