"""States that were written before it was recorded which aggregates are over a lifetime."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from operators.columns.ranges import State
from operators.engines.rolling import LASTING, RollingPlan
from operators.engines.rolling_state import LIFE_PANE_TIME
from operators.runtime.binding import Binding
from state_backends import StateError, WindowStore


def are_recorded(binding: Binding, stored_identity: Mapping[str, Any]) -> bool:
    """Return whether a state says which aggregates are over the lifetime, if the operator has one."""
    return LASTING in stored_identity or LASTING not in binding.plan.describe()


def check_lifetimes(binding: Binding, store: WindowStore, stored: Collection[str]) -> None:
    """Refuse a state whose panes of lifetimes hold nothing of an aggregate that is over the lifetime. O(keys) at worst.

    An aggregate that was limited to other lookbacks has left nothing in these panes.

    Args:
        binding: the operator.
        store: has the state.
        stored: the states that it had when it was written.

    Raises:
        StateError: names the states, and the way out.
    """
    plan = binding.plan
    if not isinstance(plan, RollingPlan):
        return
    schema, seen = plan.panes, False
    nothing = schema.states(plan.empty())
    left = [n for n, op in enumerate(plan.operations) if op in plan.lasting and op.describe() in stored]
    for _, entries in store.scan_segment(store.segment_of(LIFE_PANE_TIME)):
        states, seen = schema.states(plan.stored.panes(entries)), True
        left = [n for n in left if _is_only(states[n], nothing[n])]
        if not left:
            return
    if seen and left:
        raise StateError(
            "the state was written by a version that did not record which aggregates are over the lifetime, and has nothing of "
            f"{', '.join(plan.operations[n].describe() for n in left)} there. If these were limited to other lookbacks, limit "
            "them again with over(...); otherwise start with a new checkpoint"
        )


def _is_only(state: State, one: State) -> bool:
    """Whether all rows of a state's columns are that one row. NaN is equal to NaN."""
    return all(
        column.tolist() == value.tolist() * len(column)
        if column.dtype == object
        else column.tobytes() == np.repeat(value, len(column)).tobytes()
        for column, value in zip(state, one, strict=True)
    )
