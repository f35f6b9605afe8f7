"""The rows of a table of pages, and under which names it has the pages of a key, and their sums.

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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from serializers import pack_value, unpack_value
from serializers.shapes import int64, refusing
from state_backends.store.page_ids import FURTHER, Ints

FAN = 32
"""Blocks of a segment, and parts of a block."""
_SIGN = 1 << 63
NO_KEY = b""
"""The key of rows that are not of a key; encoded keys are never empty."""
HEADS = -1
"""The bucket of rows that are not of a bucket."""
KEY_COLUMNS = ("edition", "bucket", "key", "segment", "start")
PAGE_ROWS = pa.schema(
    [
        ("edition", pa.int64()),
        ("bucket", pa.int32()),
        ("key", pa.binary()),
        ("segment", pa.int64()),
        ("start", pa.int64()),
        ("page", pa.binary()),
        ("change", pa.string()),
        ("sequence", pa.int64()),
    ]
)
"""Columns of the rows: `edition` tells sets of pages in one table apart, `sequence` is the version of the bucket's state."""


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


@dataclass(frozen=True, slots=True)
class BucketHead:
    """What a table knows of a bucket beside its pages.

    Attributes:
        close_time: the close time that the bucket has reached, in ticks.
        segment: length of a segment in ticks.
    """

    close_time: int
    segment: int

    def encode(self) -> bytes:
        """Return it as bytes."""
        return pack_value([self.close_time, self.segment])

    @classmethod
    def decode(cls, data: bytes) -> "BucketHead":
        """Return what `encode` wrote.

        Raises:
            CorruptDataError: the bytes are something else.
        """
        with refusing("a bucket of a table of pages"):
            close_time, segment = unpack_value(data)
            return cls(int64(close_time), int64(segment))
