"""Stored state under a changed operator: refused, or taken over where that is well defined and wanted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from operators.aggregates.operation import Operation
from operators.batch import Records
from operators.columns import column_data
from operators.kernel import State
from operators.program import Program
from serializers.pages import Column
from state_backends import StateError
from state_backends.stored import StoredSchema

REFUSE, ADAPT = "refuse", "adapt"
_STATE, _COLUMNS, _SEGMENT = "state", "columns", "segment in ticks"
_WIDTHS = ["int8", "int16", "int32", "int64"], ["float", "double"]
_NEVER = "never"


@dataclass(frozen=True)
class Adaption:
    """How stored entries become those of an operator with other aggregates.

    Attributes:
        program: the operator.
        stored: what the entries were.
    """

    program: Program
    stored: StoredSchema

    def columns(self, old: Sequence[Column]) -> list[Column]:
        """Return entries' columns: states that stay as they are, those of added aggregates as of no record."""
        rows = len(old[0])
        head = len(self.stored.head)
        found: dict[str, list[Column]] = {}
        at = head
        for state in self.stored.states:
            found[state.name] = list(old[at : at + len(state.parts)])
            at += len(state.parts)
        columns = list(old[:head])
        for operation in self.program.plan.operations:
            kept = found.get(operation.describe())
            columns += kept if kept is not None else self._empty(operation, rows)
        return columns

    def _empty(self, operation: Operation, rows: int) -> list[Column]:
        return [np.repeat(column, rows) for column in empty_state(operation, dict(self.program.columns))]

    def pages(self, pages: list[bytes]) -> list[bytes]:
        """Return each page with the columns of the operator."""
        old, counts = self.stored.layout.decode(pages)
        return self.program.plan.layout.encode(self.columns(old), counts)


def empty_state(operation: Operation, types: dict[str, pa.DataType]) -> State:
    """Return the state of one row that no record was added to: of a record that `where` leaves out.

    Args:
        operation: whose state.
        types: of the input columns.
    """
    nulls = {name: pa.nulls(1, types[name]) for name in operation.inputs}
    values = {name: column_data(pa.chunked_array([array])) for name, array in nulls.items()}
    values[_NEVER] = column_data(pa.chunked_array([pa.array([False])]))
    zero = np.zeros(1, np.int64)
    return replace(operation, where=_NEVER).lift(Records([b""], zero, zero, values, 0))


def adaption(
    program: Program,
    stored_identity: dict[str, Any],
    stored: StoredSchema | None,
    policy: str,
    *,
    moved: bool = False,
) -> Adaption | None:
    """Return how stored state has to be changed for the operator, or None if it can be taken as it is.

    Args:
        program: the operator.
        stored_identity: what the state depends on, as its program told it.
        stored: what its entries are.
        policy: REFUSE or ADAPT.
        moved: whether the state comes from a savepoint, so that its segments may be others.

    Raises:
        StateError: the state is another operator's, or would have to be changed against the policy; names what differs.
    """
    own = program.identity()
    names = {*own, *stored_identity} - ({_SEGMENT} if moved else set())
    different = sorted(name for name in names if own.get(name) != stored_identity.get(name))
    if not different:
        return None
    told = [f"{name} was {stored_identity.get(name)!r}, is {own.get(name)!r}" for name in different]
    if not {*different} <= {_STATE, _COLUMNS} or stored is None:
        raise StateError(
            "the checkpoint holds the state of another operator: "
            + "; ".join(told)
            + ". Start this one with a new checkpoint, or go back to the former definition"
            + (
                f"; another {_SEGMENT.partition(' ')[0]} can be had by a savepoint"
                if different == [_SEGMENT]
                else ""
            )
        )
    _check_types(stored_identity.get(_COLUMNS) or [], own[_COLUMNS])
    before, now = set(stored_identity.get(_STATE) or []), set(own[_STATE])
    changes = [
        *(f"{name} is new, and would count from here on" for name in sorted(now - before)),
        *(f"{name} is gone, and would be dropped" for name in sorted(before - now)),
    ]
    if policy != ADAPT:
        raise StateError(
            "the aggregates are others than those of the stored state: "
            + "; ".join(changes or told)
            + ". To take the state over, set spark.windows.state.evolution to adapt; else start with a new checkpoint, "
            "or go back to the former definition"
        )
    return Adaption(program, stored)


def _check_types(before: Sequence[str], now: Sequence[str]) -> None:
    """Refuse input columns whose type became another, but for wider numbers: their states are of the same form."""
    types = dict(column.rsplit(": ", 1) for column in now)
    for column in before:
        name, type_ = column.rsplit(": ", 1)
        if name in types and type_ != types[name] and not _widened(type_, types[name]):
            raise StateError(
                f"column {name!r} was {type_}, is {types[name]}: stored states cannot be taken over. Cast it back, "
                "give the changed column another name, or start with a new checkpoint"
            )


def _widened(before: str, now: str) -> bool:
    """Whether one numeric type became a wider one of the same sort."""
    for widths in _WIDTHS:
        if before in widths and now in widths:
            return widths.index(before) < widths.index(now)
    parsed = [_decimal(text) for text in (before, now)]
    if None in parsed:
        return False
    (old_digits, old_scale), (digits, scale) = (pair or (0, 0) for pair in parsed)
    return old_digits < digits and old_scale == scale


def _decimal(text: str) -> tuple[int, int] | None:
    """Digits and scale of a decimal type."""
    name, _, rest = text.partition("(")
    if name not in ("decimal128", "decimal"):
        return None
    digits, _, scale = rest.rstrip(")").partition(",")
    return int(digits), int(scale)
