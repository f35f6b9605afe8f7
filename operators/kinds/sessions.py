"""Session windows: records of a key that follow one another with no gap, merged on columns.

A store entry is a session, under the last tick for which it waits: its first event time plus what it takes to go on.
Where sessions have a greatest length, a late-coming record can move the cuts between them; so there an entry is one event
time of a session, and sessions are put together anew from these. An entry's columns are the end of its session, the start
of its session, its own event time, the tick up to which it waits itself, and the states of all operations in turn.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from operators.aggregates.operation import Operation
from operators.columns.ranges import Ints, Mask, State, run_starts
from operators.columns.records import FAR_FUTURE, Records
from operators.kinds.bounds import session_starts
from operators.kinds.folding import positions
from operators.kinds.panes import join_states, split_states
from operators.kinds.plan import WindowPlan
from operators.steps.emission import Emission
from operators.steps.partials import Partials
from operators.steps.step import Step
from operators.steps.store_operator import PageEnds, Pages, StoreOperator, Touched, first_by_key
from operators.steps.timers import NEVER
from state_backends import Entries, WindowStore
from state_backends.store.ordering import row_order
from state_backends.store.schema import TIME

_END, _START, _AT, _WAITS, _STATES = range(5)


@dataclass(frozen=True, slots=True)
class SessionPlan(WindowPlan):
    """What a session operator computes.

    Attributes:
        gap: ticks for which a session waits for its next record; None if each record brings its own.
        longest: ticks from a session's first event to its last at most, or None.
        on_update: whether changed sessions are emitted after each batch, instead of closed ones once.
        operations: the distinct operations of all aggregates.
    """

    gap: int | None
    longest: int | None
    on_update: bool
    operations: tuple[Operation, ...]

    @property
    def condenses(self) -> bool:
        """Whether entries are few where records are many."""
        return self.longest is None

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        return ("end", TIME), ("start", TIME), ("at", TIME), ("waits_until", TIME)

    @property
    def reach(self) -> int:
        """How far in ticks a session's end can be from its last record; 0 if each record brings its own gap."""
        return self.gap or 0

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "windows": "session",
            "gap in ticks": "of each record" if self.gap is None else self.gap,
            "max length in ticks": self.longest,
        }

    def operator(self, store: WindowStore) -> "SessionOperator":
        """Return the operator over a store."""
        return SessionOperator(self, store)

    def waits(self, records: Records) -> Ints:
        """Return the tick up to which each record's session waits for the next one."""
        return records.time + (self.gap or 0 if records.gap is None else records.gap)

    def accumulate(self, records: Records) -> Partials:
        """Return a batch's records as entries, as few as can be. The bounds of their sessions are not filled in yet."""
        waits = self.waits(records)
        order = self._order(records.key, records.time, waits)
        if order is not None:
            records, waits = records.take(order), waits[order]
        at, starts = records.time, self._starts(records.key, records.time, waits)
        states = [op.accumulate(records, starts) for op in self.operations]
        waits = np.maximum.reduceat(waits, starts) if len(starts) else waits
        count = np.diff(np.append(starts, len(records)))
        entries = _entries(records.key[starts], (at[starts], at[starts], at[starts], waits), states)
        return Partials(records.keys, entries, count, records.bad, order)

    def reduce(self, partials: Partials) -> Partials:
        """Return the entries of several tasks as few as can be."""
        entries, count = partials.entries, partials.records
        order = self._order(entries.key, entries.columns[_AT], entries.columns[_WAITS])
        if order is not None:
            entries, count = entries.take(order), count[order]
        starts = self._starts(entries.key, entries.columns[_AT], entries.columns[_WAITS])
        count = np.add.reduceat(count, starts) if len(starts) else count
        return Partials(partials.keys, self.merged(entries, starts), count, partials.bad)

    def _order(self, key: Ints, at: Ints, waits: Ints) -> Ints | None:
        if self.longest is not None and self.gap is None:
            return np.lexsort((waits, at, key))
        return row_order(key, at)

    def _starts(self, key: Ints, at: Ints, waits: Ints) -> Ints:
        """Where the records begin that make one entry: a session, or what cannot be told apart."""
        if self.longest is None:
            return session_starts(key, at, waits)
        change = np.ones(len(key), bool)
        change[1:] = (key[1:] != key[:-1]) | (at[1:] != at[:-1]) | (waits[1:] != waits[:-1])
        return np.flatnonzero(change)

    def merged(self, entries: Entries, starts: Ints) -> Entries:
        """Return one entry for each run of entries that begins at `starts`."""
        if len(starts) == len(entries):
            return entries
        states = [
            op.reduce(state, starts) for op, state in zip(self.operations, self.states(entries), strict=True)
        ]
        first = [column[starts] for column in entries.columns[:_WAITS]]
        waits = np.maximum.reduceat(entries.columns[_WAITS], starts)
        return _entries(entries.key[starts], (*first, waits), states)

    def states(self, entries: Entries) -> list[State]:
        """Return the entries' states, one per operation."""
        return split_states(self.operations, entries.columns[_STATES:])


