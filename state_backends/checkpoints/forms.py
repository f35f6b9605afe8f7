"""The form of the states of a checkpoint's buckets, which may differ after restarts of a query with other aggregates.

An aggregate that is added to a query may need a state that is kept already, and gets one of its own, which begins later. A
bucket whose first record comes after that keeps one state for both:

    a bucket with records from before     SumLong(v)   SumLong(v) since 1   CountValid(v) since 1
    one whose first record came later     SumLong(v)                        CountValid(v)

All buckets are read in the form of the first kind: what a bucket has once counts for each state that another one begins later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from state_backends.durability.pointer import Pointer
from state_backends.errors import StateError
from state_backends.store.schema import StoredSchema, name_and_since


@dataclass(frozen=True)
class Form:
    """The form in which the states of all buckets are read.

    Attributes:
        schema: the schema of the entries; the grace is that of the bucket that has come furthest, the segments are those of one
            bucket.
        identity: what the state depends on, as far as all buckets say it.
    """

    schema: StoredSchema
    identity: dict[str, Any]


def common_form(path: str, found: Sequence[Pointer]) -> Form:
    """Return the form in which the buckets of a checkpoint can be read.

    Grace and segments may differ: they are those with which a bucket last worked.

    Args:
        path: the path of the checkpoint, for errors.
        found: the pointers of its buckets.

    Raises:
        StateError: there are none, or they differ in more than the times at which their states began.
    """
    schemas = [pointer.progress.schema for pointer in found]
    known = [schema for schema in schemas if schema is not None]
    if not known or len(known) < len(schemas):
        raise StateError(
            f"the checkpoint {path} has no state of windows after this batch: check the checkpoint folder, the batch, and "
            "the number of the operator"
        )
    # Of equal forms, the names of the results are those of the last batch.
    ages = [pointer.progress.sequence for pointer in found]
    number = max(range(len(known)), key=lambda one: (len(known[one].states), ages[one]))
    identities = [pointer.progress.identity or {} for pointer in found]
    schema, identity = known[number], identities[number]
    fits = all(sources(schema, other) is not None for other in known)
    if not fits or not all(_agree(identity, other) for other in identities):
        raise StateError(
            f"the buckets of {path} have states with different columns: let the query complete one batch. If it has, start a "
            "new query from its source"
        )
    latest = max(found, key=lambda pointer: pointer.progress.close_time).progress.schema or schema
    rows = next((each.rows for each in known if each.rows is not None), None)
    common = {name: value for name, value in identity.items() if all(name in other for other in identities)}
    return Form(replace(schema, grace=latest.grace, rows=rows), common)


def since_in(found: Sequence[Pointer]) -> dict[str, dict[str, int]]:
    """Return since when states that were added later count in all buckets, under the name "since"; nothing without them."""
    since: dict[str, int] = {}
    for pointer in found:
        for name, time in (pointer.progress.since or {}).items():
            since[name] = max(time, since.get(name, time))
    return {"since": since} if since else {}


def sources(form: StoredSchema, own: StoredSchema) -> list[int] | None:
    """Return, for each column of an entry in a form, which column of a bucket's entries it is made of.

    Args:
        form: the form.
        own: the schema of the bucket's entries.

    Returns:
        Positions of columns; None if the entries cannot be brought into the form.
    """
    if (form.keys, form.tick_us, form.head) != (own.keys, own.tick_us, own.head):
        return None
    # Earlier versions did not record the columns of rows.
    if None not in (form.rows, own.rows) and form.rows != own.rows:
        return None
    wanted, there = _by_name(form), _by_name(own)
    if wanted.keys() != there.keys():
        return None
    found: dict[int, int] = {}
    for name, states in wanted.items():
        since, stored = [one for one, _ in states], there[name]
        # The only state of a name counts for all that began at different times; two that began together are not told apart.
        if len(stored) == 1 and len({*since}) == len(since):
            stored = stored * len(states)
        if len(stored) != len(states):
            return None
        found |= {at: place for (_, at), (_, place) in zip(states, stored, strict=True)}
    places = _columns(own)
    return [
        *range(len(own.head)),
        *(column for at in range(len(form.states)) for column in places[found[at]]),
    ]


def _by_name(schema: StoredSchema) -> dict[tuple[Any, ...], list[tuple[int, int]]]:
    """The states of each name and codes: since when they are, in that order, and their numbers."""
    found: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for at, state in enumerate(schema.states):
        name, since = name_and_since(state.name)
        codes = tuple(code for _, code in state.parts)
        found.setdefault((name, codes), []).append((since, at))
    return {name: sorted(states) for name, states in found.items()}


def _columns(schema: StoredSchema) -> list[range]:
    """The columns of each state."""
    found, at = [], len(schema.head)
    for state in schema.states:
        found.append(range(at, at + len(state.parts)))
        at += len(state.parts)
    return found


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether lists of states, keys and columns are the same but for the times at which states began."""
    return all(_names(one[name]) == _names(other[name]) for name in {*one} & {*other})


def _names(value: Any) -> set[str] | None:
    return (
        {name_and_since(text)[0] for text in value if isinstance(text, str)}
        if isinstance(value, list)
        else None
    )
