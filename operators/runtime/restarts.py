"""An operator over a stored state: which of its states each result is made from.

A result may be made from several states, and results share states: a mean and a count need the number of values. The states
of the beginning are set 0; a restart that adds results to some states which were there begins another set, since a result
would else mix counts since the beginning with counts since the change.

    result    needs         stored                             is made from
    n         count         count, sum 1, count 1              set 0
    mean      count, sum    count, sum 1, count 1              set 1: the oldest that is complete
    spread    count, m2     count, sum 1, count 1              set 2, which is new: none is complete
    top       max           count, sum 1, count 1              set 0, which gets it: there is nothing to mix
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from operators.aggregates.operation import Operation, join_states, split_states
from operators.columns.ranges import Ints, State
from operators.columns.records import Records
from operators.kinds.rolling import LASTING
from operators.runtime.binding import Binding
from operators.runtime.identity import SEGMENT, STATE
from operators.runtime.retyped_columns import widened_columns
from operators.steps.partials import Partials
from state_backends import Entries
from state_backends.store.schema import name_and_since, name_since


@dataclass(frozen=True, slots=True)
class RestartedOperation(Operation):
    """The state of another operation, begun at a restart, beside one that is kept for aggregates that were there before.

    Attributes:
        base: the operation.
        since: tells states of one operation apart.
    """

    base: Operation
    since: int

    @property
    def base_operation(self) -> Operation:
        return self.base

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.base.inputs

    @property
    def codes(self) -> tuple[str, ...]:
        return self.base.codes

    @property
    def parts(self) -> tuple[str, ...]:
        return self.base.parts

    def describe(self) -> str:
        return name_since(self.base.describe(), self.since)

    @property
    def former(self) -> str | None:
        return None if self.base.former is None else name_since(self.base.former, self.since)

    @property
    def narrower(self) -> Operation | None:
        narrower = self.base.narrower
        return None if narrower is None else restarted_at(narrower, self.since)

    def lift(self, records: Records) -> State:
        return self.base.lift(records)

    def combine(self, left: State, right: State) -> State:
        return self.base.combine(left, right)

    def add(self, state: State, records: Records) -> State:
        return self.base.add(state, records)

    def reduce(self, state: State, starts: Ints) -> State:
        return self.base.reduce(state, starts)

    def combine_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        return self.base.combine_ranges(state, lo, hi)

    def accumulate(self, records: Records, starts: Ints) -> State:
        return self.base.accumulate(records, starts)

    def fold(self, state: State, base: Ints, records: Records, ranges: tuple[Ints, Ints]) -> State:
        return self.base.fold(state, base, records, ranges)


def restarted_at(operation: Operation, since: int) -> Operation:
    """Return the operation of a set of states."""
    if not since:
        return operation
    return RestartedOperation(operation.column, operation, since, where=operation.where)


def source_of(operation: Operation, names: Collection[str], widened: Collection[str]) -> str | None:
    """Return the stored state that an operation goes on with: its own, its former one, or a sum of what is wider now.

    Args:
        operation: whose state it is.
        names: the stored states.
        widened: columns of whole numbers that became wider.
    """
    for name in (operation.describe(), operation.former):
        if name in names:
            return name
    narrower = operation.narrower
    if narrower is None or operation.column not in widened or narrower.describe() not in names:
        return None
    return narrower.describe()


@dataclass(frozen=True, slots=True)
class StoredSets:
    """The states of a stored state, in sets.

    Attributes:
        names: the names of all states.
        lasting: those that are kept for a lifetime.
        widened: columns of whole numbers that became wider.
    """

    names: Sequence[str]
    lasting: Sequence[str]
    widened: Sequence[str]

    @classmethod
    def of(cls, binding: Binding, stored_identity: Mapping[str, Any]) -> "StoredSets":
        """Return the states that an identity names, as a binding finds them."""
        names, recorded = (list(stored_identity.get(name) or []) for name in (STATE, LASTING))
        # Of several states of one name, all have to be kept: they are not told apart.
        lasting = [name for name in names if recorded.count(name) == names.count(name)]
        return cls(names, lasting, widened_columns(binding, stored_identity))

    def set_for(self, needed: Sequence[Operation], *, lifetime: bool) -> int:
        """Return the set that a result is made from: the oldest that has all it needs, or else one that mixes nothing.

        Args:
            needed: the operations whose states it needs.
            lifetime: whether it is over a lifetime, for which only some states are kept.
        """
        among = self.lasting if lifetime else self.names
        new = 1 + max([0, *(since for _, since in map(name_and_since, self.names))])
        complete = (number for number in range(new) if all(self._have(needed, number, among)))
        found = next(complete, None)
        if found is not None:
            return found
        return new if any(any(self._have(needed, number, self.names)) for number in range(new)) else 0

    def _have(self, needed: Sequence[Operation], number: int, among: Sequence[str]) -> list[bool]:
        """Whether a set has the state of each operation."""
        return [source_of(restarted_at(op, number), among, self.widened) is not None for op in needed]


def effective_binding(
    binding: Binding, stored_identity: Mapping[str, Any], *, moved: bool = False
) -> Binding:
    """Return the binding as it goes on with a stored state: over the segments and the states that are there.

    States that were kept for a lifetime are kept on, also when no aggregate needs them any more.

    Args:
        binding: the operator.
        stored_identity: what the state depends on, as its binding recorded it.
        moved: whether the state comes from a savepoint: its segments need not be those of the operator.
    """
    segment = stored_identity.get(SEGMENT)
    if not (moved or binding.segment_given) and isinstance(segment, int) and segment > 0:
        binding = replace(binding, segment=segment)
    plan: Any = binding.plan
    current: Any = binding.output
    own = plan.describe()
    if not current.aggregates or all(own.get(name) == stored_identity.get(name) for name in (STATE, LASTING)):
        return binding
    stored, lasting_results = StoredSets.of(binding, stored_identity), plan.lasting_results(current)
    aggregates = []
    for name, bound in current.aggregates:
        needed = [operation.base_operation for operation in bound.operations]
        number = stored.set_for(needed, lifetime=name in lasting_results)
        operations = tuple(restarted_at(operation, number) for operation in needed)
        aggregates.append((name, replace(bound, operations=operations)))
    output = replace(current, aggregates=tuple(aggregates))
    kept = {op for op in output.operations if source_of(op, stored.lasting, stored.widened) is not None}
    return replace(binding, plan=plan.of_output(output, kept), output=output)


def convert_partials(batch: Partials, binding: Binding, effective: Binding) -> Partials:
    """Return the partial aggregates of a first stage of one binding as a batch for the effective one."""
    if effective.plan is binding.plan:
        return batch
    head, columns = len(binding.plan.head), batch.entries.columns
    states = dict(
        zip(binding.plan.operations, split_states(binding.plan.operations, columns[head:]), strict=True)
    )
    copied = join_states([states[operation.base_operation] for operation in effective.plan.operations])
    return replace(batch, entries=Entries(batch.entries.key, (*columns[:head], *copied)))
