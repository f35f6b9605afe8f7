"""States by category in bytes: what one pane has of them.

    word of 8 bytes   version, sort of category, words of an item, number of items
    items             one after another in order of category: the category, or the bytes of its text; then its words
    texts             one after another, each filled up with zeros to whole words

No bytes are a pane without categories. Numbers and times are words; texts, bytes and decimals are texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.columns.ranges import Ints
from serializers.arrays import fill, rows_between
from serializers.errors import NewerFormatError
from serializers.shapes import refusing
from serializers.values import pack_value, unpack_value

Values = npt.NDArray[Any]
_VERSION = 1
_WORD = 8
_WHOLE, _DOUBLE, _TEXT, _BYTES, _OTHER = range(5)
"""Sorts of categories."""
_READ: dict[int, Callable[[bytes], Any]] = {_TEXT: bytes.decode, _BYTES: bytes, _OTHER: unpack_value}


def number_categories(values: Values) -> tuple[Values, Ints]:
    """Return the distinct values in order, NaN last, and the number of each value among them; -0.0 is 0.0.

    Args:
        values: shape (n,): int64, float64, or objects of one type, without None.

    Cost: O(n) array work, and Python objects for the distinct values alone.
    """
    if values.dtype == np.float64:
        values = np.where(np.isnan(values), np.nan, values + 0.0)
    if not len(values):
        return values, np.empty(0, np.int64)
    kind = pa.large_string() if isinstance(values[0], str) else None
    kind = pa.large_binary() if isinstance(values[0], bytes) else kind
    found = pa.array(values, kind, from_pandas=False).dictionary_encode()
    number = found.indices.to_numpy()
    if values.dtype != object:
        distinct = found.dictionary.to_numpy()
        order = np.argsort(distinct, kind="stable")
    else:
        distinct = fill(found.dictionary.to_pylist())
        order = _ascending(distinct)
    return _renumbered(distinct, number, order)


def items_in(stored: Sequence[bytes]) -> Ints:
    """Return how many items each row has, by the heads of what `Items.write` returned."""
    heads = b"".join(one[:_WORD] or bytes(_WORD) for one in stored)
    return np.frombuffer(heads, "<i8") >> 32


def _ascending(values: Values) -> Ints:
    """The order of distinct objects."""
    return np.array(sorted(range(len(values)), key=values.__getitem__), np.int64)


def _renumbered(distinct: Values, number: Ints, order: Ints) -> tuple[Values, Ints]:
    """Distinct values in an order, and numbers of them in that order."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return distinct[order], place[number]


@dataclass(frozen=True, slots=True)
class Items:
    """Categories by row, and words of each.

    Attributes:
        row: shape (n,), int64: ascending.
        number: shape (n,), int64: the number of each category, ascending within a row.
        distinct: the categories in order of their numbers.
        words: shape (n, w), int64.
    """

    row: Ints
    number: Ints
    distinct: Values
    words: Ints

    def write(self, rows: int) -> list[bytes]:
        """Return the bytes of each of so many rows. O(items) array work, and a slice for each row."""
        count = np.bincount(self.row, minlength=rows)
        kind, first, texts, start, size = _coded(self.distinct)
        width, sizes = 1 + self.words.shape[1], size[self.number]
        passed = np.append(0, np.cumsum(sizes))
        last = np.cumsum(count)
        text = passed[last] - passed[last - count]
        filled = np.flatnonzero(count)
        ends = np.cumsum((count > 0) + count * width + text)
        begin = ends - text - count * width
        found = np.zeros(int(ends[-1]) if rows else 0, "<i8")
        found[begin[filled] - 1] = _VERSION | kind << 8 | width << 16 | count[filled] << 32
        items = np.concatenate([first[self.number][:, None], self.words], axis=1)
        found[rows_between(begin, count * width)] = items.reshape(-1)
        found[rows_between(begin + count * width, text)] = texts[rows_between(start[self.number], sizes)]
        content = found.tobytes()
        return [content[a:b] for a, b in pairwise([0, *(_WORD * ends).tolist()])]

    @classmethod
    @refusing("a state by category")
    def read(cls, stored: Sequence[bytes], width: int, former: Sequence[int | None]) -> "Items":
        """Return the items of rows.

        Args:
            stored: what `write` returned.
            width: words of each item.
            former: of items that were written with fewer words, the position of each word among theirs; None if it is 0.

        Raises:
            CorruptDataError: the bytes are not those of `write`.
            NewerFormatError: a newer version wrote them.
        """
        size = np.fromiter(map(len, stored), np.int64, len(stored))
        if (size % _WORD).any():
            raise ValueError("a length that is not divisible by 8")
        size //= _WORD
        content = b"".join(stored)
        words = np.frombuffer(content, "<i8")
        start = np.cumsum(size) - size
        filled = np.flatnonzero(size)
        head, begin, end = words[start[filled]], start[filled] + 1, (start + size)[filled]
        version = int((head & 0xFF).max(initial=_VERSION))
        if version > _VERSION:
            raise NewerFormatError("a state by category", version, _VERSION)
        count, wide = head >> 32, head >> 16 & 0xFFFF
        if (count < 1).any() or (begin + count * wide > end).any():
            raise ValueError("fewer words than items need")
        row = np.repeat(filled, count)
        if not len(row):
            return cls(row, row, np.empty(0, np.int64), np.empty((0, width), np.int64))
        kind = int(head[0] >> 8 & 0xFF)
        if (head >> 8 & 0xFF != kind).any() or kind > _OTHER:
            raise ValueError("categories of several sorts")
        items = _items(words, begin, count, wide, (width, former))
        if kind in (_WHOLE, _DOUBLE):
            if (begin + count * wide != end).any():
                raise ValueError("more words than items need")
            categories = items[:, 0].view(np.int64 if kind == _WHOLE else np.float64)
            return cls(row, *number_categories(categories)[::-1], items[:, 1:])
        texts = _texts(content, begin + count * wide, end, row, filled, items[:, 0])
        found = texts.dictionary_encode()
        distinct = fill([_READ[kind](text) for text in found.dictionary.to_pylist()])
        distinct, number = _renumbered(distinct, found.indices.to_numpy(), _ascending(distinct))
        return cls(row, number, distinct, items[:, 1:])


