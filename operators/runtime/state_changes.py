"""How an operator's states differ from stored ones, in the words of errors."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from operators.aggregates.state_words import in_words, listed
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
        and all(
            op.base_operation.describe() in before and op.describe() not in before for op in bound.operations
        )
    ]


def changed_states(before: Sequence[str], binding: Binding, stored: StoredSchema) -> list[str]:
    """Return how the states differ, as text: new, gone, of another form; with the results that are made from them.

    Args:
        before: the stored states.
        binding: the operator.
        stored: the schema of the stored entries.
    """
    operations = binding.plan.operations
    now = [operation.describe() for operation in operations]
    former = {op.former: op.describe() for op in operations if op.describe() not in before}
    kept = {old: new for old, new in former.items() if old is not None and old in before and old not in now}
    own = binding.stored_schema()
    return [
        *(f"{text} has another form now, and would be converted" for text in _texts(own, {*kept.values()})),
        *(
            f"{text} is new, and would count from now on"
            for text in _texts(own, {*now} - {*before, *kept.values()})
        ),
        *(
            f"{text} is gone, and its state would be dropped"
            for text in _texts(stored, {*before} - {*now, *kept})
        ),
    ]


def _texts(schema: StoredSchema, names: Collection[str]) -> list[str]:
    """States as text, those of the same results together, such as 'total, mean from sum("v")'."""
    found: dict[str, list[str]] = {}
    for number, state in enumerate(schema.states):
        if state.name in names:
            found.setdefault(", ".join(_results(schema, number)), []).append(state.name)
    return sorted(
        f"{results} from {listed(states)}" if results else listed(states) for results, states in found.items()
    )


def _results(schema: StoredSchema, number: int) -> list[str]:
    """The results that are made from a state."""
    return [result for result, numbers in schema.results if number in numbers]


def order_of_alike(stored: StoredSchema, own: StoredSchema, restart: str) -> dict[str, list[int]]:
    """Return, of states of one name, which stored one each of the operator's continues; nothing where the order is the same.

    They are told apart by the results that are made from them.

    Args:
        stored, own: the schemas of the stored entries, and of the operator's.
        restart: the last way out, for the error.

    Raises:
        StateError: there are others of one name than before, or results were renamed so that they cannot be told apart.
    """
    before, now = (Counter(state.name for state in schema.states) for schema in (stored, own))
    order = {}
    for name in now:
        if name not in before or max(before[name], now[name]) == 1:
            continue
        old, new = (
            [_results(schema, number) for number, state in enumerate(schema.states) if state.name == name]
            for schema in (stored, own)
        )
        if len(old) == len(new) and (old == new or not any(old)):
            continue
        if sorted(old) != sorted(new):
            results = sorted({result for each in (*old, *new) for result in each})
            raise StateError(
                f"{in_words(name)} is the text of several aggregates ({', '.join(results)}), of which some were added, removed "
                "or renamed, so that their states cannot be told apart. Go back to the former definition, or "
                f"{restart}, with names for folds: fold(..., name=...)"
            )
        order[name] = [old.index(results) for results in new]
    return order
