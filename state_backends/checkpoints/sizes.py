"""How much a bucket's segments and keys hold, counted from its entries."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from state_backends.checkpoints.stored_bucket import EntryBatch


@dataclass(frozen=True, slots=True)
class SegmentSize:
    """What a segment of a bucket holds.

    Attributes:
        segment: its number.
        keys, panes: how many.
        size: bytes of keys and pages, before compression.
        oldest, newest: the first and the last time in it, in ticks.
    """

    segment: int
    keys: int
    panes: int
    size: int
    oldest: int
    newest: int

    @classmethod
    def of(cls, stored: EntryBatch) -> "SegmentSize":
        """Return what a batch of entries holds."""
        time = stored.columns[0]
        counts = len(stored.keys) - stored.again, len(time), stored.size
        return cls(stored.segment, *counts, int(time.min()), int(time.max()))

    def __add__(self, other: "SegmentSize") -> "SegmentSize":
        """Return what two batches hold together, each of whose keys was counted once."""
        return SegmentSize(
            self.segment,
            self.keys + other.keys,
            self.panes + other.panes,
            self.size + other.size,
            min(self.oldest, other.oldest),
            max(self.newest, other.newest),
        )


class SizeCount:
    """Counts what segments and keys hold. Memory: O(keys)."""

    def __init__(self) -> None:
        self._segments: dict[int, SegmentSize] = {}
        self._keys: dict[bytes, tuple[int, int]] = {}

    @property
    def segments(self) -> list[SegmentSize]:
        """What each segment holds, in the order of the segments' numbers."""
        return [self._segments[number] for number in sorted(self._segments)]

    @property
    def keys(self) -> int:
        """Number of distinct keys."""
        return len(self._keys)

    def add_segment(self, stored: EntryBatch) -> None:
        """Count a batch for its segment."""
        size = SegmentSize.of(stored)
        before = self._segments.get(stored.segment)
        self._segments[stored.segment] = size if before is None else before + size

    def add_keys(self, stored: EntryBatch) -> None:
        """Count a batch for its keys."""
        panes = np.bincount(stored.key, minlength=len(stored.keys)).tolist()
        for key, count, size in zip(stored.keys, panes, stored.sizes, strict=True):
            before = self._keys.get(key, (0, 0))
            self._keys[key] = before[0] + size, before[1] + count

    def largest(self, most: int) -> list[tuple[bytes, int, int]]:
        """Return the keys that hold the most bytes, largest first: each with its bytes and its panes."""
        found = heapq.nlargest(most, self._keys.items(), key=lambda item: item[1])
        return [(key, size, panes) for key, (size, panes) in found]


def segment_sizes(batches: Iterable[EntryBatch]) -> list[SegmentSize]:
    """Return what each segment of a bucket holds."""
    count = SizeCount()
    for stored in batches:
        count.add_segment(stored)
    return count.segments


def in_segments_of(length: int, sizes: Sequence[SegmentSize], own: int) -> Sequence[SegmentSize]:
    """Return the sizes of segments of another length: each is counted where it begins.

    Args:
        length: the length of the segments to return, in ticks.
        sizes: the sizes of the segments, by their numbers.
        own: their length in ticks.
    """
    if length == own:
        return sizes
    found: dict[int, SegmentSize] = {}
    for one in sizes:
        number = one.segment * own // length
        size = replace(one, segment=number)
        found[number] = found[number] + size if number in found else size
    return [found[number] for number in sorted(found)]
