"""The index of pages in a journal: the parts of each segment, and the slots of each part."""

import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from serializers.shapes import count, instance, int64
from state_backends.store.page_ids import FURTHER, count_further

SLOT_BYTES = 64 << 10
"""What a slot may hold on average, in bytes of keys and pages. One changed page rewrites its slot, so that smaller ones
save bytes; to fetch a blob from Spark takes as long as to decode about 10 KiB, so larger ones save calls."""
PART_BYTES, _PARTS = 4 * SLOT_BYTES, 8
"""A part takes no more keys once it has so many bytes, and the eighth part of those of all."""
_DEEPEST = 48
_SEED_BYTES = 16
HEAD = 9
"""Bytes of a key that say in which part it is."""
Pages = dict[bytes, bytes]


@dataclass(slots=True)
class Part:
    """A part of a segment, and those of its slots that have been read.

    Attributes:
        depth: binary logarithm of the number of slots.
        keys: number of keys.
        size: bytes of keys and pages.
        bits: one bit for each slot, set if the journal holds it.
        low: for a further part, the least that the keys in it may go on with behind 0xc1; None of the first part.
        high: for a further part, the greatest of these bytes that a key had.
        loaded: pages by number of the slot.
    """

    depth: int = 0
    keys: int = 0
    size: int = 0
    bits: bytearray = field(default_factory=lambda: bytearray(1))
    low: bytes | None = None
    high: bytes = b""
    loaded: dict[int, Pages] = field(default_factory=dict)

    def has(self, slot: int) -> bool:
        """Whether the journal holds a slot."""
        return bool(self.bits[slot >> 3] >> (slot & 7) & 1)

    def mark(self, slot: int, *, there: bool) -> None:
        """Note whether the journal holds a slot."""
        mask = 1 << (slot & 7)
        self.bits[slot >> 3] = self.bits[slot >> 3] | mask if there else self.bits[slot >> 3] & ~mask

    def slots(self) -> list[int]:
        """The slots that the journal holds. O(2**depth)."""
        return [slot for slot in range(1 << self.depth) if self.has(slot)]

    def needed_depth(self) -> int:
        """The depth at which slots are small enough; not deeper than the number of keys requires."""
        depth = self.depth
        while self.size > SLOT_BYTES << depth and self.keys > 1 << depth:
            depth += 1
        return depth


@dataclass(slots=True)
class Segment(Part):
    """A segment of the index: its first part, and the further ones in their order."""

    further: list[Part] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether it has no key."""
        return not self.keys and not self.further

    def parts(self) -> list[Part]:
        """All parts."""
        return [self, *self.further]

    def by_part(self, keys: Sequence[bytes]) -> dict[int, Sequence[int]]:
        """Return the numbers of the parts that keys are in, and the positions of each one's keys."""
        if not count_further(keys):
            return {0: range(len(keys))} if keys else {}
        lows = [part.low or b"" for part in self.further]
        positions: dict[int, list[int]] = {}
        for position, key in enumerate(keys):
            number = bisect_right(lows, key[1:HEAD]) if key[:1] == FURTHER else 0
            positions.setdefault(number, []).append(position)
        return {**positions}

    def note(self, keys: Sequence[bytes]) -> None:
        """Note the greatest beginning of keys that are put."""
        for number, positions in self.by_part(keys).items():
            if number:
                part = self.further[number - 1]
                part.high = max(part.high, *(keys[position][1:HEAD] for position in positions))

    def renew(self) -> None:
        """Begin a part for younger keys if the youngest one is large. The first of them takes all keys that are older."""
        if not self.further:
            self.further.append(Part(low=b""))
            return
        last = self.further[-1]
        if last.size > max(PART_BYTES, sum(part.size for part in self.further) // _PARTS):
            self.further.append(Part(low=last.high + b"\0"))


P = TypeVar("P", bound=Part)


@dataclass(slots=True)
class Index:
    """What the journal holds.

    Attributes:
        version: the version of the state.
        segments: the segments by number.
        seed: the seed of the hash of keys.
    """

    version: bytes | None = None
    segments: dict[int, Segment] = field(default_factory=dict)
    seed: bytes = field(default_factory=lambda: os.urandom(_SEED_BYTES))

    def plain(self) -> list[Any]:
        """Return the index as values that can be packed."""
        return [self.version, [_plain(*item) for item in self.segments.items()], self.seed]

    @classmethod
    def from_plain(cls, plain: Any) -> "Index":
        """Return the index that `plain` wrote.

        Raises:
            CorruptDataError, ValueError, TypeError, LookupError: it is not one.
        """
        version, segments, seed = plain
        if version is not None:
            instance(bytes, version)
        if len(instance(bytes, seed)) != _SEED_BYTES:
            raise ValueError(f"a seed of {len(seed)} bytes")
        return cls(version, {int64(number): _segment(*rest) for number, *rest in segments}, seed)


def slot_name(segment: int, part: Part, slot: int) -> str:
    """Return the name of a slot's blob."""
    of = "" if part.low is None else f".{part.low.hex()}"
    return f"slot-{segment}{of}-{part.depth}-{slot}"


def _plain(number: int, info: Segment) -> list[Any]:
    further = [[p.low, p.high, p.depth, p.keys, p.size, bytes(p.bits)] for p in info.further]
    return [number, info.depth, info.keys, info.size, bytes(info.bits), further]


def _segment(depth: Any, keys: Any, size: Any, bits: Any, further: Any) -> Segment:
    """A segment of the index."""
    info = _check(Segment(count(depth), count(keys), count(size), bytearray(instance(bytes, bits))))
    info.further = [_further(*part) for part in further]
    lows = [part.low or b"" for part in info.further]
    if lows != sorted(set(lows)):
        raise ValueError(f"parts from {lows}")
    return info


def _further(low: Any, high: Any, depth: Any, keys: Any, size: Any, bits: Any) -> Part:
    counts = count(depth), count(keys), count(size), bytearray(instance(bytes, bits))
    return _check(Part(*counts, low=instance(bytes, low), high=instance(bytes, high)))


def _check(part: P) -> P:
    """A part whose depth agrees with its bits, so that no walk is longer than these."""
    if part.depth > _DEEPEST or len(part.bits) != max(1, 1 << part.depth >> 3):
        raise ValueError(f"{len(part.bits)} bytes of bits at depth {part.depth}")
    return part
