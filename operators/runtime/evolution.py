"""Stored state under a changed operator: refused, or converted if that is well defined and the user asks for it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from operators.aggregates.empty import empty_state
from operators.aggregates.operation import Operation
from operators.columns.ranges import State
from operators.kinds.calendars import CLOCK_CHANGES, ZONE
from operators.kinds.rolling import CLOSED, LASTING, ROWS
from operators.runtime.binding import Binding
from operators.runtime.identity import CLOCK, COLUMNS, SEGMENT, STATE, differences, differing
from operators.runtime.restarts import effective_binding, source_of
from operators.runtime.retyped_columns import is_wider, retyped_columns, widened_columns
from operators.runtime.state_changes import changed_states, new_lifetimes, order_of_alike, without_merge
from operators.runtime.waiting_rows import WaitingChange, waiting_change
from serializers.pages import Column
from state_backends import StateError
from state_backends.durability.progress import Progress
from state_backends.store.schema import StoredSchema

REFUSE, ADAPT = "refuse", "adapt"
_CONVERTED = {STATE, COLUMNS, LASTING, CLOSED, ROWS}
"""What may differ in a state that is converted."""


@dataclass(frozen=True)
class StateConversion:
    """How stored entries become those of an operator with other aggregates, or with more columns before the states.

    Attributes:
        binding: the operator's, as it goes on with the state.
        stored: what the entries were.
        widened: columns of whole numbers that became wider since.
        order: as `order_of_alike` returns it.
        waiting: how rows that wait change.
    """

    binding: Binding
    stored: StoredSchema
    widened: tuple[str, ...] = ()
    order: Mapping[str, Sequence[int]] = field(default_factory=dict)
    waiting: WaitingChange = field(default_factory=WaitingChange)

    def columns(self, old: Sequence[Column]) -> list[Column]:
        """Return entries' columns: states that stay as they are, those of added aggregates as of no record."""
        rows, at = len(old[0]), len(self.stored.head)
        head = {name: column for (name, _), column in zip(self.stored.head, old, strict=False)}
        head = {**self.binding.plan.missing_head(old[0]), **head}
        if self.waiting.conversion is not None:
            head |= {"rows": self.waiting.conversion.blobs(head["rows"], head["waiting"])}
        columns = [head[name] for name, _ in self.binding.plan.head]
        found: dict[str, list[State]] = {}
        for state in self.stored.states:
            found.setdefault(state.name, []).append(tuple(old[at : at + len(state.parts)]))
            at += len(state.parts)
        taken: Counter[str] = Counter()
        for operation in self.binding.plan.operations:
            name = source_of(operation, list(found), self.widened)
            if name is None:
                columns += self._empty(operation, rows)
            elif name not in (operation.describe(), operation.former):
                columns += operation.base_operation.of_narrower(found[name][0])
            else:
                number = taken[name]
                kept = found[name][self.order[name][number] if name in self.order else number]
                columns += [*kept, *(np.zeros(rows, code) for code in operation.codes[len(kept) :])]
                taken[name] += 1
        return columns

    @property
    def begun(self) -> list[str]:
        """The states that begin with the conversion."""
        names = [state.name for state in self.stored.states]
        operations = self.binding.plan.operations
        return [op.describe() for op in operations if source_of(op, names, self.widened) is None]

    def _empty(self, operation: Operation, rows: int) -> list[Column]:
        return [
            np.repeat(column, rows) for column in empty_state(operation, dict(self.binding.inputs.values))
        ]

    def pages(self, pages: list[bytes]) -> list[bytes]:
        """Return each page with the columns of the operator."""
        old, counts = self.stored.layout.decode(pages)
        return self.binding.plan.layout.encode(self.columns(old), counts)


def state_conversion(
    binding: Binding,
    stored_identity: dict[str, Any],
    stored: StoredSchema | None,
    policy: str,
    *,
    moved: bool = False,
) -> StateConversion | None:
    """Return how stored state has to be changed for the operator, or None if it fits as it is.

    Args:
        binding: the operator.
        stored_identity: what the state depends on, as its binding recorded it.
        stored: what its entries are.
        policy: REFUSE or ADAPT.
        moved: whether the state comes from a savepoint, so that its segments may be different.

    Raises:
        StateError: the state belongs to another operator, or the policy forbids to change it; names what differs.
    """
    effective = effective_binding(binding, stored_identity, moved=moved)
    return conversion_for(effective, effective.identity(), stored_identity, stored, policy, moved=moved)


