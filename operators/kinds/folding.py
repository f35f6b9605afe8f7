"""States of windows built record by record, as in Kafka Streams: what folds need.

An entry is a window. Its columns are its last tick, further columns of the window kind, and the states of all operations.
No stores.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from operators.aggregates.operation import Operation, join_states, split_states
from operators.columns.ranges import Ints, Mask, State
from operators.columns.records import Records
from state_backends import Entries
from state_backends.store.ordering import row_order


@dataclass(frozen=True, slots=True)
class FoldSchema:
    """The columns of windows whose states are folds.

    Attributes:
        head: number of columns before the states, all int64.
        operations: the distinct operations of all aggregates.
    """

    head: int
    operations: tuple[Operation, ...]

    def entries(self, key: Ints, head: Sequence[Ints], states: Sequence[State]) -> Entries:
        """Return windows as entries."""
        return Entries(key, (*head, *join_states(states)))

    def fold(self, stored: Entries, base: Ints, records: Records, lo: Ints, hi: Ints) -> list[State]:
        """Return the states of windows, one per operation: stored ones with records added.

        Args:
            stored: windows.
            base: shape (n,), int64: the stored window whose state each window starts with, or -1 for no state.
            records: sorted by key and time.
            lo, hi: shape (n,), int64: the records [lo, hi) to add to each window; not empty for a window without a base.

        Cost: one addition for each record of each range.
        """
        states = split_states(self.operations, stored.columns[self.head :])
        return [
            op.fold(state, base, _read_by(op, records), (lo, hi))
            for op, state in zip(self.operations, states, strict=True)
        ]

    def results(self, windows: Entries) -> list[State]:
        """Return the states of windows as `finish` needs them."""
        each = np.arange(len(windows))
        states = split_states(self.operations, windows.columns[self.head :])
        # Records were added in order of arrival: `reduce` sorts the values of states that keep them.
        return [
            op.combine_ranges(op.reduce(state, each), each, each + 1)
            for op, state in zip(self.operations, states, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class FoldedWindows:
    """The windows of a step: stored and new ones, with the records of the batch.

    Attributes:
        entries: sorted by key and end.
        fresh: shape (n,), bool: whether the window is new.
        changed: shape (n,), bool: whether records were added, or the window is fresh.
    """

    entries: Entries
    fresh: Mask
    changed: Mask


def _read_by(operation: Operation, records: Records) -> Records:
    return replace(records, values={name: records.values[name] for name in operation.inputs})


def positions(key: Ints, time: Ints, at_key: Ints, at_time: Ints, side: str) -> Ints:
    """Return the positions of pairs of key and time among sorted ones, as `np.searchsorted` does. One sort of all pairs.

    Args:
        key, time: shape (n,), int64: sorted by key, then by time.
        at_key, at_time: shape (m,), int64: the pairs to look up, in any order.
        side: "left" or "right" of equal ones.
    """
    skip = 0 if side == "left" else len(key)
    pairs = ((at_key, at_time), (key, time)) if side == "left" else ((key, time), (at_key, at_time))
    order = row_order(*map(np.concatenate, zip(*pairs, strict=True)))
    order = np.arange(len(key) + len(at_key)) if order is None else order
    asked = (order >= skip) & (order < skip + len(at_key))
    found = np.empty(len(at_key), np.int64)
    found[order[asked] - skip] = np.cumsum(~asked)[asked]
    return found
