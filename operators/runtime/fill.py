"""Aggregates that were added to a running query, filled from history: the states of two savepoints joined, entry by entry.

    running query   records ...........|..............   its state counts them in the old aggregates
    added later                        |..............   and from then on in the new ones
    history         ..................................   its state, made by the new definition, counts them in all

An entry of the history that has the same records as the running query's gives it the states of the new aggregates. Where the
records differ, the running query's own states are kept if they began before the entry, or the history is refused.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from operators.aggregates.empty import empty_state
from operators.aggregates.operation import Operation, join_states, split_states
from operators.columns.ranges import Ints, Mask, State, run_starts
from operators.columns.records import FAR_PAST
from operators.engines.rolling_state import LIFE_PANE_TIME
from operators.errors import DefinitionError
from operators.kinds.rolling import LASTING
from operators.runtime.binding import Binding
from operators.runtime.evolution import ADAPT, StateConversion, conversion_for
from operators.runtime.restarts import effective_binding
from operators.steps.step import Step
from serializers import decode_keys
from state_backends import Entries, StateError
from state_backends.backends.memory import MemoryBackend
from state_backends.checkpoints.saved_files import SavedFile, SavedPage, saved_pages, write_files
from state_backends.checkpoints.savepoint import Savepoint, write_header
from state_backends.durability.folders import Folder
from state_backends.store.ordering import row_order
from state_backends.store.page_ids import key_of
from state_backends.store.schema import TIME

_CLOSE = 1e-9
"""Sums of floats may differ so much in the order of records."""


@dataclass(frozen=True)
class _Filled:
    """A state of the new definition: where it comes from.

    Attributes:
        own: its number among the running query's states; None if that has none.
        since: from when on that one counts all records, in ticks; None if it always did, or if there is none.
        complete: whether the running query's counts all records.
    """

    own: int | None
    since: int | None
    complete: bool


@dataclass(frozen=True)
class Fill:
    """Joins the savepoint of a running query and that of its history.

    Attributes:
        binding: the operator, with the new aggregates.
        running: the running query's state.
        history: made by the operator from the records that the query has read.
    """

    binding: Binding
    running: Savepoint
    history: Savepoint

    @classmethod
    def of(cls, binding: Binding, running: Savepoint, history: Savepoint, history_end: int | None) -> "Fill":
        """Return the join of two savepoints, if there is something to join.

        Args:
            binding, running, history: the attributes.
            history_end: the event time of the newest record of the history, in ticks; None if it has no record.

        Raises:
            DefinitionError: the operator has no aggregates.
            StateError: no aggregate lacks records, or the history ends before the running query's state begins, or is ahead.
        """
        if not binding.output.aggregates:
            raise DefinitionError("only aggregates can be filled from history, and the operator has none")
        found = cls(replace(binding, segment=running.schema.segment, segment_given=True), running, history)
        wanted = [each for each in found._sources if not each.complete]
        if not wanted:
            raise StateError(
                f"no aggregate lacks records in {running.uri}: start from it without history, or add the aggregate first"
            )
        begins = max([each.since for each in wanted if each.since is not None], default=None)
        grid = binding.plan.grid
        slack = binding.plan.max_bound_offset + 1 if grid is None else grid[0]
        if history_end is None or (begins is not None and history_end < begins - slack):
            ends = "has no records" if history_end is None else f"ends at {found._time(history_end)}"
            since = found._time(running.close_time if begins is None else begins)
            raise StateError(
                f"the history {ends}, before the new aggregates of the running query begin to count, at {since}: add the "
                "records that the query has read until then"
            )
        earliest = min([file.close_time for file in running.files], default=running.close_time)
        if history.close_time > earliest:
            raise StateError(
                f"the history is closed up to {found._time(history.close_time)}, and the running query only up to "
                f"{found._time(earliest)}: make its savepoint with this close time"
            )
        return found

    def files(self, folder: Folder, number: int, buckets: int) -> Iterator[SavedFile]:
        """Write the files of one bucket of `buckets`, and yield what describes them.

        Cost: the history's states of the bucket are in memory at once.
        """
        history = list(self.history.groups(number, buckets))
        for close_time, keys, entries in self.running.groups(number, buckets):
            joined = self._joined(keys, entries, self._of_keys(history, keys, close_time), close_time)
            store = self.binding.store(MemoryBackend())
            store.put_many(keys, joined)
            puts = store.drain_changes().puts.values()
            pages: list[SavedPage] = sorted(
                saved_pages((key_of(name), page) for part in puts for name, page in part.items()),
                key=lambda page: page.crc,
            )
            yield from write_files(folder, number, self.binding.plan.layout, pages, close_time)

    def write_header(self, folder: Folder, files: Iterable[SavedFile]) -> Savepoint:
        """Complete the savepoint that has these files. It goes on from where the running query was."""
        origin = {name: value for name, value in self.running.origin.items() if name != "since"}
        identity, schema = self.binding.identity(), self.binding.stored_schema()
        return write_header(folder, identity, schema, self.running.close_time, files, origin)

    @cached_property
    def _effective(self) -> Binding:
        return effective_binding(self.binding, self.running.identity, moved=True)

    @cached_property
    def _change(self) -> StateConversion | None:
        stored, effective = self.running, self._effective
        return conversion_for(
            effective, effective.identity(), stored.identity, stored.schema, ADAPT, moved=True
        )

    @cached_property
    def _sources(self) -> list[_Filled]:
        """Where each state of the binding comes from."""
        effective, change = self._effective, self._change
        begun, since = [] if change is None else change.begun, self.running.origin.get("since") or {}
        lasting = self.running.identity.get(LASTING)
        for_ever = getattr(self.binding.plan, "lasting", ())
        own = effective.plan.operations

        def source(operation: Operation) -> _Filled:
            name = operation.describe()
            mine = [
                n
                for n, each in enumerate(own)
                if each.base_operation == operation and each.describe() not in begun
            ]
            whole = [n for n in mine if own[n].describe() not in since]
            limited = operation in for_ever and lasting is not None and name not in lasting
            if whole and not limited:
                return _Filled(whole[0], None, complete=True)
            later = sorted((since[own[n].describe()], n) for n in mine if own[n].describe() in since)
            if limited or not later:
                return _Filled(None, None, complete=False)
            return _Filled(later[0][1], later[0][0], complete=False)

        return [source(operation) for operation in self.binding.plan.operations]

    def _of_keys(
        self, history: Sequence[tuple[int, list[bytes], Entries]], keys: list[bytes], close_time: int
    ) -> Entries:
        """The history's entries of keys, as they are at a close time; numbered as the keys are."""
        store, numbers = self.binding.store(MemoryBackend()), {key: number for number, key in enumerate(keys)}
        for closed, names, entries in history:
            at = np.array([n for n, name in enumerate(names) if name in numbers], np.int64)
            kept = entries.take(np.isin(entries.key, at))
            kept = Entries(np.searchsorted(at, kept.key), kept.columns)
            kept = self.binding.plan.cut_entries(kept, self.binding.segment, closed)
            store.put_many([names[n] for n in at.tolist()], kept)
        engine = self.binding.plan.engine(store)
        engine.state.rebuild(self.history.close_time)
        # At the history's own close time, too: its segments may be longer than the query's.
        engine.step(self.binding.read([self.binding.inputs.empty()]), Step(close_time, close_time))
        parts = [
            Entries(np.array([numbers[name] for name in names], np.int64)[entries.key], entries.columns)
            for names, entries in store.scan()
        ]
        empty = self.binding.plan.layout
        columns = tuple(
            np.concatenate([part.columns[n] for part in parts])
            if parts
            else np.empty(0, object if code == "object" else code)
            for n, code in enumerate(empty.codes)
        )
        key = np.concatenate([part.key for part in parts]) if parts else np.empty(0, np.int64)
        return Entries(key, columns)

    def _joined(self, keys: list[bytes], entries: Entries, history: Entries, close_time: int) -> Entries:
        """The running query's entries with the states of the new definition."""
        change, plan = self._change, self.binding.plan
        columns = entries.columns if change is None else tuple(change.columns(entries.columns))
        entries = Entries(entries.key, columns)
        head = len(plan.head)
        own = split_states(self._effective.plan.operations, columns[head:])
        theirs = split_states(plan.operations, history.columns[head:])
        panes, their_panes = (
            self._panes(each) & ~self._dead(each, close_time) for each in (entries, history)
        )
        place = _places(entries, panes, history, their_panes)
        found = place >= 0
        same, at = found.copy(), np.where(found, place, 0)
        for source, state in zip(self._sources, theirs, strict=True):
            if source.complete and source.own is not None and len(history):
                same &= _equal(own[source.own], tuple(column[at] for column in state))
        first, their_first = self._first(entries), self._first(history)
        extra = their_panes.copy()
        extra[place[found]] = False
        result = []
        for source, operation, state in zip(self._sources, plan.operations, theirs, strict=True):
            if source.complete and source.own is not None:
                result.append(own[source.own])
                continue
            counts = np.zeros(len(first), bool) if source.since is None else first >= source.since
            lost = panes & ~same & ~counts & ~self._may_be_forgotten(entries, found)
            unread = extra & (source.since is None or their_first < source.since)
            unread &= ~self._of_lifetimes(history) & ~self._may_be_late(history, close_time)
            self._refuse(keys, entries, lost, "no records, or other ones,")
            self._refuse(keys, history, unread, "records that the query has not read,")
            result.append(self._state(operation, (same & ~counts, at, state), (counts, source.own, own)))
        return Entries(entries.key, (*columns[:head], *join_states(result)))

    def _state(
        self,
        operation: Operation,
        history: tuple[Mask, Ints, State],
        own: tuple[Mask, int | None, Sequence[State]],
    ) -> State:
        """A state of each entry: the history's, the running query's, or that of no record."""
        (same, at, theirs), (counts, number, states) = history, own
        nothing = empty_state(operation, dict(self.binding.inputs.values))
        columns = []
        for n, empty in enumerate(nothing):
            column = np.repeat(empty, len(same))
            column[same] = theirs[n][at[same]]
            if number is not None:
                column[counts] = states[number][n][counts]
            columns.append(column)
        return tuple(columns)

    def _panes(self, entries: Entries) -> Mask:
        """Which entries have states, and are not rows that wait."""
        names = [name for name, _ in self.binding.plan.head]
        if "waiting" not in names:
            return np.ones(len(entries), bool)
        return np.asarray(entries.columns[names.index("waiting")] == 0)

    def _dead(self, entries: Entries, close_time: int) -> Mask:
        """Which entries nothing needs: they stay until their segment goes."""
        plan: Any = self.binding.plan
        if plan.keeps_state:
            return np.zeros(len(entries), bool)
        if hasattr(plan, "kind"):
            return np.asarray(entries.time < plan.kind.dead_before(close_time))
        return np.asarray(entries.time < close_time) & (plan.head[0][0] == "end")

    def _first(self, entries: Entries) -> Ints:
        """A time that no record of an entry is before."""
        plan: Any = self.binding.plan
        names = [name for name, kind in plan.head if kind == TIME]
        if "start" in names:
            return entries.columns[names.index("start")]
        if names[0] == "end":
            return np.asarray(entries.time - plan.max_bound_offset)
        return np.where(self._of_lifetimes(entries), FAR_PAST, entries.time)

    @staticmethod
    def _of_lifetimes(entries: Entries) -> Mask:
        return np.asarray(entries.time == LIFE_PANE_TIME)

    def _may_be_forgotten(self, entries: Entries, found: Mask) -> Mask:
        """Which entries are lifetimes that a state with this close time may have forgotten already, as the history's has."""
        if not self.binding.plan.ends_lifetimes:
            return np.zeros(len(entries), bool)
        return self._of_lifetimes(entries) & ~found

    def _may_be_late(self, entries: Entries, close_time: int) -> Mask:
        """Which panes may be of records that the query dropped as late, or left out of lifetimes that end."""
        return np.asarray(entries.time < self.binding.plan.incomplete_before(close_time))

    def _refuse(self, keys: list[bytes], entries: Entries, wrong: Mask, what: str) -> None:
        if not wrong.any():
            return
        first = int(np.argmax(wrong))
        types = self.running.schema.keys
        values = decode_keys([keys[int(entries.key[first])]], types.types)
        key = ", ".join(
            f"{name} {value.to_pylist()[0]!r}" for name, value in zip(types.names, values, strict=True)
        )
        time = int(entries.time[first])
        at = "in its lifetime" if time == LIFE_PANE_TIME else f"at {self._time(time)}"
        raise StateError(
            f"the history has {what} of {key or 'the only group'} {at}, so that it cannot be joined to {self.running.uri}: "
            "give it exactly the records that the query had read when it stopped"
        )

    def _time(self, ticks: int) -> str:
        (instant,) = self.running.schema.instants(np.array([ticks])).to_pylist()
        return f"{ticks} ticks" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S.%f} UTC"


