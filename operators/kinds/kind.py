"""What a kind of windows says about time. Kinds are values: they see times, and no store.

In this room the end of a window is its last tick, so a window is closed if its end is before the close time.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.columns.ranges import Ints, Mask
from operators.columns.records import Records
from operators.columns.zones import Zone
from operators.kinds.described import WindowsPart
from operators.kinds.folding import FoldedWindows, FoldSchema
from state_backends import Entries


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows as ranges of sorted panes.

    Attributes:
        lo, hi: shape (n,), int64: the panes [lo, hi) that each window contains.
        pane: shape (n,), int64: the pane that defines the window.
        start, end: shape (n,), int64: bounds in ticks as they are emitted.
    """

    lo: Ints
    hi: Ints
    pane: Ints
    start: Ints
    end: Ints

    def take(self, rows: Mask) -> "Windows":
        """Return the windows under the mask."""
        columns = (self.lo, self.hi, self.pane, self.start, self.end)
        return Windows(*(column[rows] for column in columns))

    def contain(self, marked: Mask) -> Mask:
        """Return which windows contain a pane under the mask."""
        before = np.concatenate([[0], np.cumsum(marked)])
        return before[self.hi] > before[self.lo]


class WindowKind(ABC):
    """Where windows lie in time.

    Attributes:
        name: the name of the kind, as it is stored with the state.
    """

    __slots__ = ()
    name: ClassVar[str]

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """The kind and its lengths, under the names that are stored with the state."""

    @property
    @abstractmethod
    def max_bound_offset(self) -> int:
        """How many ticks the bound of a window can be away from an event time in it."""

    @property
    @abstractmethod
    def dependency_span(self) -> int:
        """How many ticks a record can be away from the entries that it changes or whose windows it is in."""

    @property
    def zone(self) -> Zone | None:
        """The zone whose calendar says where windows begin, if there is one."""
        return None

    @abstractmethod
    def describe(self, tick_us: int) -> WindowsPart:
        """Return the windows as text, given the length of a tick in microseconds."""

    @abstractmethod
    def late_before(self, close_time: int) -> int:
        """Return the time before which a record is late: all windows that could contain it are closed."""

    def incomplete_before(self, close_time: int) -> int:
        """Return the time before which a stored entry may lack records that were late."""
        return self.late_before(close_time)

    @abstractmethod
    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end, as they are emitted, of the last window that can contain a record at each time."""

    @abstractmethod
    def dead_before(self, close_time: int) -> int:
        """Return the time before which no window needs an entry."""

    def stored_span(self, close_time: int, latest: int) -> tuple[int, int]:
        """Return the first and the last tick that stored windows depend on, given the latest time of an entry."""
        return self.dead_before(close_time), latest


class PaneKind(WindowKind):
    """Windows that are ranges of panes."""

    __slots__ = ()
    condenses: ClassVar[bool]
    """Whether a pane stands for a span of time, so that panes are few even if records are many."""

    @property
    def grid(self) -> tuple[int, int] | None:
        """Length and offset of panes of equal length; None if a pane is a time."""
        return None

    @property
    def longest_pane(self) -> int:
        """The most ticks that a pane lasts."""
        return 1

    @abstractmethod
    def pane_of(self, time: Ints) -> Ints:
        """Return the time of the pane that each record belongs to, which ascends with the record's own."""

    @abstractmethod
    def next_end(self, time: Ints, close_time: int) -> Ints:
        """Return the last tick of the next window to close that a pane at each time defines, or NEVER."""

    @abstractmethod
    def earliest_end(self, first: int, last: int, close_time: int) -> int:
        """Return a tick before which `next_end` is of no pane at a time from `first` to `last`."""

    @abstractmethod
    def within_all(self, close_time: int) -> int:
        """Return the start of the last window that is closed at a close time, or a later time."""

    @abstractmethod
    def closed_windows(self, key: Ints, time: Ints, since: int, close_time: int) -> Windows:
        """Return the windows that end at `since` or later and before `close_time`.

        Args:
            key, time: shape (n,), int64: distinct panes, sorted.
            since, close_time: ticks.
        """

    @abstractmethod
    def changed_windows(self, key: Ints, time: Ints, changed: Mask, fresh: Mask, close_time: int) -> Windows:
        """Return the windows that are open at a close time and that records have changed.

        Args:
            key, time: shape (n,), int64: distinct panes, sorted.
            changed: shape (n,), bool: which panes got records.
            fresh: shape (n,), bool: which panes are new, so that they define new windows.
            close_time: ticks.
        """


class FoldKind(WindowKind):
    """Windows with a stored state each. The time of an entry is the end of its window."""

    __slots__ = ()
    head: ClassVar[tuple[tuple[str, str], ...]]
    """Name and kind of each stored column before the states."""

    @abstractmethod
    def bounds(self, last_tick: Ints) -> tuple[Ints, Ints]:
        """Return starts and ends, as they are emitted, of windows with these last ticks."""

    @abstractmethod
    def is_window(self, entries: Entries) -> Mask:
        """Return which entries are windows."""

    @abstractmethod
    def fold(self, schema: FoldSchema, stored: Entries, records: Records, close_time: int) -> FoldedWindows:
        """Return the windows after a batch.

        Args:
            schema: the schema of the entries.
            stored: entries of the records' keys within `dependency_span`, sorted by key and end.
            records: those that are not late, sorted by key and time.
            close_time: the close time at which they arrive.
        """
