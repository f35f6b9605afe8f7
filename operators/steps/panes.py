"""Panes: the partial aggregates of the records of one key in one slice of time, as entries of the window store.

An entry's columns are the head, which begins with the time, and the states of all operations in turn. Entries of one key
with equal heads are one pane.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from operators.aggregates.operation import Operation, join_states, split_states
from operators.aggregates.user_functions import AggregateError
from operators.columns.ranges import Ints, Mask, State, overlap_ranges, run_starts
from operators.columns.records import Records
from operators.steps.failed_windows import FailedWindow, note_window, with_keys
from operators.steps.partials import Partials
from serializers.pages import PageLayout
from state_backends import Entries
from state_backends.store.entries import merge_entries
from state_backends.store.ordering import row_order
from state_backends.store.schema import TIME, head_codes


@dataclass(frozen=True)
class PaneSchema:
    """How panes of some operations are laid out.

    Attributes:
        operations: the distinct operations of all aggregates.
    """

    operations: tuple[Operation, ...]

    head: ClassVar[tuple[tuple[str, str], ...]] = (("time", TIME),)
    """Name and kind of each column before the states."""

    @cached_property
    def layout(self) -> PageLayout:
        """The layout of a page of panes."""
        return PageLayout((*head_codes(self.head), *(code for op in self.operations for code in op.codes)))

    def entries(self, key: Ints, head: Sequence[Ints], states: Sequence[State]) -> Entries:
        """Return panes as entries."""
        return Entries(key, (*head, *join_states(states)))

    def states(self, panes: Entries) -> list[State]:
        """Return the panes' states, one per operation."""
        return split_states(self.operations, panes.columns[len(self.head) :])

    def accumulate(self, records: Records, pane: Ints) -> Partials:
        """Return the panes of a batch, sorted by key and time. One sort and one reduction.

        Args:
            records: the records of the batch.
            pane: shape (n,), int64: the time of each record's pane; it ascends with the record's own time.
        """
        order = row_order(records.key, records.time)
        if order is not None:
            records, pane = records.take(order), pane[order]
        starts = run_starts(records.key, pane)
        states = accumulated(self.operations, records, starts)
        time, count = pane[starts], np.diff(np.append(starts, len(records)))
        panes = self.entries(records.key[starts], (time,) * len(self.head), states)
        return Partials(records.keys, panes, count, records.bad, order)

    def join(self, partials: Partials) -> Partials:
        """Return unsorted panes sorted, and combined to one for each key and time."""
        panes, count = partials.entries, partials.records
        order = row_order(panes.key, panes.time)
        if order is not None:
            panes, count = panes.take(order), count[order]
        starts = run_starts(panes.key, panes.time)
        if len(starts) < len(panes):
            with with_keys(partials.keys):
                panes = self.reduce(panes, starts)
            count = np.add.reduceat(count, starts)
        return Partials(partials.keys, panes, count, partials.bad)

    def reduce(self, panes: Entries, starts: Ints) -> Entries:
        """Return one pane for each run of panes that begins at `starts`."""
        if len(starts) == len(panes):
            return panes

        def pane(number: int) -> FailedWindow:
            return FailedWindow(int(panes.key[starts[number]]), int(panes.time[starts[number]]))

        states = reduced(self.operations, self.states, panes, starts, pane)
        head = [column[starts] for column in panes.columns[: len(self.head)]]
        return self.entries(panes.key[starts], head, states)

    def by_time(self, panes: Entries) -> Entries:
        """Return one pane for each key and time, whatever else is in the head."""
        return self.reduce(panes, run_starts(panes.key, panes.time))

    def starts(self, panes: Entries) -> Ints:
        """Return where each run of sorted panes with equal key and head begins."""
        change = np.ones(len(panes), bool)
        change[1:] = panes.key[1:] != panes.key[:-1]
        for column in panes.columns[: len(self.head)]:
            change[1:] |= column[1:] != column[:-1]
        return np.flatnonzero(change)

    def combine_ranges(self, panes: Entries, lo: Ints, hi: Ints) -> list[State]:
        """Return the states of the ranges [lo, hi) of panes; none is empty.

        States of neighbours may be combined that no range has together.
        """
        states = dict(zip(self.operations, self.states(panes), strict=True))
        # Combined together, so that the levels of each range are searched once.
        idempotent = [op for op in self.operations if op.idempotent]
        pieces = join_states([states[op] for op in idempotent])

        def combine(left: State, right: State) -> State:
            pairs = zip(
                idempotent, split_states(idempotent, left), split_states(idempotent, right), strict=True
            )
            return join_states([op.combine(a, b) for op, a, b in pairs])

        overlapped = split_states(idempotent, overlap_ranges(combine, pieces, lo, hi)) if idempotent else []
        found = dict(zip(idempotent, overlapped, strict=True))
        return [found[op] if op in found else op.combine_ranges(states[op], lo, hi) for op in self.operations]