def _coded(distinct: Values) -> tuple[int, Ints, Ints, Ints, Ints]:
    """The sort of categories; of each the word, where its text begins and how many words it has; and the words of all texts."""
    none = np.zeros(len(distinct), np.int64)
    if distinct.dtype != object:
        kind = _WHOLE if distinct.dtype == np.int64 else _DOUBLE
        return kind, np.ascontiguousarray(distinct).view(np.int64), none[:0], none, none
    kind, texts = _OTHER, list[bytes]()
    for value in distinct.tolist():
        kind = _TEXT if isinstance(value, str) else _BYTES if isinstance(value, bytes) else _OTHER
        texts.append(value.encode() if kind == _TEXT else value if kind == _BYTES else pack_value(value))
    length = np.fromiter(map(len, texts), np.int64, len(texts))
    size = -(-length // _WORD)
    padded = [text.ljust(_WORD * words, b"\0") for text, words in zip(texts, size.tolist(), strict=True)]
    return kind, length, np.frombuffer(b"".join(padded), "<i8"), np.cumsum(size) - size, size


def _items(
    words: Ints, begin: Ints, count: Ints, wide: Ints, layout: tuple[int, Sequence[int | None]]
) -> Ints:
    """The items of all rows, with the category in the first of 1 + width words."""
    width, former = layout
    if (wide == 1 + width).all():
        return words[rows_between(begin, count * wide)].reshape(-1, 1 + width)
    narrow = 1 + sum(one is not None for one in former)
    if not np.isin(wide, (1 + width, narrow)).all():
        raise ValueError("items of another number of words")
    found = np.zeros((int(count.sum()), 1 + width), np.int64)
    of_row = np.repeat(wide == narrow, count)
    for now, columns in ((False, range(1 + width)), (True, [0, *former])):
        rows = np.flatnonzero((wide == narrow) == now)
        read = words[rows_between(begin[rows], (count * wide)[rows])]
        read = read.reshape(-1, narrow if now else 1 + width)
        at = np.flatnonzero(of_row == now)
        for place, column in enumerate(columns):
            if column is not None:
                found[at, place] = read[:, column if not now or not place else column + 1]
    return found


def _texts(
    content: bytes, begin: Ints, end: Ints, row: Ints, filled: Ints, length: Ints
) -> pa.LargeBinaryArray:
    """The texts of all items, which are between these words of each filled row."""
    size = -(-length // _WORD)
    if (length < 0).any():
        raise ValueError("a text of negative length")
    place = np.searchsorted(filled, row)
    total = np.bincount(place, weights=size, minlength=len(filled)).astype(np.int64)
    if (total != end - begin).any():
        raise ValueError("another number of words than texts need")
    passed = np.cumsum(size) - size
    first = np.flatnonzero(np.diff(place, prepend=-1))
    at = _WORD * (begin[place] + passed - passed[first][place])
    # Between two texts there are zeros, and items: an element of their own, which is left out.
    edges = np.stack([at, at + length], axis=1).reshape(-1)
    offsets = pa.py_buffer(np.append(edges, edges[-1:]).tobytes())
    whole = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(edges), [None, offsets, pa.py_buffer(content)]
    )
    return whole.take(pa.array(np.arange(0, len(edges), 2)))
