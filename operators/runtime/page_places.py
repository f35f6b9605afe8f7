"""Where a table of pages has the pages of a key, and their sums.

A key whose entries of a segment are in one page has that page under its own name. If there are several pages, there is a tree
of their sums, so that an answer reads the sums of what its windows contain whole, and the few pages in which windows begin or
end:

    segment   |                    one sum of all                     |      total_name, a row for each segment
    blocks    | 0    | 1    | 2    | ...                       | 31   |      blocks_name, a row with a sum for each
    parts            | 0 | 1 | ... | 31 |                                    parts_name, a row with a sum for each
    pages                | | | |                                             pages_name, a row for each page

Blocks and parts are equal slices of time. A page belongs to those in which it starts, and may reach beyond their end; each sum
has the start of its first page as its time. Those without pages have no sum.
"""

import numpy as np
import numpy.typing as npt

from state_backends.store.page_ids import FURTHER, Ints

FAN = 32
"""Blocks of a segment, and parts of a block."""
_SIGN = 1 << 63


def total_name(key: bytes) -> bytes:
    """Return under which name a table has the sums of a key's segments."""
    return FURTHER + b"t" + key


def blocks_name(segment: int, key: bytes) -> bytes:
    """Return under which name it has the sums of a segment's blocks."""
    return FURTHER + b"b" + _encoded(segment) + key


def parts_name(segment: int, block: int, key: bytes) -> bytes:
    """Return under which name it has the sums of a block's parts."""
    return FURTHER + b"c" + _encoded(segment) + bytes([block]) + key


def pages_name(segment: int, block: int, part: int, key: bytes) -> bytes:
    """Return under which name it has the pages of a part."""
    return FURTHER + b"p" + _encoded(segment) + bytes([block, part]) + key


def _encoded(segment: int) -> bytes:
    return (segment + _SIGN).to_bytes(8, "big")


def slices(start: Ints, span: tuple[int, int]) -> tuple[Ints, Ints]:
    """Return the block and the part in which times of a segment are.

    Args:
        start: shape (n,), int64: the times, in ticks.
        span: the first and the last tick of the segment.
    """
    width = -(-(span[1] - span[0] + 1) // FAN**2)
    number: npt.NDArray[np.int64] = (start - span[0]) // width
    return number // FAN, number % FAN
