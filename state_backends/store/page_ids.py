"""Which pages a key has in a segment, and their names in the backend.

A key's entries of a segment are in one page, under the key's own name, as long as they are few. If they are many, they are cut
by time: the first page stays, and each further one is named after the time of its first entry.

    segment       | begin                                                            end |
    pages         | first page       | further page      | further page                   |
    names         | key              | 0xc1, start, key  | 0xc1, start, key               |

A page holds the entries from its start to the tick before the start of the next page. No key begins with 0xc1, a byte that no
msgpack has: keys begin with the version of their format. Starts come before keys, so that pages that change in one batch, the
young ones, are neighbours in a sorted backend.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import add

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
FURTHER = b"\xc1"
_SIGN = 1 << 63
"""Added to a start, so that the order of the bytes is the order of the times."""
_FURTHER_HEAD = np.dtype([("mark", "u1"), ("start", ">u8")])
_HEAD = _FURTHER_HEAD.itemsize
_MOST_PLACES = 1 << 62


def further_names(keys: Sequence[bytes], starts: Ints) -> list[bytes]:
    """Return the names of further pages, of one key each, that begin at these times. 0.15 us each."""
    heads = np.full(len(starts), FURTHER[0], _FURTHER_HEAD)
    heads["start"] = starts.view(np.uint64) ^ np.uint64(_SIGN)
    return [*map(add, heads.view(f"V{_HEAD}").tolist(), keys)]


def key_of(name: bytes) -> bytes:
    """Return the key that a page is of; that of a first page is the name itself."""
    return name[_HEAD:] if name[:1] == FURTHER else name


def _maybe_further(names: Collection[bytes]) -> bool:
    """Whether names may be of further pages. 20 ns each."""
    return len(names) > 0 and max(names) >= FURTHER


def keys_of(names: Collection[bytes]) -> Collection[bytes]:
    """Return the key of each page."""
    return _each_key(names) if _maybe_further(names) else names


def _each_key(names: Collection[bytes]) -> list[bytes]:
    """Do as `key_of` for each name, in half the time of as many calls."""
    return [name[_HEAD:] if name[:1] == FURTHER else name for name in names]


def count_further(names: Collection[bytes]) -> int:
    """Return how many names are of further pages."""
    return sum([name[:1] == FURTHER for name in names]) if _maybe_further(names) else 0


def keys_and_starts(names: list[bytes], begin: int) -> tuple[list[bytes], Ints]:
    """Return the key of each page, and where the page starts.

    Args:
        names: n names of one segment.
        begin: the first tick of the segment, where first pages start.
    """
    starts, keys = np.full(len(names), begin), names
    if _maybe_further(names):
        further = [number for number, name in enumerate(names) if name[:1] == FURTHER]
        starts[further] = _starts([names[number] for number in further])
        keys = _each_key(names)
    return keys, starts


def distinct_keys(names: Collection[bytes]) -> tuple[list[bytes], Ints]:
    """Return the distinct keys that pages are of, and the number of each page's key among them."""
    if not _maybe_further(names):
        return list(names), np.arange(len(names))
    numbers: dict[bytes, int] = {}
    number = [numbers.setdefault(key, len(numbers)) for key in _each_key(names)]
    return list(numbers), np.array(number, np.int64)


def further_starts(names: Collection[bytes]) -> tuple[list[bytes], Ints, Ints]:
    """Return of the further pages among some: the distinct keys, the number of each page's key, and where the page starts."""
    further = [name for name in names if name[:1] == FURTHER] if _maybe_further(names) else []
    keys, number = distinct_keys(further)
    return keys, number, _starts(further)


def _starts(further: Sequence[bytes]) -> Ints:
    words = np.frombuffer(b"".join([name[1:_HEAD] for name in further]), ">u8").astype(np.uint64)
    return (words ^ np.uint64(_SIGN)).view(np.int64)