def accumulated(operations: Sequence[Operation], records: Records, starts: Ints) -> list[State]:
    """Return the states of each run of sorted records that begins at `starts`."""
    try:
        return [op.accumulate(records, starts) for op in operations]
    except AggregateError as error:
        ends = np.append(starts[1:], len(records))

        def run(first: int, last: int) -> None:
            some = records.take(np.arange(starts[first], ends[last - 1]))
            for op in operations:
                op.accumulate(some, starts[first:last] - starts[first])

        def pane(number: int) -> FailedWindow:
            first = starts[number]
            return FailedWindow(records.keys[records.key[first]], int(records.time[first]))

        note_window(error, run, len(starts), pane)
        raise


def reduced(
    operations: Sequence[Operation],
    states_of: Callable[[Entries], Sequence[State]],
    entries: Entries,
    starts: Ints,
    window: Callable[[int], FailedWindow],
) -> list[State]:
    """Return the combined states of each run of entries that begins at `starts`.

    Args:
        operations: the operations of the states.
        states_of: returns the states of entries, one per operation.
        entries: the entries.
        starts: shape (runs,), int64.
        window: returns what a run is of, by its number, for errors.
    """

    def run(entries: Entries, starts: Ints) -> list[State]:
        return [op.reduce(state, starts) for op, state in zip(operations, states_of(entries), strict=True)]

    try:
        return run(entries, starts)
    except AggregateError as error:
        ends = np.append(starts[1:], len(entries))

        def some(first: int, last: int) -> None:
            run(entries.take(np.arange(starts[first], ends[last - 1])), starts[first:last] - starts[first])

        note_window(error, some, len(starts), window)
        raise


def combined_alone(schema: PaneSchema, panes: Entries, lo: Ints, hi: Ints) -> list[State]:
    """Return the states of some ranges [lo, hi) of panes, without a look at panes before and behind all of them."""
    first, last = int(lo.min()), int(hi.max())
    return schema.combine_ranges(panes.take(np.arange(first, last)), lo - first, hi - first)


@dataclass(frozen=True, slots=True)
class MergedPanes:
    """Stored panes and those of a batch in one order.

    Attributes:
        panes: sorted by key and head, one entry for each.
        fresh: shape (n,), bool: whether nothing was stored with this key and head.
        changed: shape (n,), bool: whether the batch has records of this pane.
    """

    panes: Entries
    fresh: npt.NDArray[np.bool_]
    changed: npt.NDArray[np.bool_]


def merge_panes(
    schema: PaneSchema, stored: Sequence[Entries], new_panes: Entries, keys: Sequence[bytes] = ()
) -> MergedPanes:
    """Return stored and new panes as one sorted set; those of equal key and head are combined.

    Args:
        schema: the panes.
        stored: panes in sorted parts; in each part, no pane of a key is later than those in the parts that follow.
        new_panes: new panes, sorted.
        keys: the keys by their numbers, for errors.

    Cost: O(panes) if the batch only appends in time, else one sort.
    """
    fresh = (*(False for _ in stored), True)
    panes, new = merge_marked((*stored, new_panes), fresh, schema.layout)
    starts = schema.starts(panes)
    if len(starts) == len(panes):
        return MergedPanes(panes, new, new)
    changed = np.logical_or.reduceat(new, starts)
    with with_keys(keys):
        return MergedPanes(schema.reduce(panes, starts), new[starts], changed)


def merge_marked(parts: Sequence[Entries], fresh: Sequence[bool], layout: PageLayout) -> tuple[Entries, Mask]:
    """Return the entries of all parts in order, and which of them are of a part that is fresh."""
    marked = [
        Entries(part.key, (*part.columns, np.full(len(part), new)))
        for part, new in zip(parts, fresh, strict=True)
        if len(part)
    ]
    if not marked:
        return merge_entries([], layout), np.empty(0, bool)
    whole = merge_entries(marked, layout)
    return Entries(whole.key, whole.columns[:-1]), whole.columns[-1]
