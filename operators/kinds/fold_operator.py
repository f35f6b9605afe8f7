"""Operators that store a state for each window: what sliding and hopping windows share if a state is a fold.

A step processes one batch between two close times. It reads the pages that are due and those that the batch can change, adds
the records to the windows, emits, and writes back the pages that changed. In this module the end of a window is its last tick,
so a window is closed if its end is before the close time.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from operators.columns.ranges import Ints, Mask
from operators.columns.records import Records
from operators.kinds.folding import FoldedWindows, FoldSchema
from operators.kinds.plan import WindowPlan
from operators.steps.emission import Emission
from operators.steps.step import Step
from operators.steps.store_operator import StoreOperator, first_by_key
from operators.steps.timers import NEVER
from operators.steps.touched import Rows, Timers, Touched
from state_backends import Entries, WindowStore


class FoldPlan(WindowPlan):
    """A window kind that stores a state for each window."""

    __slots__ = ()

    @property
    def schema(self) -> FoldSchema:
        """The columns of stored windows."""
        return FoldSchema(len(self.head), self.operations)

    def operator(self, store: WindowStore) -> "FoldOperator":
        """Return the operator over a store."""
        return FoldOperator(self, store)

    @property
    @abstractmethod
    def reach(self) -> int:
        """How many ticks an entry can be away from a record that changes it or starts from it."""

    @abstractmethod
    def late_before(self, close_time: int) -> int:
        """Return the time before which a record is late: all its windows are closed."""

    @abstractmethod
    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end, as they are emitted, of the last window that can contain a record at each time."""

    @abstractmethod
    def dead_before(self, close_time: int) -> int:
        """Return the end before which no window needs an entry."""

    @abstractmethod
    def bounds(self, end: Ints) -> tuple[Ints, Ints]:
        """Return starts and ends of windows as they are emitted."""

    @abstractmethod
    def is_window(self, entries: Entries) -> Mask:
        """Return which entries are windows."""

    @abstractmethod
    def fold(self, stored: Entries, records: Records, close_time: int) -> FoldedWindows:
        """Return the windows after a batch.

        Args:
            stored: entries of the records' keys within reach, sorted by key and end.
            records: those that are not late, sorted by key and time.
            close_time: the close time at which they arrive.
        """


class FoldOperator(StoreOperator):
    """An operator over the windows of one store."""

    def __init__(self, plan: FoldPlan, store: WindowStore) -> None:
        super().__init__(store, closes=not plan.on_update)
        self.plan = plan

    def next_due(self, entries: Entries) -> Ints:
        return self._next_end(entries, self.plan.is_window(entries), self.close_time)

    def earliest_due(self, first: int, last: int) -> int:
        return first

    @staticmethod
    def _next_end(entries: Entries, windows: Mask, close_time: int) -> Ints:
        return np.where(windows & (entries.time >= close_time), entries.time, NEVER)

    def process(self, batch: Records, step: Step) -> list[Emission]:
        close_time_start, close_time_end = step.close_time_start, step.close_time_end
        late = batch.time < self.plan.late_before(close_time_start)
        accepted = self._accepted(batch, late, step, self.plan.last_window)
        touched = self._touched(batch.keys, close_time_end)
        stored = self._load(touched, accepted)
        folded = self.plan.fold(stored, accepted, close_time_start)
        fresh = self.plan.is_window(folded.entries) & folded.fresh
        step.counters.panes += int(np.count_nonzero(fresh))
        windows = list(self._emit(touched.keys, stored, folded, (close_time_start, close_time_end)))
        self._save(touched, folded, close_time_end)
        return windows

    @property
    def retracts(self) -> bool:
        return self.plan.on_update

    def retracted(self, keys: list[bytes], entries: Entries) -> list[Emission]:
        chosen = self.plan.is_window(entries) & (entries.time >= self.close_time)
        return [replace(self._emission(keys, entries, chosen), retract=True)]

    def _load(self, touched: Touched, records: Records) -> Entries:
        """Read whole pages: those that are due, and those within reach of the records of their key."""
        keys, earliest = first_by_key(records.key, records.time)
        ends = np.append(np.searchsorted(records.key, keys[1:]), len(records)) - 1
        latest = records.time[ends[: len(keys)]]
        touched.widen(keys, earliest - self.plan.reach, latest + self.plan.reach)
        return self._fetch(touched)

    def _emit(
        self, keys: list[bytes], stored: Entries, folded: FoldedWindows, closes: tuple[int, int]
    ) -> Iterator[Emission]:
        close_time_start, close_time_end = closes
        end, windows = folded.entries.time, self.plan.is_window(folded.entries)
        if self.plan.on_update:
            yield self._emission(keys, folded.entries, windows & folded.changed & (end >= close_time_start))
            return
        closed = (stored.time >= self.close_time) & (stored.time < close_time_start)
        yield self._emission(keys, stored, self.plan.is_window(stored) & closed)
        closed = (end >= close_time_start) & (end < close_time_end)
        yield self._emission(keys, folded.entries, windows & closed)

    def _emission(self, keys: list[bytes], entries: Entries, chosen: Mask) -> Emission:
        windows = entries.take(chosen)
        return Emission(keys, windows.key, *self.plan.bounds(windows.time), self.plan.schema.results(windows))

    def _save(self, touched: Touched, folded: FoldedWindows, close_time: int) -> None:
        """Write the pages that changed, without entries that no window needs."""
        entries, timers = folded.entries, None
        if self.closes:
            due = self._next_end(entries, self.plan.is_window(entries), close_time)
            stored = ~folded.fresh
            timers = Timers(due, Rows(entries.key[stored], entries.time[stored]), due[stored])
        changed = Rows(entries.key[folded.changed], entries.time[folded.changed])
        self._write_back(touched, entries, [changed], timers, self.plan.dead_before(close_time))
