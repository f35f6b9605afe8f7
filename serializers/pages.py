"""Pages: the stored form of one key's entries in one segment.

A page consists of 8-byte little-endian words:

    header   as many words as the layout has word columns, 3 at least: word 0 = magic, version, number of entries;
             word 1 = layout fingerprint and tail length; word 2 = checksum
    body     the word columns, time first, entry by entry
    tail     msgpack of the object columns, only if the layout has any

The checksum is a weighted sum of all words of the body, plus the CRC-32 of the tail: it finds any change of one
word, and it can be computed over many pages at once.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from serializers.arrays import fill
from serializers.bodies import from_rows, to_rows
from serializers.errors import CorruptDataError, NewerFormatError
from serializers.shapes import instance, refusing
from serializers.values import pack_value, pack_values, unpack_value

PAGE_VERSION = 1
_FEW = 128
"""Pages of fewer entries than this often have no objects: their tails are made once."""
_MAGIC = 0x5057
_MIN_WIDTH = 3
_HEAD_BYTES = 8 * _MIN_WIDTH
"""Of a header that are not padding."""
_MAX_ROWS = 2**32 - 1
CODES = {"i8": np.dtype("<i8"), "f8": np.dtype("<f8")}
Column = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class PageLayout:
    """The columns of a page, by dtype code in order: "i8", "f8" (one word each) or "object" (msgpack).

    The first column is the entries' time and must be "i8".
    """

    codes: tuple[str, ...]
    _word_index: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _object_index: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        unknown = set(self.codes) - {*CODES, "object"}
        if unknown or self.codes[:1] != ("i8",):
            raise ValueError(
                f"layout {self.codes}: columns are 'i8', 'f8' or 'object', and the first is 'i8'"
            )
        index = [(i, code) for i, code in enumerate(self.codes)]
        object.__setattr__(self, "_word_index", tuple(i for i, code in index if code != "object"))
        object.__setattr__(self, "_object_index", tuple(i for i, code in index if code == "object"))

    @property
    def has_objects(self) -> bool:
        """Whether any column is of objects."""
        return bool(self._object_index)

    @property
    def width(self) -> int:
        """Words of an entry, and of a header."""
        return max(_MIN_WIDTH, len(self._word_index))

    @property
    def fingerprint(self) -> int:
        """CRC-32 of the column codes: a page of another layout is refused."""
        return zlib.crc32(",".join(self.codes).encode())

    def encode(self, columns: Sequence[Column], counts: npt.NDArray[np.int64]) -> list[bytes]:
        """Return one page per count from columns that hold the pages' rows one after another.

        Args:
            columns: one array of length `counts.sum()` per column of the layout.
            counts: rows of each page, each at least 1.

        Cost: O(rows) array work, and a slice for each page, or for each column of a large one.
        """
        if len(counts) and int(counts.max()) > _MAX_ROWS:
            raise ValueError(f"a page holds at most {_MAX_ROWS} entries: choose a shorter segment")
        ends = np.cumsum(counts)
        words = [np.ascontiguousarray(columns[index], CODES[self.codes[index]]) for index in self._word_index]
        tails = self._encode_tails(columns, ends - counts, ends)
        headers = self._headers(words, counts, ends - counts, tails)
        pages = to_rows(words, self.width, headers, counts)
        return [page + tail for page, tail in zip(pages, tails, strict=True)] if tails else pages

    def _headers(
        self,
        words: Sequence[Column],
        counts: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        tails: Sequence[bytes],
    ) -> npt.NDArray[np.int64]:
        headers = np.zeros((len(counts), self.width), dtype="<i8")
        tail_bytes = np.array([len(tail) for tail in tails], np.int64) if tails else 0
        headers[:, 0] = (counts << 32) | (PAGE_VERSION << 16) | _MAGIC
        headers[:, 1] = (tail_bytes << 32) | self.fingerprint
        headers[:, 2] = self._checksums([word.view("<u8") for word in words], starts, headers, tails)
        return headers

    def _encode_tails(
        self, columns: Sequence[Column], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> list[bytes]:
        if not self._object_index:
            return []
        objects = [columns[index].tolist() for index in self._object_index]
        edges = list(zip(starts.tolist(), ends.tolist(), strict=True))
        filled = {
            page
            for values in objects
            if values.count(None) < len(values)
            for page, (a, b) in enumerate(edges)
            if values[a] is not None or values[a:b].count(None) < b - a
        }
        packed = iter(
            pack_values(
                [values[a:b] for values in objects] for page, (a, b) in enumerate(edges) if page in filled
            )
        )
        return [
            next(packed) if page in filled else _nones(len(objects), b - a)
            for page, (a, b) in enumerate(edges)
        ]

    def _checksums(
        self,
        words: Sequence[npt.NDArray[np.uint64]],
        starts: npt.NDArray[np.int64],
        headers: npt.NDArray[np.int64],
        tails: Sequence[bytes],
    ) -> npt.NDArray[np.int64]:
        """Weighted sum of each page's words (its first two header words included), plus its tail's CRC."""
        if not len(starts):
            return np.zeros(0, np.int64)
        filled = np.diff(np.append(starts, len(words[0]))) > 0
        sums = np.zeros(len(starts), np.uint64)
        for number, word in enumerate(words if filled.any() else ()):
            sums[filled] += np.add.reduceat(word, starts[filled]) * np.uint64(2 * number + 1)
        sums += headers[:, 0].astype("<u8") + headers[:, 1].astype("<u8") * np.uint64(3)
        if tails:
            sums += np.fromiter(map(zlib.crc32, tails), np.uint64, len(tails))
        return sums.view(np.int64)

    def count_rows(self, pages: Sequence[bytes], size: int) -> int:
        """Return how many rows pages of this layout have in all.

        Args:
            pages: the pages.
            size: their bytes in all.
        """
        if not self._object_index:
            return size // (8 * self.width) - len(pages)
        return int(np.frombuffer(b"".join([page[4:8] for page in pages]), "<u4").sum())

    def decode(self, pages: Sequence[bytes]) -> tuple[list[Column], npt.NDArray[np.int64]]:
        """Return the columns of all pages one after another, and the number of rows of each page.

        Raises:
            CorruptDataError: a page is truncated, altered, or of another layout.
            NewerFormatError: a newer version wrote a page.

        Cost: O(rows) array work after one copy.
        """
        if not pages:
            empty = [np.empty(0, CODES.get(code, np.dtype(object))) for code in self.codes]
            return empty, np.empty(0, np.int64)
        tails: list[bytes] = []
        if self._object_index:
            pages, tails = self._split_tails(pages)
        row_bytes = 8 * self.width
        lengths = np.fromiter(map(len, pages), np.int64, len(pages))
        if (lengths % row_bytes).any() or (lengths < row_bytes).any():
            raise self._unreadable(pages, int(np.argmax((lengths % row_bytes != 0) | (lengths < row_bytes))))
        counts = lengths // row_bytes - 1
        words = self._verify(pages, counts, tails)
        columns: list[Column] = [np.empty(0)] * len(self.codes)
        for word, index in zip(words, self._word_index, strict=False):
            columns[index] = word.view(CODES[self.codes[index]])
        self._decode_tails(tails, columns, counts)
        return columns, counts

    def _split_tails(self, pages: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        length = np.fromiter(map(len, pages), np.int64, len(pages))
        # Of a page that is too short, the missing words are read as zeros.
        heads = b"".join([page[:_HEAD_BYTES].ljust(_HEAD_BYTES, b"\0") for page in pages])
        words = np.frombuffer(heads, "<u4").reshape(len(pages), -1).astype(np.int64)
        size = (words[:, 1] + 1) * 8 * self.width
        wrong = (length < _HEAD_BYTES) | (length != size + words[:, 3])
        if wrong.any():
            raise self._unreadable(pages, int(np.argmax(wrong)))
        edges = size.tolist()
        return (
            [page[:edge] for page, edge in zip(pages, edges, strict=True)],
            [page[edge:] for page, edge in zip(pages, edges, strict=True)],
        )

    def _verify(
        self, pages: Sequence[bytes], counts: npt.NDArray[np.int64], tails: Sequence[bytes]
    ) -> Sequence[npt.NDArray[np.int64]]:
        """The word columns of pages whose headers are right."""
        headers, words = from_rows(pages, self.width, counts)
        wrong = headers[:, 0] != ((counts << 32) | (PAGE_VERSION << 16) | _MAGIC)
        wrong |= (headers[:, 1] & 0xFFFFFFFF) != self.fingerprint
        unsigned = [word.view("<u8") for word in words]
        wrong |= headers[:, 3:].any(axis=1)
        wrong |= headers[:, 2] != self._checksums(unsigned, np.cumsum(counts) - counts, headers, tails)
        if wrong.any():
            raise self._unreadable(pages, int(np.argmax(wrong)))
        return words

    def _unreadable(self, pages: Sequence[bytes], number: int) -> Exception:
        page = pages[number]
        magic, version = int.from_bytes(page[:2], "little"), int.from_bytes(page[2:4], "little")
        if magic == _MAGIC and version > PAGE_VERSION:
            return NewerFormatError("a stored page", version, PAGE_VERSION)
        if magic != _MAGIC:
            return CorruptDataError(
                f"the bytes are not a stored page: {len(page)} bytes that begin with {page[:8]!r}"
            )
        if int.from_bytes(page[8:12], "little") != self.fingerprint:
            return CorruptDataError(
                f"a stored page has another layout than {self.codes}: the aggregates of this operator were changed; "
                "start it with a new checkpoint"
            )
        return CorruptDataError(
            f"a stored page of {len(page)} bytes is truncated or altered: go back to an earlier checkpoint"
        )

    def _decode_tails(
        self, tails: Sequence[bytes], columns: list[Column], counts: npt.NDArray[np.int64]
    ) -> None:
        if not self._object_index:
            return
        ends = np.cumsum(counts).tolist()
        merged = [np.empty(ends[-1] if ends else 0, object) for _ in self._object_index]
        rows = counts.tolist()
        nones = {count: _nones(len(merged), count) for count in {*rows}}
        with refusing("the objects of a stored page"):
            for tail, end, count in zip(tails, ends, rows, strict=True):
                if tail == nones[count]:
                    continue  # An array of objects is made of None.
                for target, values in zip(merged, instance(list, unpack_value(tail)), strict=True):
                    target[end - count : end] = _objects(values, count)
        for index, values in zip(self._object_index, merged, strict=True):
            columns[index] = values


def _objects(values: Any, rows: int) -> Column:
    """One column of objects; one item would otherwise fill any number of rows."""
    if len(instance(list, values)) != rows:
        raise ValueError(f"{len(values)} objects in {rows} entries")
    return fill(values)


def _nones(columns: int, rows: int) -> bytes:
    """The tail of a page without any object, as pages mostly are whose objects are few."""
    return _few_nones(columns, rows) if rows < _FEW else pack_value([[None] * rows] * columns)


@lru_cache(maxsize=4096)
def _few_nones(columns: int, rows: int) -> bytes:
    return pack_value([[None] * rows] * columns)
