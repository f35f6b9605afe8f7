"""Session windows: records of a key that follow one another without a gap, merged as columns.

A store entry is a session, and its time is the session's end: the last tick until which it waits for the next record. Its
columns are the end and the start of the session, the time of its first event, the tick until which it waits, and the states of
all operations.

If sessions have a maximum length, an out-of-order record can move the cuts between them. Then an entry is one event time of a
session, and its time is that: a record that makes the session longer changes no other entry. In place of the session's end,
which follows from the ticks until which its entries wait, the first column has the event time once more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from operators.aggregates.definitions import Bound
from operators.aggregates.operation import Operation, join_states, split_states
from operators.aggregates.strategy import EVENT_TIMES, ONE_ENTRY, Strategy
from operators.aggregates.user_functions import AggregateError
from operators.columns.duration_text import length
from operators.columns.ranges import Ints, Mask, State, run_starts
from operators.columns.records import FAR_FUTURE, FAR_PAST, Records
from operators.kinds.bounds import session_starts
from operators.kinds.described import CLOSED, WindowsPart
from operators.kinds.sessions import AT, END, START, STATES, WAITS, Sessions, alone
from operators.steps.emission import Emission
from operators.steps.failed_windows import FailedWindow, note_window, with_keys
from operators.steps.lateness import find_late
from operators.steps.page_timers import first_by_key
from operators.steps.panes import accumulated, reduced
from operators.steps.partials import Partials
from operators.steps.plan import WindowPlan
from operators.steps.step import LateRecords, Step
from operators.steps.timed_store import Emitted, TimedStore
from operators.steps.touched import Rows, Timers, Touched
from state_backends import Entries, WindowStore
from state_backends.store.ordering import row_order
from state_backends.store.schema import TIME


@dataclass(frozen=True, slots=True)
class SessionPlan(WindowPlan):
    """What a session operator computes.

    Attributes:
        gap: ticks for which a session waits for its next record; None if each record has its own gap.
        longest: maximum number of ticks from a session's first event to its last, or None.
        on_update: whether changed sessions are emitted after each batch, instead of closed ones once.
        operations: the distinct operations of all aggregates.
    """

    gap: int | None
    longest: int | None
    on_update: bool
    operations: tuple[Operation, ...]

    @property
    def by_end(self) -> bool:
        """Whether the time of an entry is the end of its session."""
        return self.longest is None

    @property
    def two_stages(self) -> "SessionPlan":
        return self

    @property
    def condenses(self) -> bool:
        """Whether an entry stands for a span of time, so that entries are few even if records are many."""
        return self.longest is None

    @property
    def head(self) -> tuple[tuple[str, str], ...]:
        time = "end" if self.by_end else "time"
        return (time, TIME), ("start", TIME), ("at", TIME), ("waits_until", TIME)

    @property
    def max_bound_offset(self) -> int:
        """How many ticks a session ends after its last record; 0 if each record has its own gap."""
        return self.gap or 0

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "windows": "session",
            "gap in ticks": "of each record" if self.gap is None else self.gap,
            "max length in ticks": self.longest,
            **({} if self.by_end else {"entries": "each event time"}),
        }

    def late_before(self, close_time: int) -> int:
        """Return the end before which a session is closed, so that its records are late."""
        return close_time

    def next_due(self, entries: Entries, close_time: int) -> Ints:
        del close_time
        return self.load(entries).time

    def earliest_due(self, first: int, last: int, close_time: int) -> int:
        return first

    @property
    def has_timers(self) -> bool:
        """The times of entries of sessions with a maximum length do not say when they can go, whatever is emitted."""
        return not (self.on_update and self.by_end)

    def windows(self, tick_us: int, gap: str | None) -> WindowsPart:
        waits = f"the gap in column {gap!r}" if self.gap is None else length(self.gap * tick_us)
        limit, late = "", "a record whose session, including all that it joins, is closed"
        entry, entries = "an open session of a key", "sessions"
        if self.longest is not None:
            most = length(self.longest * tick_us)
            limit = f"; at most {most} from first to last event, then the next session begins"
            late = "a record whose session without other records would be closed"
            entry = "a distinct event time of a session, since late records can move its bounds"
            entries = "event times"
        return WindowsPart(
            f"sessions with gaps of {'each record' if self.gap is None else waits}",
            f"[first event, last event + {waits}], both ends inclusive{limit}",
            late,
            CLOSED,
            entry,
            entries,
            "its last record",
            None if self.gap is None else (self.gap + 1) * tick_us,
            lone=self.longest is None,
        )

    def strategy_of(self, bound: Bound) -> tuple[Strategy, None]:
        del bound
        return ONE_ENTRY if self.longest is None else EVENT_TIMES, None

    def engine(self, store: WindowStore) -> "SessionEngine":
        """Return the engine over a store."""
        return SessionEngine(self, store)

    def waits(self, records: Records) -> Ints:
        """Return the tick until which each record's session waits for the next record."""
        return records.time + (self.gap or 0 if records.gap is None else records.gap)

    def accumulate(self, records: Records) -> Partials:
        """Return the records of a batch as entries, as few as possible. The bounds of their sessions are not set yet."""
        waits = self.waits(records)
        order = self._order(records.key, records.time, waits)
        if order is not None:
            records, waits = records.take(order), waits[order]
        at, starts = records.time, self._starts(records.key, records.time, waits)
        states = accumulated(self.operations, records, starts)
        waits = np.maximum.reduceat(waits, starts) if len(starts) else waits
        count = np.diff(np.append(starts, len(records)))
        entries = _entries(records.key[starts], (at[starts], at[starts], at[starts], waits), states)
        return Partials(records.keys, entries, count, records.bad, order)

    def reduce(self, partials: Partials) -> Partials:
        """Return the entries of several tasks sorted, and combined to as few as possible."""
        entries, count = partials.entries, partials.records
        order = self._order(entries.key, entries.columns[AT], entries.columns[WAITS])
        if order is not None:
            entries, count = entries.take(order), count[order]
        starts = self._starts(entries.key, entries.columns[AT], entries.columns[WAITS])
        count = np.add.reduceat(count, starts) if len(starts) else count
        with with_keys(partials.keys):
            merged = self.merge(entries, starts)
        return Partials(partials.keys, merged, count, partials.bad)

    def _order(self, key: Ints, at: Ints, waits: Ints) -> Ints | None:
        if self.longest is not None and self.gap is None:
            return np.lexsort((waits, at, key))
        return row_order(key, at)

    def _starts(self, key: Ints, at: Ints, waits: Ints) -> Ints:
        """Where each entry's records begin: those of a session, or those with equal times if sessions have a maximum length."""
        if self.longest is None:
            return session_starts(key, at, waits)
        change = np.ones(len(key), bool)
        change[1:] = (key[1:] != key[:-1]) | (at[1:] != at[:-1]) | (waits[1:] != waits[:-1])
        return np.flatnonzero(change)

    def merge(self, entries: Entries, starts: Ints) -> Entries:
        """Return one entry for each run of entries that begins at `starts`."""
        if len(starts) == len(entries):
            return entries

        def session(n: int) -> FailedWindow:
            mine = slice(starts[n], np.append(starts[1:], len(entries))[n])
            first, last = entries.columns[AT][mine].min(), entries.columns[WAITS][mine].max()
            return FailedWindow(int(entries.key[starts[n]]), int(first), int(last))

        states = reduced(self.operations, self.states, entries, starts, session)
        first = [column[starts] for column in entries.columns[:WAITS]]
        waits = np.maximum.reduceat(entries.columns[WAITS], starts)
        return _entries(entries.key[starts], (*first, waits), states)

    def time(self, entries: Entries) -> Ints:
        """Return the time of each entry in the store."""
        return entries.columns[END if self.by_end else AT]

    def load(self, stored: Entries) -> Entries:
        """Return stored entries, sorted by key and time, with the end of their session in the first column.

        Where entries of a session are missing, its end may be early.
        """
        if self.by_end or not len(stored):
            return stored
        first = run_starts(stored.key, stored.columns[START])
        waits = np.maximum.reduceat(stored.columns[WAITS], first)
        ends = np.repeat(waits, np.diff(np.append(first, len(stored))))
        return Entries(stored.key, (ends, *stored.columns[START:]))

    def dead_before(self, close_time: int) -> int:
        """Return the time before which the store has no entry of a session that is open at a close time."""
        if self.by_end or self.longest is None:
            return close_time
        return FAR_PAST if self.gap is None else close_time - self.gap - self.longest

    def states(self, entries: Entries) -> list[State]:
        """Return the entries' states, one per operation."""
        return split_states(self.operations, entries.columns[STATES:])


