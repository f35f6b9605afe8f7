"""How much a store holds: pages, entries, bytes and keys, updated from what is read and written anyway."""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from serializers.pages import PageLayout
from state_backends.interface import StateBackend
from state_backends.store.agreement import agree
from state_backends.store.key_index import Hashes, hashes
from state_backends.store.page_ids import count_further, distinct_keys

_SAMPLED_KEYS = 2**14
_AT_ONCE = 2**14


class KeySample:
    """Which keys have pages: all while there are few, of many those whose hash ends in enough zeros.

    The count is exact up to 16,384 keys. Beyond, at least 8,192 of the most keys that there were are in the sample, so that
    the standard error is at most 1.1 % as long as keys do not become fewer. Each key takes about 100 bytes.
    """

    def __init__(self) -> None:
        self._mask = 0
        self._segments: dict[int, int] = {}
        """By hash, the segments in which the key has a page, as bits."""
        self._bits: dict[int, int] = {}
        """The bit of each segment."""

    def add(self, segment: int, found: Hashes) -> None:
        """Note that keys with these hashes have a page in the segment; they may be known already."""
        bit, held = self._bit(segment), self._segments
        for begin in range(0, len(found), _AT_ONCE):
            sampled = self._sample(found[begin : begin + _AT_ONCE])
            held.update([(h, held.get(h, 0) | bit) for h in sampled])
            while len(held) > _SAMPLED_KEYS:
                self._mask = 2 * self._mask + 1
                for h in [h for h in held if h & self._mask]:
                    del held[h]

    def remove(self, segment: int, gone: Hashes) -> None:
        """Note that keys with these hashes have no page in the segment."""
        self._without(self._sample(gone), self._bit(segment))

    def drop_segments_below(self, segment: int) -> None:
        """Note that no key has a page in an earlier segment. O(sampled keys) if there was such a segment."""
        dropped = [self._bits.pop(number) for number in [n for n in self._bits if n < segment]]
        if dropped:
            self._without(list(self._segments), sum(dropped))

    def clear(self) -> None:
        """Forget all pages."""
        self.__init__()  # type: ignore[misc]

    def _bit(self, segment: int) -> int:
        """The bit of a segment: the lowest one that no other has."""
        if segment not in self._bits:
            taken = sum(self._bits.values())
            self._bits[segment] = ~taken & (taken + 1)
        return self._bits[segment]

    def _without(self, some: list[int], bits: int) -> None:
        held = self._segments
        for h in some:
            left = held.get(h, 0) & ~bits
            if left:
                held[h] = left
            else:
                held.pop(h, None)

    def check(self, segment: int, keys: Collection[bytes]) -> None:
        """Raise AssertionError if these are not the keys of a segment, as far as they are in the sample."""
        bit = self._bits.get(segment, 0)
        known = {h for h, bits in self._segments.items() if bits & bit}
        agree(f"sampled keys of segment {segment}", known, {*self._sample(hashes(keys))})

    def _sample(self, found: Hashes) -> list[int]:
        return found[(found & np.uint32(self._mask)) == 0].tolist()

    @property
    def keys(self) -> int:
        """How many distinct keys there are."""
        return len(self._segments) * (self._mask + 1)


@dataclass(slots=True)
class SegmentUsage:
    """What one segment holds: pages, entries, bytes, and how many of the pages are further ones of their keys."""

    layout: PageLayout
    pages: int = 0
    entries: int = 0
    size: int = 0
    further: int = 0

    @property
    def plain(self) -> list[int]:
        """The numbers, without those of further pages where there are none: older versions know no such pages."""
        held = [self.pages, self.entries, self.size]
        return [*held, self.further] if self.further else held

    def add(self, pages: Sequence[bytes], sign: int) -> int:
        """Add pages, or take them away; return their bytes."""
        size = sum(map(len, pages))
        self.pages += sign * len(pages)
        self.entries += sign * self.layout.count_rows(pages, size)
        self.size += sign * size
        return size


class Traffic(NamedTuple):
    """What went between a store and its backend."""

    pages_read: int
    pages_written: int
    bytes_written: int
    largest_page: int
    """Bytes of the largest page that was written; 0 if none was."""


