"""Which pages next have a window to close, and when: kept in memory, so that a step touches only what is due."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from serializers.pages import fill

Ints = npt.NDArray[np.int64]
NEVER = 2**62


@dataclass(slots=True)
class _Run:
    """Some entries in order of their due time, of which those before `used` are spent."""

    due: Ints
    segment: Ints
    keys: npt.NDArray[np.object_]
    used: int = 0

    def __len__(self) -> int:
        return len(self.due) - self.used

    def rows(self, rows: Ints | slice) -> "_Run":
        return _Run(self.due[rows], self.segment[rows], self.keys[rows])


class ClosingCalendar:
    """Pages (segment and key) by the end of the next window that one of their panes defines.

    An entry may be early, never late: an early visit finds nothing to close and is entered again. Entries are kept in
    sorted runs whose lengths grow geometrically, so adding costs O(log n) amortised and taking O(log n) and what is due.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

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
        run = _Run(due, np.full(len(due), segment, np.int64), fill(keys)).rows(wanted)
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = _merged(self._runs.pop(), run)
        self._runs.append(run)

    def take_due(self, close: int) -> dict[int, list[bytes]]:
        """Return, and strike out, the pages with a window that ends before the close time: keys by segment."""
        due: dict[int, dict[bytes, None]] = {}
        for run in self._runs:
            edge = int(np.searchsorted(run.due, close, "left"))
            for segment, key in zip(
                run.segment[run.used : edge].tolist(), run.keys[run.used : edge].tolist(), strict=True
            ):
                due.setdefault(segment, {})[key] = None
            run.used = max(run.used, edge)
        self._runs = [run for run in self._runs if len(run)]
        return {segment: list(keys) for segment, keys in due.items()}

    def clear(self) -> None:
        """Strike out every entry."""
        self._runs.clear()


def _merged(a: _Run, b: _Run) -> _Run:
    a, b = a.rows(slice(a.used, None)), b.rows(slice(b.used, None))
    both = _Run(
        np.concatenate([a.due, b.due]),
        np.concatenate([a.segment, b.segment]),
        np.concatenate([a.keys, b.keys]),
    )
    return both.rows(np.argsort(both.due, kind="stable"))
