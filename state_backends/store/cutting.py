"""Where the pages of a key are cut: by time, so that a batch rewrites few entries beside those that it brings."""

import numpy as np

from serializers.arrays import rows_between
from serializers.pages import Column, PageLayout
from state_backends.store.entries import Entries, run_lengths
from state_backends.store.page_ids import Ints, Mask, PageIds

PAGE_ENTRIES = 32
"""Most entries of a page, unless more have one time."""
PAGE_BYTES = 8 << 10
"""Most bytes of a page with objects, unless one entry has more."""


def encode_pages(
    layout: PageLayout, pages: PageIds, page: Ints, entries: Entries
) -> tuple[PageIds, Ints, list[bytes]]:
    """Return the pages that entries become: those that they were in, cut where these are too large.

    Args:
        layout: the layout of the entries.
        pages: those that the entries belong to.
        page: shape (n,), int64: position of each entry's page in `pages`, ascending.
        entries: n entries, sorted.

    Returns:
        The pages, how many entries each has, and their bytes.
    """
    present, count = run_lengths(page)
    pages, limit = pages.take(present), np.full(len(present), PAGE_ENTRIES)
    written, parts, encoded = _encode(layout, pages, count, limit, entries)
    if not layout.has_objects or not encoded:
        return written, parts, encoded
    size = np.fromiter(map(len, encoded), np.int64, len(encoded))
    largest = np.maximum.reduceat(size, written.holding(pages.key, pages.start))
    if int(largest.max()) <= PAGE_BYTES:
        return written, parts, encoded
    fitting = np.maximum(1, PAGE_BYTES * np.minimum(count, limit) // largest)
    return _encode(layout, pages, count, np.where(largest > PAGE_BYTES, fitting, limit), entries)


def _encode(
    layout: PageLayout, pages: PageIds, count: Ints, limit: Ints, entries: Entries
) -> tuple[PageIds, Ints, list[bytes]]:
    if (count > limit).any():
        begin = np.cumsum(count) - count
        owner, at = cuts(count, limit, pages.is_last, begin, entries.time)
        key = np.concatenate([pages.key, pages.key[owner]])
        start = np.concatenate([pages.start, entries.time[at]])
        begins, row = np.concatenate([begin, at]), np.concatenate([np.arange(len(pages)), owner])
        order = np.lexsort((begins, row))
        row = row[order]
        last = pages.last[row]
        followed = np.flatnonzero(row[1:] == row[:-1])
        last[followed] = start[order][followed + 1] - 1
        pages = PageIds(pages.span, key[order], start[order], last)
        count = np.diff(np.append(begins[order], len(entries)))
    return pages, count, layout.encode(entries.columns, count)


def cuts(count: Ints, limit: Ints, is_last: Mask, begin: Ints, time: Column) -> tuple[Ints, Ints]:
    """Return where pages of more entries than their limit are cut: the number of the page, and the first entry of the new part.

    The last page of a key is filled before the next one begins, as most records come in order of time. Others become parts of
    equal size, so that records which fall between them find room. Entries of one time stay together.

    Args:
        count, limit: shape (n,), int64: entries of each page, and how many it may have.
        is_last: shape (n,), bool: whether it is the last of its key.
        begin: shape (n,), int64: its first entry.
        time: shape (entries,), int64: ascending in each page.
    """
    parts = -(-count // limit)
    page = np.repeat(np.arange(len(count)), parts - 1)
    nth = 1 + rows_between(np.zeros(len(count), np.int64), parts - 1)
    at = np.where(is_last[page], nth * limit[page], nth * count[page] // parts[page]) + begin[page]
    at = _first_of_time(at, time)
    kept = at > begin[page]
    kept[1:] &= at[1:] != at[:-1]
    return page[kept], at[kept]


def _first_of_time(rows: Ints, time: Column) -> Ints:
    """Of the entries that have the time of each row's entry and stand before it in a row: the first."""
    changes = np.ones(len(time), bool)
    changes[1:] = time[1:] != time[:-1]
    begins = np.maximum.accumulate(np.where(changes, np.arange(len(time)), 0))
    return begins[rows]
