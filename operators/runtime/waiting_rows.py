"""The columns of rows that wait in the state, where those of the input have changed since."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from operators.kinds.rolling import ROWS
from operators.runtime.binding import Binding
from serializers.row_changes import RowChanges, RowConversion
from state_backends import StateError
from state_backends.store.schema import StoredSchema


@dataclass(frozen=True, slots=True)
class WaitingChange:
    """How rows that wait change.

    Attributes:
        conversion: to the columns of now; None if they stay as they are.
        dropped: columns that are gone, as text.
        told: columns that were added or widened, as text: nothing of the rows is lost.
    """

    conversion: RowConversion | None = None
    dropped: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)


def waiting_change(
    binding: Binding, stored_identity: Mapping[str, Any], stored: StoredSchema, restart: str
) -> WaitingChange:
    """Return how the rows that wait in a state change.

    Args:
        binding: the operator.
        stored_identity: what the state depends on.
        stored: the schema of its entries.
        restart: the last way out, for errors.

    Raises:
        StateError: the rows have no event time under its name of now, or a column became another type; names it.
    """
    now, before = binding.plan.waiting_rows, stored.rows
    if now is None or before is None or stored_identity.get(ROWS) == binding.plan.describe().get(ROWS):
        return WaitingChange()
    time = binding.plan.row_time
    if time not in before.names:
        raise StateError(
            f"the event time is {time!r} now, a column that the rows that wait in the state do not have: keep the name of the "
            f"event time's column, or {restart}"
        )
    changes = RowChanges.of(before, now)
    for name, old, new in changes.refused:
        raise StateError(
            f"column {name!r} was {old}, is {new}, and rows that wait have the old type, which is not made into this one. Cast "
            f"it back, give the changed column another name, or {restart}"
        )
    return WaitingChange(
        RowConversion(before, now),
        [f"column {name!r} is gone, and would be dropped from rows that wait" for name in changes.dropped],
        [
            *(f"column {name!r} is null in rows that waited" for name in changes.added),
            *(f"column {name!r} was {old}, is {new}" for name, old, new in changes.widened),
        ],
    )
