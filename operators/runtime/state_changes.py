"""How an operator's states differ from stored ones, in the words of errors."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from operators.runtime.binding import Binding
from operators.runtime.identity import COLUMNS, KIND, SEGMENT, STATE, differing
from state_backends import StateError
from state_backends.store.schema import StoredSchema

_BY_FOLD = " by fold"
_FOLLOWING = {KIND, STATE, COLUMNS, SEGMENT}


def without_merge(binding: Binding, stored_identity: Mapping[str, Any]) -> str | None:
    """Return what to say if the first fold without merge was added, or the last one removed; None if more differs.

    With such a fold, windows are stored instead of panes.
    """
    own, output = binding.identity(), binding.output
    before, now = stored_identity.get(KIND), own.get(KIND)
    if not {*differing(stored_identity, own)} <= _FOLLOWING or not output.aggregates:
        return None
    if before == f"{now}{_BY_FOLD}":
        return (
            "the state has windows, for a fold without merge that is gone, and this operator needs panes, which cannot be made "
            "of windows: keep such a fold"
        )
    if now != f"{before}{_BY_FOLD}":
        return None
    folds = [name for name, bound in output.aggregates if not all(op.combines for op in bound.operations)]
    return (
        f"{', '.join(map(repr, folds))} is a fold without merge and needs windows, and the state has panes, of which they "
        "cannot be made: give it a merge"
    )


def new_lifetimes(binding: Binding, before: Sequence[str]) -> list[str]:
    """Return the results that are over the lifetime, and whose states were kept for other lookbacks only, as text."""
    output: Any = binding.output
    lasting = binding.plan.lasting_results(output)
    return [
        f"{name} was not over the lifetime, and would count from now on, over all of its lookbacks"
        for name, bound in output.aggregates
        if name in lasting
        and all(op.bare.describe() in before and op.describe() not in before for op in bound.operations)
    ]


def changed_states(before: Sequence[str], binding: Binding, stored: StoredSchema) -> list[str]:
    """Return how the states differ, as text: new, gone, of another form, moved; each with the results that are made from it.

    Args:
        before: the stored states.
        binding: the operator.
        stored: the schema of the stored entries.
    """
    operations, old, new = (
        binding.plan.operations,
        _with_results(stored),
        _with_results(binding.stored_schema()),
    )
    now = [operation.describe() for operation in operations]
    moved = sorted(before) == sorted(now) and list(before) != list(now)
    former = {op.former: op.describe() for op in operations if op.describe() not in before}
    kept = {old: new for old, new in former.items() if old is not None and old in before and old not in now}
    return [
        *(
            f"{new} has more columns than {old}, which would be converted"
            for old, new in sorted(kept.items())
        ),
        *(
            f"{new[name]} is new, and would count from now on"
            for name in sorted({*now} - {*before, *kept.values()})
        ),
        *(
            f"{old.get(name, name)} is gone, and its state would be dropped"
            for name in sorted({*before} - {*now, *kept})
        ),
        *([f"the order was {', '.join(before)}"] if moved else []),
    ]


def _with_results(schema: StoredSchema) -> dict[str, str]:
    """The name of each state as text, with the results that are made from it, such as "total, mean from SumLong(v)"."""
    found: dict[str, list[str]] = {state.name: [] for state in schema.states}
    for result, numbers in schema.results:
        for number in numbers:
            found[schema.states[number].name].append(result)
    return {name: f"{', '.join(results)} from {name}" if results else name for name, results in found.items()}


def check_names(before: Sequence[str], now: Sequence[str], restart: str) -> None:
    """Refuse to guess which of several states of one name is gone, or new."""
    old, new = Counter(before), Counter(now)
    for name in {*old} & {*new}:
        if old[name] != new[name]:
            raise StateError(
                f"{name} occurred {old[name]} times and now occurs {new[name]} times, so that its states cannot be told apart. "
                f"Go back to the former definition, or {restart}, with names for folds: fold(..., name=...)"
            )