def history_of(folder: Folder) -> str:
    """Return where the state of the history goes: into the folder of the savepoint, which does not need it later."""
    return f"{folder.uri.rstrip('/')}/history"


def fill_locally(binding: Binding, running: Savepoint, history: Savepoint, target: Folder) -> Savepoint:
    """Fill the savepoint of a local runner; arguments are those of `Fill.of`, and the folder to write to."""
    fill = Fill.of(binding, running, history, history.origin.get("highest"))
    return fill.write_header(target, fill.files(target, 0, 1))


def _places(entries: Entries, mine: Mask, others: Entries, theirs: Mask) -> Ints:
    """For each entry the position of the other one of its key and time, or -1; rows that wait have none."""
    at, their_at = np.flatnonzero(mine), np.flatnonzero(theirs)
    key = np.concatenate([entries.key[at], others.key[their_at]])
    time = np.concatenate([entries.time[at], others.time[their_at]])
    order = row_order(key, time)
    order = np.arange(len(key)) if order is None else order
    starts = run_starts(key[order], time[order])
    number = np.empty(len(key), np.int64)
    number[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(key))))
    known = np.full(len(starts), -1)
    known[number[len(at) :]] = their_at
    found = np.full(len(entries), -1)
    found[at] = known[number[: len(at)]]
    return found


def _equal(own: State, theirs: State) -> Mask:
    """Where two states have the same numbers; objects are not compared."""
    same = np.ones(len(own[0]), bool)
    for mine, other in zip(own, theirs, strict=True):
        if mine.dtype.kind == "i":
            same &= mine == other
    if own[0].dtype.kind == "f":  # The later columns of a sum are what the first one leaves over.
        same &= np.isclose(own[0], theirs[0], rtol=_CLOSE, atol=0, equal_nan=True)
    return same