class StoreUsage:
    """What a store holds, by segment, and how much was read and written since `drain_traffic`.

    Args:
        layout: the layout of the pages.
    """

    def __init__(self, layout: PageLayout) -> None:
        self._layout = layout
        self._segments: dict[int, SegmentUsage] = {}
        self._sample = KeySample()
        self._keys_before = 0
        self.keys_known = True
        """Whether the keys of all segments have been noted since the store was opened."""
        self.pages_read = 0
        self.pages_written = 0
        self.bytes_written = 0
        self.largest_page = 0

    @property
    def pages(self) -> int:
        """Pages that are stored."""
        return sum(segment.pages for segment in self._segments.values())

    def segment_bytes(self) -> dict[int, int]:
        """Return the bytes of the pages of each segment."""
        return {number: segment.size for number, segment in self._segments.items()}

    def pages_of(self, segment: int) -> int:
        """Return how many pages a segment has."""
        return self._segments[segment].pages if segment in self._segments else 0

    def further_of(self, segment: int) -> int:
        """Return how many pages of a segment are further ones of their keys."""
        return self._segments[segment].further if segment in self._segments else 0

    @property
    def entries(self) -> int:
        """Entries that are stored."""
        return sum(segment.entries for segment in self._segments.values())

    @property
    def size(self) -> int:
        """Bytes of the pages."""
        return sum(segment.size for segment in self._segments.values())

    @property
    def keys(self) -> int:
        """Distinct keys, as `KeySample` counts. While not all are known, at least as many as there were at the restart."""
        return self._sample.keys if self.keys_known else max(self._sample.keys, self._keys_before)

    def record_writes(
        self,
        segment: int,
        puts: Mapping[bytes, bytes],
        deletes: Set[bytes],
        old: list[bytes | None],
        gone: Collection[bytes],
    ) -> Hashes:
        """Record changes of one segment, and return the hashes of the keys of pages that did not exist.

        Args:
            segment: number of the segment.
            puts: the new pages by name.
            deletes: names of the pages that are deleted; each exists.
            old: the pages that those of `puts` replace, None where there was none, and those of `deletes`.
            gone: the keys that have no page in the segment any more.
        """
        usage = self._segments.setdefault(segment, SegmentUsage(self._layout))
        usage.add([page for page in old if page is not None], -1)
        self.bytes_written += usage.add(list(puts.values()), 1)
        self.pages_written += len(puts)
        self.largest_page = max(self.largest_page, max(map(len, puts.values()), default=0))
        added = _without_page(list(puts), old[: len(puts)])
        usage.further += count_further(added) - count_further(deletes)
        fresh = hashes(distinct_keys(added)[0])
        self._sample.add(segment, fresh)
        if gone:
            self._sample.remove(segment, hashes(gone))
        return fresh

    def drop_segments_below(self, segment: int) -> None:
        """Note that earlier segments are dropped."""
        for number in [number for number in self._segments if number < segment]:
            del self._segments[number]
        self._sample.drop_segments_below(segment)

    def record_scan(self, segment: int, found: Hashes) -> None:
        """Record the hashes of keys that a scan has found."""
        self._sample.add(segment, found)

    def clear_keys(self) -> None:
        """Forget all keys: a scan of the whole store follows."""
        self._sample.clear()

    def measure(self, backend: StateBackend) -> None:
        """Count all pages of a backend. O(pages)."""
        self._segments = {}
        for number in backend.segments():
            usage = self._segments[number] = SegmentUsage(self._layout)
            for names, pages in backend.scan(number):
                usage.add(pages, 1)
                usage.further += count_further(names)

    def check(self, backend: StateBackend, keys: Mapping[int, Collection[bytes]]) -> None:
        """Raise AssertionError if it does not agree with the pages that a backend has.

        Args:
            backend: has the pages.
            keys: that have pages, of the segments whose keys have been noted.
        """
        counted = StoreUsage(self._layout)
        counted.measure(backend)
        agree("pages, entries and bytes by segment", sorted(self.plain()), sorted(counted.plain()))
        for segment, names in keys.items():
            self._sample.check(segment, names)

    def drain_traffic(self) -> Traffic:
        """Return what was read and written since the last call."""
        traffic = Traffic(self.pages_read, self.pages_written, self.bytes_written, self.largest_page)
        self.pages_read = self.pages_written = self.bytes_written = self.largest_page = 0
        return traffic

    def plain(self) -> list[list[int]]:
        """Return what each segment holds as values that can be packed."""
        return [[number, *usage.plain] for number, usage in self._segments.items() if usage.pages]

    def load(self, plain: Any, keys: int) -> None:
        """Restore what `plain` returned, and how many keys there were then."""
        self._keys_before = keys
        self._segments = {number: SegmentUsage(self._layout, *held) for number, *held in plain}


def _without_page(keys: list[bytes], pages: list[bytes | None]) -> list[bytes]:
    """The keys that have no page."""
    missing = pages.count(None)
    if missing in (0, len(keys)):
        return keys if missing else []
    return [key for key, page in zip(keys, pages, strict=True) if page is None]