def conversion_for(
    binding: Binding,
    own: dict[str, Any],
    stored_identity: dict[str, Any],
    stored: StoredSchema | None,
    policy: str,
    *,
    moved: bool = False,
) -> StateConversion | None:
    """Return what `state_conversion` returns.

    Args:
        binding: the operator, as it goes on with the state.
        own: what its state depends on.
        stored_identity, stored, policy, moved: as for `state_conversion`.

    Raises:
        StateError: as `state_conversion`.
    """
    ignored = _ignored(own, stored_identity, moved=moved)
    different = [name for name in differing(stored_identity, own) if name not in ignored]
    place = "savepoint" if moved else "checkpoint"
    restart = (
        "start without spark.windows.state.savepoint" if moved else "start this one with a new checkpoint"
    )
    if stored is None and not different:
        return None
    if stored is None or not {*different} <= _CONVERTED:
        if different == [SEGMENT]:
            restart = "move the state by a savepoint"
        said = without_merge(binding, stored_identity) or differences(stored_identity, own, different)
        raise StateError(
            f"the {place} holds the state of another operator: {said}. Go back to the former definition, or {restart}"
        )
    order = order_of_alike(stored, binding.stored_schema(), restart)
    if not (different or order) and stored.head == binding.plan.head:
        return None
    retyped = retyped_columns(binding, stored_identity)
    _refuse_unless_wider(retyped, restart)
    waiting = waiting_change(binding, stored_identity, stored, restart)
    # Nothing is lost where states have another order, and rows that wait more columns, or wider ones.
    lossless = {ROWS, *(name for name in (STATE, LASTING) if _only_moved(name, stored_identity, own))}
    if policy != ADAPT and (waiting.dropped or not {*different} <= lossless):
        changes = new_lifetimes(binding, stored_identity[STATE])
        changes += changed_states(stored_identity[STATE], binding, stored)
        changes += [f"column {name!r} was {before}, is {now}" for name, (before, now) in retyped.items()]
        changes += waiting.dropped
        if CLOSED in different:
            ends = f"closed was {stored_identity.get(CLOSED)!r}, is {own[CLOSED]!r}"
            changes.append(f"{ends}: all rows that are not out yet would have windows with other ends")
        raise StateError(
            f"the operator differs from that of the stored state: {'; '.join(changes)}. To go on with the state, set "
            f"spark.windows.state.evolution to {ADAPT}; otherwise go back to the former definition, or {restart}"
        )
    return StateConversion(binding, stored, widened_columns(binding, stored_identity), order, waiting)


def _ignored(own: Mapping[str, Any], stored: Mapping[str, Any], *, moved: bool) -> set[str]:
    """What may differ: clocks that show the same times, and segments of a savepoint."""
    ignored = set[str]()
    if CLOCK_CHANGES in stored and CLOCK_CHANGES in own:  # `check_clock_changes` looks into such a state.
        ignored |= {ZONE, CLOCK_CHANGES}
    if not (CLOCK in stored and CLOCK in own):  # Whole numbers may be times of either clock.
        ignored.add(CLOCK)
    return ignored | {SEGMENT} if moved else ignored


def _refuse_unless_wider(retyped: Mapping[str, tuple[str, str]], restart: str) -> None:
    for name, (before, now) in retyped.items():
        if not is_wider(before, now):
            raise StateError(
                f"column {name!r} was {before}, is {now}: stored states cannot be converted. Cast it back, "
                f"give the changed column another name, or {restart}"
            )


def _only_moved(name: str, stored: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether all that differs in the states of an identity is their order."""
    return sorted(stored.get(name) or []) == sorted(own.get(name) or [])


def stored_change(binding: Binding, progress: Progress, policy: str) -> StateConversion | None:
    """Return what `state_conversion` returns for the state of a pointer's progress; None if it has none.

    Raises:
        StateError: as `state_conversion`.
    """
    if progress.identity is None:
        return None
    return state_conversion(binding, progress.identity, progress.schema, policy)
