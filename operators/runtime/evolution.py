"""Stored state under a changed operator: refused, or converted if that is well defined and the user asks for it.

An aggregate may be made from several states, and states are shared: a mean and a count need the number of values. When an
aggregate is added of which some states were kept already and others were not, it gets separate states from then on
(`Later`). Else it would mix counts since the beginning with counts since the change.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from operators.aggregates import exact
from operators.aggregates.empty import empty_state
from operators.aggregates.operation import Operation, join_states, split_states
from operators.aggregates.operations import SumFloat, SumInt
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from operators.kinds.calendars import CLOCK_CHANGES, ZONE
from operators.kinds.rolling import CLOSED, LASTING, ROWS
from operators.runtime.binding import Binding
from operators.runtime.identity import CLOCK, COLUMNS, SEGMENT, STATE, differences, differing
from operators.runtime.state_changes import changed_states, new_lifetimes, order_of_alike, without_merge
from operators.runtime.waiting_rows import WaitingChange, waiting_change
from operators.steps.partials import Partials
from serializers.pages import Column
from state_backends import Entries, StateError
from state_backends.durability.progress import Progress
from state_backends.store.schema import StoredSchema, name_and_since, name_since

REFUSE, ADAPT = "refuse", "adapt"
_CONVERTED = {STATE, COLUMNS, LASTING, CLOSED, ROWS}
"""What may differ in a state that is converted."""
_WIDTHS = ["int8", "int16", "int32", "int64"], ["float", "double"]


@dataclass(frozen=True, slots=True)
class Later(Operation):
    """The state of another operation, begun later than one that is kept for aggregates that were there before.

    Attributes:
        of: the operation.
        since: tells states of one operation apart.
    """

    of: Operation
    since: int

    @property
    def bare(self) -> Operation:
        return self.of

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.of.inputs

    @property
    def codes(self) -> tuple[str, ...]:
        return self.of.codes

    @property
    def parts(self) -> tuple[str, ...]:
        return self.of.parts

    def describe(self) -> str:
        return name_since(self.of.describe(), self.since)

    @property
    def former(self) -> str | None:
        return None if self.of.former is None else name_since(self.of.former, self.since)

    def lift(self, records: Records) -> State:
        return self.of.lift(records)

    def combine(self, left: State, right: State) -> State:
        return self.of.combine(left, right)

    def add(self, state: State, records: Records) -> State:
        return self.of.add(state, records)

    def reduce(self, state: State, starts: Ints) -> State:
        return self.of.reduce(state, starts)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        return self.of.combine_ranges(state, lo, hi)

    def accumulate(self, records: Records, starts: Ints) -> State:
        return self.of.accumulate(records, starts)

    def fold(self, state: State, base: Ints, records: Records, ranges: tuple[Ints, Ints]) -> State:
        return self.of.fold(state, base, records, ranges)


def _begun(operation: Operation, since: int) -> Operation:
    return Later(operation.column, operation, since, where=operation.where) if since else operation


def effective_binding(binding: Binding, stored_identity: dict[str, Any], *, moved: bool = False) -> Binding:
    """Return the binding as it goes on with a stored state.

    It has the segments of the state, unless others were asked for; and separate states for aggregates that were added. An
    aggregate is made from stored states if all that it needs are there, the oldest first; else from new ones alone. Over a
    lifetime, only states that were kept for it are there. They are kept on, also when no aggregate needs them any more.

    Args:
        binding: the operator.
        stored_identity: what the state depends on, as its binding recorded it.
        moved: whether the state comes from a savepoint: its segments need not be those of the operator.
    """
    segment = stored_identity.get(SEGMENT)
    if not (moved or binding.segment_given) and isinstance(segment, int) and segment > 0:
        binding = replace(binding, segment=segment)
    names, current = list(stored_identity.get(STATE) or []), binding.output
    if not current.aggregates or _has_states(binding, stored_identity):
        return binding
    plan: Any = binding.plan
    recorded = list(stored_identity.get(LASTING) or [])
    # Of several states of one name, all have to be kept: they are not told apart.
    lasting = [name for name in names if recorded.count(name) == names.count(name)]
    for_ever = lasting if LASTING in stored_identity else names
    widened = _widened_columns(binding, stored_identity)
    latest = max([0, *(since for _, since in map(name_and_since, names))])

    def whole(operations: Sequence[Operation], number: int, among: Sequence[str]) -> list[bool]:
        return [_source(_begun(op, number), among, widened) is not None for op in operations]

    def since(operations: Sequence[Operation], usable: Sequence[str]) -> int:
        numbers = range(latest + 1)
        # Numbers of one operation ascend with time, so the least is the oldest.
        oldest = next((number for number in numbers if all(whole(operations, number, usable))), None)
        if oldest is not None:
            return oldest
        return latest + 1 if any(any(whole(operations, number, names)) for number in numbers) else 0

    aggregates, lasting_results = [], plan.lasting_results(current)
    for name, bound in current.aggregates:
        operations = tuple(operation.bare for operation in bound.operations)
        number = since(operations, for_ever if name in lasting_results else names)
        aggregates.append((name, replace(bound, operations=tuple(_begun(op, number) for op in operations))))
    output: Any = replace(current, aggregates=tuple(aggregates))  # type: ignore[type-var]
    kept = {op for op in output.operations if _source(op, lasting, widened) is not None}
    return replace(binding, plan=plan.of_output(output, kept), output=output)


def _has_states(binding: Binding, stored_identity: dict[str, Any]) -> bool:
    """Whether a stored state has the states of the binding, and keeps the same ones for a lifetime."""
    own = binding.plan.describe()
    lasting = stored_identity.get(LASTING, own.get(LASTING))
    return (stored_identity.get(STATE), lasting) == (own.get(STATE), own.get(LASTING))


def adapt(batch: Partials, binding: Binding, effective: Binding) -> Partials:
    """Return the partial aggregates of a first stage of one binding as a batch for the effective one."""
    if effective.plan is binding.plan:
        return batch
    head, columns = len(binding.plan.head), batch.entries.columns
    states = dict(
        zip(binding.plan.operations, split_states(binding.plan.operations, columns[head:]), strict=True)
    )
    copied = join_states([states[operation.bare] for operation in effective.plan.operations])
    return replace(batch, entries=Entries(batch.entries.key, (*columns[:head], *copied)))


def _source(operation: Operation, names: Sequence[str], widened: Sequence[str]) -> str | None:
    """The stored state from which an operation's is made: its own, its former one, or the sum of a column that became wider."""
    for name in (operation.describe(), operation.former):
        if name in names:
            return name
    bare = operation.bare
    if not isinstance(bare, SumFloat) or bare.column not in widened:
        return None
    since = operation.since if isinstance(operation, Later) else 0
    whole = _begun(SumInt(bare.column, where=bare.where), since).describe()
    return whole if whole in names else None


