"""The columns of rows that wait in the state, where those of the input have changed since."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from operators.kinds.rolling import ROWS
from operators.runtime.binding import Binding
from serializers.row_changes import RowChanges, RowConversion
from state_backends import StateError
from state_backends.store.schema import StoredSchema

_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)")
_TIMESTAMP = re.compile(r"timestamp\[(\w+)(?:, tz=(.+))?\]")


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
    now, texts = binding.plan.waiting_rows, stored_identity.get(ROWS)
    if now is None or texts is None or texts == binding.plan.describe().get(ROWS):
        return WaitingChange()
    before = pa.schema([*_stored_fields(texts, now, restart)]) if stored.rows is None else stored.rows
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


def _stored_fields(texts: list[str], now: pa.Schema, restart: str) -> Iterator[pa.Field]:
    """The columns of a state that has them as text alone, as earlier versions wrote it."""
    known = {f"{field.name}: {field.type}": field for field in now}
    for text in texts:
        name, _, type_ = text.partition(": ")
        found = known.get(text) or _field(name, type_)
        if found is None:
            raise StateError(
                f"column {name!r} was {type_} in rows that an earlier version wrote, which did not record nested types so "
                f"that they can be read. Leave the column as it was until these rows are out, or {restart}"
            )
        yield found


def _field(name: str, text: str) -> pa.Field | None:
    if decimal := _DECIMAL.fullmatch(text):
        return pa.field(name, pa.decimal128(int(decimal[1]), int(decimal[2])))
    if timestamp := _TIMESTAMP.fullmatch(text):
        return pa.field(name, pa.timestamp(timestamp[1], timestamp[2]))
    try:
        return pa.field(name, pa.type_for_alias(text))
    except ValueError:
        return None
