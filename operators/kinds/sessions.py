"""Sessions: records of a key that follow one another without a gap.

The head of a session's entry: the end and the start of the session, the time of its first event, and the tick until which it
waits for the next record.
"""

from dataclasses import dataclass, field

import numpy as np

from operators.columns.ranges import Ints, Mask
from operators.kinds.bounds import session_starts
from state_backends import Entries
from state_backends.store.ordering import row_order

END, START, AT, WAITS, STATES = range(5)
"""Columns of an entry; those from the last number on are states."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """The entries of a step, stored and new, sorted by key and event time and divided into sessions.

    Attributes:
        entries: the stored entries, with end and start of their sessions; entries of the batch have neither yet.
        source: shape (n,), int64: position of each entry among those of the batch; -1 for a stored entry.
        first: shape (m,), int64: where each session begins.
        start, end: shape (m,), int64: bounds of each session.
        number: shape (n,), int64: the number of each entry's session.
    """

    entries: Entries
    source: Ints
    first: Ints
    start: Ints
    end: Ints
    number: Ints = field(init=False)

    def __post_init__(self) -> None:
        length = np.diff(np.append(self.first, len(self.entries)))
        object.__setattr__(self, "number", np.repeat(np.arange(len(self.first)), length))

    @classmethod
    def divide(cls, stored: Entries, new: Entries, source: Ints, longest: int | None) -> "Sessions":
        """Divide stored and new entries into sessions.

        Args:
            stored, new: entries.
            source: shape (new,), int64: positions of the new ones among those of the batch.
            longest: maximum number of ticks from a session's first event to its last, or None.
        """
        columns = tuple(map(np.concatenate, zip(stored.columns, new.columns, strict=True)))
        entries = Entries(np.concatenate([stored.key, new.key]), columns)
        source = np.concatenate([np.full(len(stored), -1), source])
        order = row_order(entries.key, entries.columns[AT])
        if order is not None:
            entries, source = entries.take(order), source[order]
        at, waits = entries.columns[AT], entries.columns[WAITS]
        first = session_starts(entries.key, at, waits, longest)
        end = np.maximum.reduceat(waits, first) if len(first) else first
        return cls(entries, source, first, at[first], end)

    @property
    def stored(self) -> Mask:
        """Whether each entry was stored."""
        return self.source < 0

    @property
    def moved(self) -> Mask:
        """Whether each entry was stored in a session with other bounds than those of its session now."""
        columns = self.entries.columns
        same = (columns[START] == self.start[self.number]) & (columns[END] == self.end[self.number])
        return self.stored & ~same

    @property
    def restarted(self) -> Mask:
        """Whether each entry was stored in a session with another start than that of its session now."""
        return self.stored & (self.entries.columns[START] != self.start[self.number])

    @property
    def changed(self) -> Mask:
        """Whether each session differs from what was stored."""
        changed = np.zeros(len(self.first), bool)
        changed[self.number[~self.stored | self.moved]] = True
        return changed

    @property
    def begun(self) -> int:
        """The number of sessions without a stored entry."""
        return len(self.first) - len(np.unique(self.number[self.stored]))

    def take(self, rows: Mask) -> "Sessions":
        """Return the sessions under the mask."""
        if rows.all():
            return self
        kept = rows[self.number]
        first = np.flatnonzero(np.diff(self.number[kept], prepend=-1))
        return Sessions(self.entries.take(kept), self.source[kept], first, self.start[rows], self.end[rows])


def alone(entries: Entries) -> tuple[Ints, Ints]:
    """Return the bounds of the sessions that entries would be alone."""
    return entries.columns[AT], entries.columns[WAITS]
