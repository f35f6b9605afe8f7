"""What all operators are made of: steps between two close times, over one store, with timers that follow from what is stored.

The timers are kept by page, in a calendar: so a step looks only at the pages that its batch touches or that are due.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from operators.columns.ranges import Ints, Mask
from operators.columns.records import FAR_PAST, Records
from operators.steps.step import Step
from operators.steps.timers import ClosingCalendar
from state_backends import Entries, WindowStore, WriteBatch
from state_backends.store.ordering import row_order
from state_backends.store.window_store import merge_entries

NO_KEYS = np.empty(0, np.int64)
Bounds = Callable[[Ints], tuple[Ints, Ints]]
"""Start and end of windows, of times in ticks."""


@dataclass(frozen=True, slots=True)
class PageEnds:
    """When the pages of some keys are due.

    Attributes:
        key: shape (n,), int64: distinct key numbers.
        now, before: shape (n,), int64: last tick of the next window to close, now and before the step, or NEVER.
    """

    key: Ints
    now: Ints
    before: Ints

    def take(self, rows: Ints) -> "PageEnds":
        """Return those at these positions."""
        return PageEnds(self.key[rows], self.now[rows], self.before[rows])


class Emitted(Protocol):
    """Rows of several keys."""

    @property
    def key(self) -> Ints:
        """Each row's key."""

    @property
    def retract(self) -> bool:
        """Whether the rows take back what was emitted before."""


