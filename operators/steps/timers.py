"""The timer queue of an operator: the next due time of each page, in memory, so that a step reads only pages that are due.

The timers of a segment are kept in sorted runs. Short runs are merged, several at a time, so that there are few of them. Long
runs are packed: about a dozen bytes for each timer in addition to its key. They are merged again when half of one is used up.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.columns.records import NEVER
from serializers.arrays import fill

Ints = npt.NDArray[np.int64]
_LEVEL_BITS = 3
_MERGED = 2**_LEVEL_BITS
"""Number of runs of one level that are merged into one run of the next level."""
_LONG = 2**16
_MOST_PACKED = 2**17


@dataclass(slots=True)
class _Run:
    """Timers in order of their due time; those before `used` have fired."""

    due: Ints
    keys: npt.NDArray[np.object_]
    used: int = 0

    def __len__(self) -> int:
        return len(self.due) - self.used

    @property
    def level(self) -> int:
        """The runs of one level have similar lengths."""
        return len(self).bit_length() // _LEVEL_BITS

    def pieces(self) -> "Iterator[_Run]":
        """Yield the remaining timers as runs of bounded length."""
        for begin in range(self.used, len(self.due), _MOST_PACKED):
            rows = slice(begin, begin + _MOST_PACKED)
            yield _Run(self.due[rows], self.keys[rows])

    def drain(self, close_time: int) -> list[bytes]:
        """Remove the timers that are due before the close time, and return their keys."""
        edge = max(self.used, int(np.searchsorted(self.due, close_time, "left")))
        begin, self.used = self.used, edge
        return self.keys[begin:edge].tolist()


class _PackedRun:
    """A packed run: keys in one buffer, and due times as differences from the first one, in few bytes."""

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
    def half_used(self) -> bool:
        """Whether at least half of the timers have fired."""
        return 2 * self._used >= len(self._after)

    @property
    def next_due(self) -> int:
        """When the first of the timers that are left is due."""
        return self._next

    def drain(self, close_time: int) -> list[bytes]:
        """Remove the timers that are due before the close time, and return their keys."""
        if close_time <= self._next:
            return []
        begin, self._used = self._used, self._edge(close_time - self._base)
        if len(self):
            self._next = self._base + int(self._after[self._used])
        return self._keys[begin : self._used].to_pylist()

    def _edge(self, after: int) -> int:
        if after > int(self._after[-1]):
            return len(self._after)
        # A number of another type would make NumPy convert the whole array.
        return int(np.searchsorted(self._after, self._after.dtype.type(after), "left"))

    def unpack(self) -> _Run:
        """Return the remaining timers as a run that can be merged."""
        keys = self._keys[self._used :].to_numpy(zero_copy_only=False)
        return _Run(self._after[self._used :].astype(np.int64) + self._base, keys)


class _SegmentTimers:
    """The timers of one segment."""

    __slots__ = ("_packed", "_runs")

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._packed: list[_PackedRun] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs)) + sum(map(len, self._packed))

    def runs(self) -> list[_Run]:
        """Return all runs, unpacked."""
        return [*self._runs, *(run.unpack() for run in self._packed)]

    def add(self, run: _Run) -> None:
        """Add a run: merged with earlier runs that are not longer, if there are many of them; packed if it is long."""
        while len(same := self._not_longer(run)) >= _MERGED - 1:
            del self._runs[-len(same) :]
            run = _merge([*same, run])
        if len(run) < _LONG:
            self._runs.append(run)
        else:
            self._packed += map(_PackedRun, run.pieces())

    def _not_longer(self, run: _Run) -> list[_Run]:
        return list(takewhile(lambda earlier: earlier.level <= run.level, reversed(self._runs)))

    def drain(self, close_time: int) -> list[bytes]:
        """Remove the timers that are due before the close time, and return their distinct keys."""
        runs: Iterable[_Run | _PackedRun] = chain(self._runs, self._packed)
        due = list(dict.fromkeys(chain.from_iterable([run.drain(close_time) for run in runs])))
        if due:
            self._runs = [run for run in self._runs if len(run)]
            self._trim()
        return due

    def first_due(self) -> int:
        """Return when the first timer is due."""
        return min([*(int(run.due[run.used]) for run in self._runs), *(run.next_due for run in self._packed)])

    def _trim(self) -> None:
        """Free the memory of packed runs that are half used."""
        worn = [run for run in self._packed if run.half_used]
        if worn:
            self._packed = [run for run in self._packed if not run.half_used]
            for run in filter(len, worn):
                self.add(run.unpack())


class TimerQueue:
    """The pages (segment and key) of a store by the end of their next window.

    A timer may be early, never late: a page whose timer is early is read for nothing, and its timer is set again. `add` costs
    O(log n) amortised. `drain_due` costs O(log n), the number of due timers, and about 0.1 us for each 2**16 timers.
    """

    def __init__(self) -> None:
        self._segments: dict[int, _SegmentTimers] = {}

    def __len__(self) -> int:
        return sum(map(len, self._segments.values()))

    def add(self, segment: int, keys: Sequence[bytes], due: Ints) -> None:
        """Set timers for pages of one segment, except for those that are due `NEVER`.

        Args:
            segment: number of the segment.
            keys: n keys.
            due: shape (n,), int64: last tick of the next window.
        """
        rows = np.flatnonzero(due < NEVER)
        if not len(rows):
            return
        rows = rows[np.argsort(due[rows], kind="stable")]
        run = _Run(due[rows], fill(keys)[rows])
        self._segments.setdefault(segment, _SegmentTimers()).add(run)

    def drain_due(self, close_time: int) -> dict[int, list[bytes]]:
        """Remove the timers that are due before the close time, and return their pages: keys by segment."""
        due = {segment: timers.drain(close_time) for segment, timers in self._segments.items()}
        due = {segment: keys for segment, keys in due.items() if keys}
        for segment in due:
            if not len(self._segments[segment]):
                del self._segments[segment]
        return due

    def earliest(self, segment: int) -> dict[bytes, int]:
        """Return when each page of a segment is due first."""
        found: dict[bytes, int] = {}
        for run in self._segments[segment].runs() if segment in self._segments else ():
            for key, due in zip(run.keys[run.used :].tolist(), run.due[run.used :].tolist(), strict=True):
                found[key] = min(due, found.get(key, due))
        return found

    def first_due(self, segment: int) -> int | None:
        """Return when the first timer of a segment is due; None if it has none."""
        timers = self._segments.get(segment)
        return None if timers is None else timers.first_due()

    def clear(self) -> None:
        """Remove all timers."""
        self._segments.clear()


def _merge(runs: Sequence[_Run]) -> _Run:
    due = np.concatenate([run.due[run.used :] for run in runs])
    order = np.argsort(due, kind="stable")
    return _Run(due[order], np.concatenate([run.keys[run.used :] for run in runs])[order])