@dataclass(frozen=True, slots=True)
class PageIds:
    """Pages of one segment, sorted by key number and start.

    Attributes:
        span: the first and the last tick of the segment.
        key: shape (n,), int64: key number of each page.
        start, last: shape (n,), int64: the first and the last tick that the page has entries of.
    """

    span: tuple[int, int]
    key: Ints
    start: Ints
    last: Ints

    @classmethod
    def first(cls, span: tuple[int, int], key: Ints) -> "PageIds":
        """Return the only pages of keys that have no further ones."""
        return cls(span, key, np.full(len(key), span[0]), np.full(len(key), span[1]))

    @classmethod
    def all_of(cls, span: tuple[int, int], key: Ints, further: tuple[Ints, Ints]) -> "PageIds":
        """Return all pages of keys.

        Args:
            span: the first and the last tick of the segment.
            key: shape (n,), int64: distinct key numbers, ascending.
            further: the further pages: the position of the key in `key`, and the start of each; sorted by both.
        """
        owner, starts = further
        if not len(owner):
            return cls.first(span, key)
        count = 1 + np.bincount(owner, minlength=len(key))
        is_first = np.zeros(len(key) + len(owner), bool)
        is_first[np.cumsum(count) - count] = True
        start = np.full(len(is_first), span[0])
        start[~is_first] = starts
        return cls.between(span, np.repeat(key, count), start)

    @classmethod
    def between(cls, span: tuple[int, int], key: Ints, start: Ints) -> "PageIds":
        """Return pages of which each ends where the next one of its key starts, given all of their keys."""
        last = np.full(len(key), span[1])
        followed = np.flatnonzero(key[1:] == key[:-1])
        last[followed] = start[followed + 1] - 1
        return cls(span, key, start, last)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def further(self) -> Mask:
        """Which pages are further ones."""
        return self.start > self.span[0]

    @property
    def is_last(self) -> Mask:
        """Which pages are the last of their keys."""
        return self.last == self.span[1]

    def take(self, rows: Mask | Ints) -> "PageIds":
        """Return the pages at these rows, by mask or by position."""
        return PageIds(self.span, self.key[rows], self.start[rows], self.last[rows])

    def names(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the names of the pages, given the key of each number."""
        further = self.further
        if self._are_only(len(keys)) and not further.any():
            return list(keys)
        names = [keys[number] for number in self.key.tolist()]
        rows = np.flatnonzero(further)
        at = rows.tolist()
        for row, name in zip(at, further_names([names[row] for row in at], self.start[rows]), strict=True):
            names[row] = name
        return names

    def _are_only(self, keys: int) -> bool:
        """Whether these are pages of so many keys, one of each in turn."""
        return (
            len(self) == keys > 0 and self.key[-1] == keys - 1 and bool((self.key[1:] > self.key[:-1]).all())
        )

    def union(self, others: "PageIds") -> "PageIds":
        """Return these pages and others of the same segment, of other keys or of later times."""
        key = np.concatenate([self.key, others.key])
        both = PageIds(
            self.span,
            key,
            np.concatenate([self.start, others.start]),
            np.concatenate([self.last, others.last]),
        )
        return both.take(np.argsort(key, kind="stable"))

    def among(self, others: "PageIds") -> Mask:
        """Return which pages are among the others."""
        if not len(others):
            return np.zeros(len(self), bool)
        edges = np.sort(others.start)
        asked = _places(self.key, self.start, edges)
        known = np.sort(_places(others.key, others.start, edges))
        found = known[np.minimum(np.searchsorted(known, asked), len(known) - 1)] == asked
        return found & (edges[np.searchsorted(edges, self.start, "right") - 1] == self.start)

    def holding(self, key: Ints, time: Ints) -> Ints:
        """Return which page holds each pair of key number and time: its position, or -1 if none does."""
        if not len(self) or not len(key):
            return np.full(len(key), -1)
        if self.key[0] == self.key[-1]:
            row = np.searchsorted(self.start, time, "right") - 1
        elif not self.further.any():
            rows = np.full(max(int(key.max()), int(self.key[-1])) + 1, -1)
            rows[self.key] = np.arange(len(self))
            row = rows[key]
        else:
            row = self._begun(key, time)
        held = (row >= 0) & (self.key[row] == key) & (self.start[row] <= time) & (time <= self.last[row])
        return np.where(held, row, -1)

    def _begun(self, key: Ints, time: Ints) -> Ints:
        """Return the position of the last page that starts no later than each pair of key and time, or -1. O(n) if sorted."""
        begin, end = self.span
        ticks = end - begin + 1
        if max(int(key.max()), int(self.key[-1])) < _MOST_PLACES // ticks:
            places = self.key * ticks + (self.start - begin)
            asked = key * ticks + (np.clip(time, begin, end) - begin)
        else:
            edges = np.sort(self.start)
            places, asked = _places(self.key, self.start, edges), _places(key, time, edges)
        if len(asked) > len(places) and (asked[1:] >= asked[:-1]).all():
            before = np.searchsorted(asked, places)
            return np.repeat(np.arange(-1, len(places)), np.diff(before, prepend=0, append=len(asked)))
        return np.searchsorted(places, asked, "right") - 1


def _places(key: Ints, time: Ints, edges: Ints) -> Ints:
    """Numbers that order pairs of key and time as far as the edges tell times apart."""
    return key * (len(edges) + 1) + np.searchsorted(edges, time, "right")
