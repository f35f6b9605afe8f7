"""Rows of numbers by segment and key, in few bytes: what memory holds about keys with several pages."""

from collections.abc import Iterable, Sequence

import numpy as np

from state_backends.store.ordering import row_order
from state_backends.store.page_ids import Ints, Mask


class RowsByKey:
    """Rows of 64-bit words by segment and key; those of one key are distinct in their first word and ascend with it.

    Args:
        width: words of a row.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._segments: dict[int, dict[bytes, bytes]] = {}
        self.size = 0
        """Bytes of all rows."""

    def __contains__(self, segment: int) -> bool:
        """Whether the segment has any row."""
        return segment in self._segments

    def has(self, segment: int, keys: Sequence[bytes]) -> Mask:
        """Return which keys have rows in a segment."""
        held = self._segments.get(segment, {})
        return np.fromiter(map(held.__contains__, keys), bool, len(keys))

    def rows(self, segment: int, keys: Sequence[bytes]) -> tuple[Ints, Ints]:
        """Return the rows of keys.

        Returns:
            Shape (n,), int64: position of each row's key in `keys`, ascending; shape (n, width), int64: the rows.
        """
        held = self._segments.get(segment)
        if not held:
            return np.empty(0, np.int64), np.empty((0, self._width), np.int64)
        found = [held.get(key, b"") for key in keys]
        rows = np.frombuffer(b"".join(found), np.int64).reshape(-1, self._width)
        count = np.fromiter(map(len, found), np.int64, len(found)) // (8 * self._width)
        return np.repeat(np.arange(len(keys)), count), rows

    def add(self, segment: int, keys: Sequence[bytes], number: Ints, rows: Ints) -> None:
        """Add rows; one with the same first word is replaced.

        Args:
            segment: number of the segment.
            keys: distinct keys.
            number: shape (n,), int64: position of each row's key in `keys`.
            rows: shape (n, width), int64; of equal first words, the last counts.
        """
        old_number, old = self.rows(segment, keys)
        number, rows = np.concatenate([old_number, number]), np.concatenate([old, rows])
        order = row_order(number, rows[:, 0])
        if order is not None:
            number, rows = number[order], rows[order]
        newest = np.ones(len(number), bool)
        newest[:-1] = (number[1:] != number[:-1]) | (rows[1:, 0] != rows[:-1, 0])
        self._put(segment, keys, number[newest], rows[newest])

    def remove(self, segment: int, keys: Sequence[bytes], number: Ints, first: Ints) -> None:
        """Remove the rows with these first words; missing ones are not an error.

        Args:
            segment: number of the segment.
            keys: distinct keys.
            number: shape (n,), int64: position of each row's key in `keys`.
            first: shape (n,), int64: first word of the row.
        """
        if segment not in self._segments:
            return
        old_number, old = self.rows(segment, keys)
        if not len(old):
            return
        words, word = np.unique(np.concatenate([first, old[:, 0]]), return_inverse=True)
        place = np.concatenate([number, old_number]) * len(words) + word
        kept = ~np.isin(place[len(first) :], place[: len(first)])
        self._put(segment, keys, old_number[kept], old[kept])

    def _put(self, segment: int, keys: Sequence[bytes], number: Ints, rows: Ints) -> None:
        """Replace the rows of keys."""
        held = self._segments.setdefault(segment, {})
        packed = np.ascontiguousarray(rows).tobytes()
        ends = 8 * self._width * np.cumsum(np.bincount(number, minlength=len(keys)))
        begin = 0
        for key, end in zip(keys, ends.tolist(), strict=True):
            self.size += end - begin - len(held.pop(key, b""))
            if end > begin:
                held[key] = packed[begin:end]
            begin = end
        if not held:
            del self._segments[segment]

    def keys(self, segment: int) -> list[bytes]:
        """Return the keys that have rows in a segment."""
        return list(self._segments.get(segment, ()))

    def remove_keys(self, segment: int, keys: Iterable[bytes]) -> None:
        """Remove all rows of keys in a segment."""
        held = self._segments.get(segment)
        if held is None:
            return
        for key in keys:
            self.size -= len(held.pop(key, b""))
        if not held:
            del self._segments[segment]

    def remove_segment(self, segment: int) -> None:
        """Remove all rows of a segment."""
        self.size -= sum(map(len, self._segments.pop(segment, {}).values()))

    def drop_segments_below(self, segment: int) -> None:
        """Remove the rows of earlier segments."""
        for number in [number for number in self._segments if number < segment]:
            self.remove_segment(number)

    def clear(self) -> None:
        """Remove all rows."""
        self._segments.clear()
        self.size = 0