def _entries(key: Ints, times: tuple[Ints, ...], states: list[State]) -> Entries:
    return Entries(key, (*times, *join_states(states)))


class SessionEngine:
    """Processes batches over the sessions of one store.

    Args:
        plan: what is computed.
        store: has the entries of sessions.
    """

    def __init__(self, plan: SessionPlan, store: WindowStore) -> None:
        self.plan = plan
        self.state = TimedStore(store, plan, retract=self._retract if plan.on_update else None)

    def step(self, batch: Partials, step: Step) -> Sequence[Emitted]:
        """Process one batch and return the sessions to emit."""
        self.state.begin(step)
        close_time_start, close_time_end = step.close_time_start, step.close_time_end
        batch.check_order(distinct=self.plan.longest is None)
        batch.count_rows(step)
        source = self._accepted(batch, step)
        new = batch.entries.take(source)
        touched = self.state.touch(batch.keys, close_time_end)
        stored = self._load(touched, new)
        final = stored.take(stored.time < close_time_start)
        sessions = Sessions.divide(
            stored.take(stored.time >= close_time_start), new, source, self.plan.longest
        )
        if self.plan.longest is None:
            late, missed = find_late(
                sessions.end, self.plan, step, lambda rows: (sessions.start[rows], sessions.end[rows])
            )
            if late.any():
                self._report_late(batch, step, sessions.take(late), missed)
                sessions = sessions.take(~late)
        step.counters.panes += sessions.begun
        if self.plan.on_update:
            windows = [
                # Stored sessions that are part of others now.
                self._gone(touched.keys, sessions.entries.take(sessions.moved)),
                self._emission(touched.keys, sessions.take(sessions.changed)),
            ]
        else:
            closed = Sessions.divide(final, new.take(source[:0]), source[:0], self.plan.longest)
            windows = [
                self._emission(touched.keys, closed),
                self._emission(touched.keys, sessions.take(sessions.end < close_time_end)),
            ]
        self._save(touched, (stored, final), sessions, close_time_end)
        return self.state.end(step, windows)

    def _retract(self, keys: list[bytes], entries: Entries) -> list[Emission]:
        stored = self.plan.load(entries)
        return [self._gone(keys, stored.take(stored.columns[END] >= self.state.close_time))]

    def _accepted(self, batch: Partials, step: Step) -> Ints:
        """The positions of entries that are not late: with a maximum length, those that alone would be no closed session."""
        entries = batch.entries
        if self.plan.longest is None:
            return np.arange(len(entries))
        late, missed = find_late(
            entries.columns[WAITS], self.plan, step, lambda rows: alone(entries.take(rows))
        )
        batch.report_late(step, missed)
        return np.flatnonzero(~late)

    @staticmethod
    def _report_late(batch: Partials, step: Step, sessions: Sessions, missed: LateRecords) -> None:
        """Report the records of sessions that were closed when they arrived."""
        late = ~sessions.stored
        row, number = sessions.source[late], sessions.number[late]
        batch.report_late(step, replace(missed, row=row, start=missed.start[number], end=missed.end[number]))

    def _load(self, touched: Touched, new: Entries) -> Entries:
        """Read the pages that are due, and those that can have a session of a key that waits for one of its records.

            stored sessions     |------|       |------|      |------|
            first record of the key         |
            read                            |--------------------------

        Sessions that end before the first record do not wait for it, nor for later ones. If sessions have a maximum length, all
        open ones are read, as the times of their entries do not say when they end.
        """
        if self.plan.by_end:
            keys, earliest = first_by_key(new.key, new.columns[AT])
            touched.widen(keys, earliest, FAR_FUTURE)
        else:
            touched.widen(np.arange(len(touched.keys)), FAR_PAST, FAR_FUTURE)
        return self.plan.load(self.state.fetch(touched))

    def _emission(self, keys: list[bytes], sessions: Sessions) -> Emission:
        with with_keys(keys):
            merged = self.plan.merge(sessions.entries, sessions.first)
        try:
            states = self._results(merged)
        except AggregateError as error:

            def run(first: int, last: int) -> None:
                self._results(merged.take(np.arange(first, last)))

            def session(n: int) -> FailedWindow:
                return FailedWindow(keys[merged.key[n]], int(sessions.start[n]), int(sessions.end[n]))

            note_window(error, run, len(merged), session)
            raise
        return Emission(keys, merged.key, sessions.start, sessions.end, states)

    def _results(self, merged: Entries) -> list[State]:
        lo = np.arange(len(merged))
        return [
            op.combine_ranges(state, lo, lo + 1)
            for op, state in zip(self.plan.operations, self.plan.states(merged), strict=True)
        ]

    @staticmethod
    def _gone(keys: list[bytes], entries: Entries) -> Emission:
        """Retractions of the sessions of stored entries: of each, the first entry counts."""
        gone = entries.take(entries.columns[AT] == entries.columns[START])
        return Emission(keys, gone.key, gone.columns[START], gone.columns[END], (), retract=True)

    def _save(
        self, touched: Touched, loaded: tuple[Entries, Entries], sessions: Sessions, close_time: int
    ) -> None:
        """Write the pages that lost or gained an entry.

        Args:
            touched: what the step touched.
            loaded: all stored entries, and those of sessions that were final before the batch.
            sessions: the sessions of the other entries and of the batch.
            close_time: the close time after the batch.
        """
        stored, final = loaded
        plan, closed = self.plan, sessions.end < close_time
        changed = sessions.changed[sessions.number] if plan.by_end else sessions.restarted
        gone = sessions.stored & (changed | closed[sessions.number])
        with with_keys(touched.keys):
            entries, new = self._to_store(sessions.take(~closed))
        moved = [final, sessions.entries.take(gone), entries.take(new)]
        places = [Rows(part.key, plan.time(part)) for part in moved]
        timers = (
            Timers(entries.time, Rows(stored.key, plan.time(stored)), stored.time)
            if plan.has_timers
            else None
        )
        written = Entries(entries.key, (plan.time(entries), *entries.columns[START:]))
        self.state.write_back(touched, written, places, timers, plan.dead_before(close_time))

    def _to_store(self, sessions: Sessions) -> tuple[Entries, Mask]:
        """The entries to store for sessions, in the order of the store, and which of them are not stored as they are."""
        entries = sessions.entries
        whole = self.plan.longest is None
        starts = sessions.first if whole else run_starts(entries.key, entries.columns[AT])
        number = sessions.number[starts]
        if self.plan.by_end:
            new = sessions.changed[number]
        else:
            new = np.logical_or.reduceat(~sessions.stored | sessions.restarted, starts)
        merged = self.plan.merge(entries, starts)
        bounds = sessions.end[number], sessions.start[number]
        merged = Entries(merged.key, (*bounds, *merged.columns[AT:]))
        order = row_order(merged.key, self.plan.time(merged))
        return (merged, new) if order is None else (merged.take(order), new[order])
