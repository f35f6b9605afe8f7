"""States that were written before it was recorded which aggregates are over a lifetime."""

from collections.abc import Collection, Mapping
from typing import Any

from operators.aggregates.state_words import listed
from operators.kinds.rolling import LASTING
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
    left = binding.plan.without_lifetime(store, stored)
    if left:
        raise StateError(
            "the state was written by a version that did not record which aggregates are over the lifetime, and has nothing of "
            f"{listed(left)} there. If these were limited to other lookbacks, limit "
            "them again with over(...); otherwise start with a new checkpoint"
        )
