"""Pages in lists of a few MiB, so that what walks through all of them works on many at a time."""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item", bytes, tuple[bytes, bytes])
"""A key, or a key and its page."""
Pair = tuple[bytes, bytes]
Chunk = tuple[list[bytes], list[bytes]]
"""Keys, and the page of each."""
_MANY, _AT_ONCE_BYTES = 1_024, 1 << 20
"""Items that are read at once: few enough to be in the processor's cache when they are taken apart."""
_MOST_BYTES, _MOST_PAGES = 4 << 20, 1 << 16


def pieces(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Yield items in short lists: at first one, then more and more, as many as make 1 MiB if they are like those before."""
    count = 1
    while some := list(islice(items, count)):
        yield some
        largest = max(map(_size, (some[0], some[len(some) // 2], some[-1])))
        count = max(1, min(2 * count, _MANY, _AT_ONCE_BYTES // (largest + 1)))


def before(
    items: Iterator[Item], end: bytes, stopped: Callable[[bytes | None], None]
) -> Generator[list[Item], None, None]:
    """Yield those of ascending items, in short lists, that come before an end. A list that goes on behind it is read, too.

    Args:
        items: ascend by key.
        end: a key.
        stopped: called with the last key, or None, if the items stop before the end: to find out why.
    """
    last = None
    for some in pieces(items):
        last = _key(some[-1])
        if _key(some[-1]) < end:
            yield some
            continue
        if kept := some[: bisect_left(some, end, key=_key)]:
            yield kept
        return
    del items  # An error keeps this frame, and an iterator keeps a database open.
    stopped(last)


def _size(item: Pair | bytes) -> int:
    return len(item) if isinstance(item, bytes) else len(item[0]) + len(item[1])


def _key(item: Pair | bytes) -> bytes:
    return item if isinstance(item, bytes) else item[0]


def chunks(lists: Iterable[list[Pair]]) -> Iterator[Chunk]:
    """Yield short lists of keys and pages joined to chunks of about 4 MiB, and of 66,000 pages at most."""
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for pairs in lists:
        more_keys, more_values = zip(*pairs, strict=True)
        keys += more_keys
        values += more_values
        size += sum(map(len, more_keys)) + sum(map(len, more_values))
        if size >= _MOST_BYTES or len(keys) >= _MOST_PAGES:
            yield keys, values
            keys, values, size = [], [], 0
    if keys:
        yield keys, values


def key_chunks(lists: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """Yield short lists of keys joined to lists of 66,000 at most."""
    keys: list[bytes] = []
    for more in lists:
        keys += more
        if len(keys) >= _MOST_PAGES:
            yield keys
            keys = []
    if keys:
        yield keys
