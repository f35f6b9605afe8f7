"""Which pages next have a window to close, and when: kept in memory, so that a step touches only what is due.

The entries of a segment are kept in runs, each in order of due time. Short runs are merged, several at a time, so that they
stay few. Long ones are packed into a dozen bytes an entry beside its key, and no longer merged before half of one is spent.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from serializers.arrays import fill

Ints = npt.NDArray[np.int64]
NEVER = 2**62
_LEVEL_BITS = 3
_MERGED = 2**_LEVEL_BITS
"""So many runs of a level are merged: what comes of them is of the next one."""
_LONG = 2**16
_MOST_PACKED = 2**17


@dataclass(slots=True)
class _Run:
    """Some entries in order of their due time, of which those before `used` are spent."""

    due: Ints
    keys: npt.NDArray[np.object_]
    used: int = 0

    def __len__(self) -> int:
        return len(self.due) - self.used

    @property
    def level(self) -> int:
        """Runs of one level are of about the same length."""
        return len(self).bit_length() // _LEVEL_BITS

    def pieces(self) -> "Iterator[_Run]":
        """Yield what is left as runs of bounded length."""
        for begin in range(self.used, len(self.due), _MOST_PACKED):
            rows = slice(begin, begin + _MOST_PACKED)
            yield _Run(self.due[rows], self.keys[rows])

    def take(self, close: int) -> list[bytes]:
        """Strike out what is due before the close time, and return its keys."""
        edge = max(self.used, int(np.searchsorted(self.due, close, "left")))
        begin, self.used = self.used, edge
        return self.keys[begin:edge].tolist()


class _PackedRun:
    """A new run that is packed: keys in one buffer, and due times as what they are after the first, in few bytes."""

    __slots__ = ("_after", "_base", "_keys", "_next", "_used")

    def __init__(self, run: _Run) -> None:
        self._base = int(run.due[0])
        after = run.due - self._base
        self._after: npt.NDArray[np.unsignedinteger] = after.astype(np.min_scalar_type(after[-1]))
        self._keys = pa.array(run.keys, pa.large_binary())
        self._next = self._base
        self._used = 0

    def __len__(self) -> int:
        return len(self._after) - self._used

    @property
    def half_spent(self) -> bool:
        """Whether at least half of what was packed is struck out."""
        return 2 * self._used >= len(self._after)

    def take(self, close: int) -> list[bytes]:
        """Strike out what is due before the close time, and return its keys."""
        if close <= self._next:
            return []
        begin, self._used = self._used, self._edge(close - self._base)
        if len(self):
            self._next = self._base + int(self._after[self._used])
        return self._keys[begin : self._used].to_pylist()

    def _edge(self, after: int) -> int:
        if after > int(self._after[-1]):
            return len(self._after)
        # A number of another type would have the whole array converted.
        return int(np.searchsorted(self._after, self._after.dtype.type(after), "left"))

    def opened(self) -> _Run:
        """Return what is left as a run that can be merged."""
        keys = self._keys[self._used :].to_numpy(zero_copy_only=False)
        return _Run(self._after[self._used :].astype(np.int64) + self._base, keys)


class _SegmentCalendar:
    """The entries of one segment."""

    __slots__ = ("_packed", "_runs")

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._packed: list[_PackedRun] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs)) + sum(map(len, self._packed))

    def add(self, run: _Run) -> None:
        """Enter a run: merged with those before it that are not longer, if these are many; packed if it is long."""
        while len(same := self._not_longer(run)) >= _MERGED - 1:
            del self._runs[-len(same) :]
            run = _merged([*same, run])
        if len(run) < _LONG:
            self._runs.append(run)
        else:
            self._packed += map(_PackedRun, run.pieces())

    def _not_longer(self, run: _Run) -> list[_Run]:
        return list(takewhile(lambda earlier: earlier.level <= run.level, reversed(self._runs)))

    def take(self, close: int) -> list[bytes]:
        """Return, and strike out, the distinct keys of the entries before the close time."""
        runs: Iterable[_Run | _PackedRun] = chain(self._runs, self._packed)
        due = list(dict.fromkeys(chain.from_iterable([run.take(close) for run in runs])))
        if due:
            self._runs = [run for run in self._runs if len(run)]
            self._trim()
        return due

    def _trim(self) -> None:
        """Give back the room of packed runs of which half is spent."""
        worn = [run for run in self._packed if run.half_spent]
        if worn:
            self._packed = [run for run in self._packed if not run.half_spent]
            for run in filter(len, worn):
                self.add(run.opened())


class ClosingCalendar:
    """Pages (segment and key) by the end of the next window that one of their panes defines.

    An entry may be early, never late: an early visit finds nothing to close and is entered again. Adding costs O(log n)
    amortised; taking O(log n) and what is due, and some 0.1 us for each 2**16 entries.
    """

    def __init__(self) -> None:
        self._segments: dict[int, _SegmentCalendar] = {}

    def __len__(self) -> int:
        return sum(map(len, self._segments.values()))

    def add(self, segment: int, keys: Sequence[bytes], due: Ints) -> None:
        """Enter pages of one segment; those due at `NEVER` are passed over.

        Args:
            segment: number of the segment.
            keys: n keys.
            due: shape (n,), int64: last tick of the next window.
        """
        wanted = np.flatnonzero(due < NEVER)
        if not len(wanted):
            return
        wanted = wanted[np.argsort(due[wanted], kind="stable")]
        run = _Run(due[wanted], fill(keys)[wanted])
        self._segments.setdefault(segment, _SegmentCalendar()).add(run)

    def take_due(self, close: int) -> dict[int, list[bytes]]:
        """Return, and strike out, the pages with a window that ends before the close time: keys by segment."""
        due = {segment: entries.take(close) for segment, entries in self._segments.items()}
        due = {segment: keys for segment, keys in due.items() if keys}
        for segment in due:
            if not len(self._segments[segment]):
                del self._segments[segment]
        return due

    def clear(self) -> None:
        """Strike out every entry."""
        self._segments.clear()


def _merged(runs: Sequence[_Run]) -> _Run:
    due = np.concatenate([run.due[run.used :] for run in runs])
    order = np.argsort(due, kind="stable")
    return _Run(due[order], np.concatenate([run.keys[run.used :] for run in runs])[order])