@dataclass(frozen=True)
class Adaption:
    """How stored entries become those of an operator with other aggregates, or with fewer columns before the states.

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
        plan = self.binding.plan
        head = {**plan.head_of_older(old[0]), **head}
        if self.waiting.conversion is not None:
            head |= {"rows": self.waiting.conversion.blobs(head["rows"], head["waiting"])}
        columns = [head[name] for name, _ in plan.head]
        found: dict[str, list[State]] = {}
        for state in self.stored.states:
            found.setdefault(state.name, []).append(tuple(old[at : at + len(state.parts)]))
            at += len(state.parts)
        taken: Counter[str] = Counter()
        for operation in self.binding.plan.operations:
            name = _source(operation, list(found), self.widened)
            if name is None:
                columns += self._empty(operation, rows)
            elif name not in (operation.describe(), operation.former):
                columns += exact.of_ints(found[name][0][0])
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
        return [op.describe() for op in operations if _source(op, names, self.widened) is None]

    def _empty(self, operation: Operation, rows: int) -> list[Column]:
        return [
            np.repeat(column, rows) for column in empty_state(operation, dict(self.binding.inputs.values))
        ]

    def pages(self, pages: list[bytes]) -> list[bytes]:
        """Return each page with the columns of the operator."""
        old, counts = self.stored.layout.decode(pages)
        return self.binding.plan.layout.encode(self.columns(old), counts)


def adaption(
    binding: Binding,
    stored_identity: dict[str, Any],
    stored: StoredSchema | None,
    policy: str,
    *,
    moved: bool = False,
) -> Adaption | None:
    """Return how stored state has to be changed for the operator, or None if it fits as it is.

    The policy decides about changes that users make. A former version of this library may have stored more columns before
    the states: such entries are always converted.

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
) -> Adaption | None:
    """Return what `adaption` returns.

    Args:
        binding: the operator, as it goes on with the state.
        own: what its state depends on.
        stored_identity, stored, policy, moved: as for `adaption`.

    Raises:
        StateError: as `adaption`.
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
    retyped = _retyped(binding, stored_identity)
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
            ends = f"closed was {stored_identity[CLOSED]!r}, is {own[CLOSED]!r}"
            changes.append(f"{ends}: all rows that are not out yet would have windows with other ends")
        raise StateError(
            f"the operator differs from that of the stored state: {'; '.join(changes)}. To go on with the state, set "
            f"spark.windows.state.evolution to {ADAPT}; otherwise go back to the former definition, or {restart}"
        )
    return Adaption(binding, stored, _widened_columns(binding, stored_identity), order, waiting)


def _ignored(own: Mapping[str, Any], stored: Mapping[str, Any], *, moved: bool) -> set[str]:
    """What may differ: what earlier versions did not record, and segments of a savepoint."""
    ignored = {
        name for name in (LASTING, CLOSED) if name not in stored
    }  # `check_lifetimes` looks into such a state.
    if CLOCK_CHANGES in stored and CLOCK_CHANGES in own:  # `check_clock_changes` looks into such a state.
        ignored |= {ZONE, CLOCK_CHANGES}
    if not (CLOCK in stored and CLOCK in own):  # Whole numbers may be times of either clock.
        ignored.add(CLOCK)
    return ignored | {SEGMENT} if moved else ignored


def _refuse_unless_wider(retyped: Mapping[str, tuple[str, str]], restart: str) -> None:
    for name, (before, now) in retyped.items():
        if not _widened(before, now):
            raise StateError(
                f"column {name!r} was {before}, is {now}: stored states cannot be converted. Cast it back, "
                f"give the changed column another name, or {restart}"
            )


def _only_moved(name: str, stored: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether all that differs in the states of an identity is their order."""
    return sorted(stored.get(name) or []) == sorted(own.get(name) or [])


def stored_change(binding: Binding, progress: Progress, policy: str) -> Adaption | None:
    """Return what `adaption` returns for the state of a pointer's progress; None if it has none.

    Raises:
        StateError: as `adaption`.
    """
    if progress.identity is None:
        return None
    return adaption(binding, progress.identity, progress.schema, policy)


def _retyped(binding: Binding, stored_identity: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The input columns whose type became another, with the type before and now."""
    before, now = stored_identity.get(COLUMNS) or [], binding.columns
    changed = {}
    for name, type_ in binding.inputs.values:
        for line in {*before} - {*now}:
            # The rest is a type, and not more of a longer name.
            if line.startswith(f"{name}: ") and re.match(r"\w+($|[(<\[])", line[len(name) + 2 :]):
                changed[name] = line[len(name) + 2 :], str(type_)
    return changed


def _widened_columns(binding: Binding, stored_identity: dict[str, Any]) -> tuple[str, ...]:
    """The columns of whole numbers that became wider."""
    types = _retyped(binding, stored_identity).items()
    return tuple(name for name, (before, now) in types if before in _WIDTHS[0] and _widened(before, now))


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