def _entries(key: Ints, times: tuple[Ints, ...], states: list[State]) -> Entries:
    return Entries(key, (*times, *join_states(states)))


@dataclass(frozen=True, slots=True)
class _Sessions:
    """Stored entries and those of a batch, sorted by key and event time and cut into sessions.

    Attributes:
        entries: with the end and start that their sessions had in the store; those of the batch have none.
        source: shape (n,), int64: position of each entry among those of the batch; -1 if it was stored.
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

    @property
    def stored(self) -> Mask:
        """Whether each entry was stored before."""
        return self.source < 0

    @property
    def moved(self) -> Mask:
        """Whether each entry was stored in a session of other bounds than those of the one that it is in now."""
        columns = self.entries.columns
        same = (columns[_START] == self.start[self.number]) & (columns[_END] == self.end[self.number])
        return self.stored & ~same

    @property
    def changed(self) -> Mask:
        """Whether each session is another than it was in the store."""
        changed = np.zeros(len(self.first), bool)
        changed[self.number[~self.stored | self.moved]] = True
        return changed

    @property
    def begun(self) -> int:
        """How many sessions have nothing that was stored."""
        return len(self.first) - len(np.unique(self.number[self.stored]))

    def take(self, wanted: Mask) -> "_Sessions":
        """Return the sessions under the mask."""
        if wanted.all():
            return self
        kept = wanted[self.number]
        first = np.flatnonzero(np.diff(self.number[kept], prepend=-1))
        return _Sessions(
            self.entries.take(kept), self.source[kept], first, self.start[wanted], self.end[wanted]
        )


class SessionOperator(StoreOperator):
    """Session windows over one store."""

    def __init__(self, plan: SessionPlan, store: WindowStore) -> None:
        super().__init__(store, closes=not plan.on_update)
        self.plan = plan

    def next_due(self, entries: Entries) -> Ints:
        return entries.time

    def take(self, batch: Partials, step: Step) -> list[Emission]:
        close_start, close_end = step.close_start, step.close_end
        batch.check_order(distinct=self.plan.longest is None)
        late = self._late(batch.entries, close_start)
        batch.report(step, late, lambda _: _alone(batch.entries.take(late)))
        source = np.flatnonzero(~late)
        brought = batch.entries.take(source)
        touched = self._touched(batch.keys, close_end)
        stored = self._load(touched, brought)
        final = stored.take(stored.time < close_start)
        sessions = self._joined(stored.take(stored.time >= close_start), brought, source)
        if self.plan.longest is None:
            late = sessions.end < close_start
            if late.any():
                self._report_late(batch, step, sessions.take(late))
                sessions = sessions.take(~late)
        step.counters.panes += sessions.begun
        if self.plan.on_update:
            windows = [
                self._retracted(touched.keys, sessions),
                self._emission(touched.keys, sessions.take(sessions.changed)),
            ]
        else:
            closed = self._joined(final, brought.take(source[:0]), source[:0])
            windows = [
                self._emission(touched.keys, closed),
                self._emission(touched.keys, sessions.take(sessions.end < close_end)),
            ]
        self._save(touched, (stored, final), sessions, close_end)
        return windows

    def _late(self, brought: Entries, close: int) -> Mask:
        """Where lengths are limited: the entries that would make no open session by themselves."""
        if self.plan.longest is None:
            return np.zeros(len(brought), bool)
        return brought.columns[_WAITS] < close

    @staticmethod
    def _report_late(batch: Partials, step: Step, sessions: _Sessions) -> None:
        """Report the records of sessions that were closed before these came."""
        brought = ~sessions.stored
        number = sessions.number[brought]
        batch.report_late(step, sessions.source[brought], (sessions.start[number], sessions.end[number]))

    def _load(self, touched: Touched, brought: Entries) -> Entries:
        """The due pages, and of the batch's keys those that can hold a session that waits for one of its records."""
        keys, earliest = first_by_key(brought.key, brought.columns[_AT])
        touched.widen(keys, earliest, FAR_FUTURE)
        return self._fetch(touched)

    def _joined(self, stored: Entries, brought: Entries, source: Ints) -> _Sessions:
        """Put stored entries and new ones together to sessions."""
        columns = tuple(map(np.concatenate, zip(stored.columns, brought.columns, strict=True)))
        entries = Entries(np.concatenate([stored.key, brought.key]), columns)
        source = np.concatenate([np.full(len(stored), -1), source])
        order = row_order(entries.key, entries.columns[_AT])
        if order is not None:
            entries, source = entries.take(order), source[order]
        at, waits = entries.columns[_AT], entries.columns[_WAITS]
        first = session_starts(entries.key, at, waits, self.plan.longest)
        end = np.maximum.reduceat(waits, first) if len(first) else first
        return _Sessions(entries, source, first, at[first], end)

    def _emission(self, keys: list[bytes], sessions: _Sessions) -> Emission:
        merged = self.plan.merged(sessions.entries, sessions.first)
        lo = np.arange(len(merged))
        states = [
            op.combine_ranges(state, lo, lo + 1)
            for op, state in zip(self.plan.operations, self.plan.states(merged), strict=True)
        ]
        return Emission(keys, merged.key, sessions.start, sessions.end, states)

    @staticmethod
    def _retracted(keys: list[bytes], sessions: _Sessions) -> Emission:
        """The stored sessions that are no more: the first entry of each is in a session of other bounds now."""
        entries = sessions.entries
        gone = entries.take(sessions.moved & (entries.columns[_AT] == entries.columns[_START]))
        return Emission(keys, gone.key, gone.columns[_START], gone.columns[_END], (), retract=True)

    def _save(
        self, touched: Touched, loaded: tuple[Entries, Entries], sessions: _Sessions, close: int
    ) -> None:
        """Write the pages that lost or gained an entry.

        Args:
            touched: what the step touched.
            loaded: all entries that were stored, and those of sessions that were final before the batch.
            sessions: those of the other entries, and of the batch.
            close: the close time after the batch.
        """
        ticks, (stored, final) = self.store.segment_ticks, loaded
        changed, closed = sessions.changed, sessions.end < close
        gone = sessions.stored & (changed | closed)[sessions.number]
        entries, number = self._to_store(sessions.take(~closed))
        moved = [final, sessions.entries.take(gone), entries.take(changed[~closed][number])]
        places = Entries(
            np.concatenate([part.key for part in moved]), (np.concatenate([part.time for part in moved]),)
        )
        pages = Pages.of(entries, ticks)
        ends = _page_ends(pages, Pages.of(stored, ticks)) if self.closes else None
        self._write_back(touched, pages, Pages.of(places, ticks), ends, close)

    def _to_store(self, sessions: _Sessions) -> tuple[Entries, Ints]:
        """The entries to be stored for some sessions, sorted by key and end, and the number of each one's session."""
        entries = sessions.entries
        whole = self.plan.longest is None
        starts = sessions.first if whole else run_starts(entries.key, entries.columns[_AT])
        number = sessions.number[starts]
        merged = self.plan.merged(entries, starts)
        bounds = sessions.end[number], sessions.start[number]
        merged = Entries(merged.key, (*bounds, *merged.columns[_AT:]))
        order = row_order(merged.key, merged.time)
        return (merged, number) if order is None else (merged.take(order), number[order])


def _alone(entries: Entries) -> tuple[Ints, Ints]:
    """Bounds of the sessions that entries would be by themselves."""
    return entries.columns[_AT], entries.columns[_WAITS]


def _page_ends(pages: Pages, stored: Pages) -> PageEnds:
    """When pages are due, and when they were due as they were stored."""
    row = positions(stored.key, stored.segment, pages.key, pages.segment, "left")
    key, segment = np.append(stored.key, -1), np.append(stored.segment, 0)
    before = np.append(stored.least(stored.entries.time), NEVER)
    known = (key[row] == pages.key) & (segment[row] == pages.segment)
    return PageEnds(pages.least(pages.entries.time), np.where(known, before[row], NEVER))
