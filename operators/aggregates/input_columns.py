"""The input columns of aggregates."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from operators.aggregates.definitions import INPUTS, Aggregate, ByCategory


def inputs_of(aggregate: Aggregate) -> Iterator[str]:
    """Yield the columns that an aggregate reads; they may repeat."""
    for role in INPUTS:
        name = getattr(aggregate, role, None)
        if name is not None:
            yield name
    yield from getattr(aggregate, "columns", ())
    if isinstance(aggregate, ByCategory):
        yield from inputs_of(aggregate.of)


def with_inputs(aggregate: Aggregate, change: Callable[[str], str]) -> Aggregate:
    """Return an aggregate over other columns: each input becomes what `change` returns for it."""
    changes: dict[str, Any] = {}
    for field in fields(aggregate):
        value = getattr(aggregate, field.name)
        if field.name in INPUTS and value is not None:
            changes[field.name] = change(value)
        if field.name == "columns":
            changes["columns"] = tuple(map(change, value))
        if isinstance(value, Aggregate):
            changes[field.name] = with_inputs(value, change)
    return replace(aggregate, **changes)
