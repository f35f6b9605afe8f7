"""The entries of pages as bytes, row after row: many small pages joined are one table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Words = Sequence[npt.NDArray[Any]]
"""Columns of 8-byte little-endian words."""
WORD = 8
_BYTES = pa.large_binary()


def to_rows(words: Words, width: int, headers: Ints, counts: Ints) -> list[bytes]:
    """Return pages of rows, each with its header before it.

    Args:
        words: the columns; they hold the pages' rows one after another.
        width: words of a row, not fewer than there are columns; those beyond are 0.
        headers: shape (pages, width), int64.
        counts: rows of each page.

    Cost: O(rows) array work.
    """
    blank = np.empty if len(words) == width else np.zeros
    body = blank((len(words[0]), width), dtype="<i8")
    for number, word in enumerate(words):
        body[:, number] = word.view("<i8")
    row = WORD * width
    edges = np.concatenate([[0], np.cumsum(counts) * row])
    heads = _cut(headers, np.arange(len(counts) + 1) * row)
    return pc.binary_join_element_wise(heads, _cut(body, edges), pa.scalar(b"", _BYTES)).to_pylist()


def _cut(table: Ints, edges: Ints) -> pa.Array:
    """The bytes of a table between edges."""
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(np.ascontiguousarray(table))]
    return pa.Array.from_buffers(_BYTES, len(edges) - 1, buffers)


def from_rows(pages: Sequence[bytes], width: int, counts: Ints) -> tuple[Ints, list[Ints]]:
    """Return the headers of pages of rows and the columns of all one after another, as words. One join, O(rows)."""
    data = pages[0] if len(pages) == 1 else b"".join(pages)
    table = np.frombuffer(data, "<i8").reshape(-1, width)
    header_at = np.cumsum(counts) - counts + np.arange(len(counts))
    is_row = np.ones(len(table), bool)
    is_row[header_at] = False
    return table[header_at], [table[:, word][is_row] for word in range(width)]