class StoreOperator(ABC):
    """An operator over one store. `close` is the close time reached; it is kept by whoever owns the store.

    Args:
        store: where its entries live.
        closes: whether windows are emitted when they close, so that a calendar is needed.
    """

    def __init__(self, store: WindowStore, closes: bool) -> None:
        self.store = store
        self.closes = closes
        self.close = FAR_PAST
        self._calendar = ClosingCalendar()

    @abstractmethod
    def next_due(self, entries: Entries) -> Ints:
        """Return the last tick of the next window to close that each stored entry takes part in, or NEVER."""

    def rebuild(self, close: int, changes: Sequence[WriteBatch] | None = None) -> None:
        """Learn the due times of what is stored, after the store was filled from outside.

        Args:
            close: the close time that the stored state had reached.
            changes: what was written since the calendar was last right; None reads the whole store.
        """
        self.close = close
        if not self.closes:
            if changes is None:
                self.store.note_keys()
            return
        if changes is None:
            self._calendar.clear()
            for segment in self.store.segments():
                for keys, entries in self.store.scan_segment(segment):
                    self._enter_pages(segment, keys, entries)
            return
        for batch in changes:
            for segment, pages in batch.puts.items():
                keys = list(pages)
                self._enter_pages(segment, keys, self.store.fetch_segment(segment, keys))

    def _enter_pages(self, segment: int, keys: list[bytes], entries: Entries) -> None:
        present, due = first_by_key(entries.key, self.next_due(entries))
        self._calendar.add(segment, [keys[n] for n in present.tolist()], due)

    def _take_due(self, keys: list[bytes], close: int) -> tuple[list[bytes], dict[int, Ints]]:
        """The keys and those of the pages that are due before the close time; and these by segment, as numbers."""
        due = self._calendar.take_due(close)
        if not due:
            return keys, {}
        number = {key: n for n, key in enumerate(keys)}
        numbered = {
            segment: np.fromiter((number.setdefault(key, len(number)) for key in names), np.int64, len(names))
            for segment, names in due.items()
        }
        return list(number), numbered

    def step(self, batch: Any, step: Step) -> Sequence[Emitted]:
        """Take one batch and return what to emit.

        Args:
            batch: what `Program.read` makes for the plan.
            step: the close times, and where to count.
        """
        step.begin(self.close)
        emitted = self.take(batch, step)
        self.close = step.close_end
        for some in emitted:
            if some.retract:
                step.counters.retracted += len(some.key)
            else:
                step.counters.windows += len(some.key)
        return emitted

    @abstractmethod
    def take(self, batch: Any, step: Step) -> Sequence[Emitted]:
        """Do what `step` says, but for moving `close`, which is still that of the step before, and counting rows."""

    @staticmethod
    def _accepted(records: Records, late: Mask, step: Step, bounds: Bounds) -> Records:
        """Count records, report the late ones, and return the others sorted by key and time.

        Args:
            records: those of a batch.
            late: shape (n,), bool: which of them are.
            step: where to count and report.
            bounds: returns start and end of the last window that records of these times could have been in.
        """
        step.counters.rows += len(records) + records.bad
        step.counters.bad += records.bad
        rows = np.flatnonzero(late)
        step.report_late(rows, bounds(records.time[rows]))
        accepted = records.take(np.flatnonzero(~late)) if len(rows) else records
        order = row_order(accepted.key, accepted.time)
        return accepted if order is None else accepted.take(order)

    def _fetch(self, keys: list[bytes], first: Ints, last: Ints, due: dict[int, Ints]) -> Entries:
        """Return whole pages: those that are due, and those of each key's span of time; first > last is no span."""
        parts = []
        for segment, numbers in self._wanted(first, last, due):
            entries = self.store.fetch_segment(segment, [keys[n] for n in numbers.tolist()])
            parts.append(Entries(numbers[entries.key], entries.columns))
        return merge_entries(parts, self.store.layout)

    def _wanted(self, first: Ints, last: Ints, due: dict[int, Ints]) -> Iterator[tuple[int, Ints]]:
        """Yield the segments of which pages are wanted, as `_fetch` says, and the numbers of their keys."""
        ticks = self.store.segment_ticks
        for segment in self.store.segments():
            begin = segment * ticks
            wanted = (first < begin + ticks) & (last >= begin)
            wanted[due.get(segment, NO_KEYS)] = True
            if wanted.any():
                yield segment, np.flatnonzero(wanted)

    def _replace(self, segment: int, keys: list[bytes], touched: Mask, entries: Entries) -> list[bytes]:
        """Write the pages of the touched keys, and return these; the entries are all that they hold, sorted by key and time."""
        names = [keys[n] for n in np.flatnonzero(touched).tolist()]
        local = np.cumsum(touched) - 1
        self.store.replace_segment(segment, names, Entries(local[entries.key], entries.columns))
        return names

    def _enter(self, segment: int, keys: list[bytes], due: dict[int, Ints], ends: PageEnds) -> None:
        """Enter the pages that were due again, and those that now have an earlier end than they had."""
        was_due = np.zeros(len(keys), bool)
        was_due[due.get(segment, NO_KEYS)] = True
        wanted = was_due[ends.key] | (ends.now < ends.before)
        names = [keys[n] for n in ends.key[wanted].tolist()]
        self._calendar.add(segment, names, ends.now[wanted])


def first_by_key(key: Ints, value: Ints) -> tuple[Ints, Ints]:
    """Return the distinct keys of rows that are sorted by key, and the least value of each."""
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    return key[starts], least(value, starts)


def least(value: Ints, starts: Ints) -> Ints:
    """Return the least value of each run of rows that begins at `starts`."""
    return np.minimum.reduceat(value, starts) if len(starts) else value[:0]


def distinct(numbers: Ints) -> Ints:
    """Return the distinct ones of numbers that lie close together, ascending."""
    if not len(numbers):
        return numbers
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > len(numbers):
        return np.unique(numbers)
    return np.flatnonzero(np.bincount(numbers - low)) + low


def rows_by_segment(number: Ints, segments: Ints) -> list[Ints]:
    """Return the rows of each of the segments, in their order.

    Args:
        number: shape (n,), int64: the segment of each row.
        segments: distinct segments, ascending.
    """
    if not len(segments):
        return []
    place = np.searchsorted(segments, number)
    rows = np.flatnonzero(segments[np.minimum(place, len(segments) - 1)] == number)
    order = row_order(place[rows], np.zeros(len(rows), np.int64))
    rows = rows if order is None else rows[order]
    edges = np.searchsorted(place[rows], np.arange(len(segments) + 1))
    return [rows[a:b] for a, b in pairwise(edges.tolist())]
