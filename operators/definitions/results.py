"""The results of an operator over windows: what is refused where users name aggregates."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from operators.aggregates import AggregateOperation
from operators.aggregates.input_columns import inputs_of
from operators.aggregates.operation import Operation
from operators.aggregates.over import OverLookbacks
from operators.engines.rolling_rows import RollingOutput
from operators.errors import DefinitionError


def check_named(unnamed: Sequence[object]) -> None:
    """Refuse aggregates without a name.

    Raises:
        DefinitionError: shows how to name them.
    """
    if unnamed:
        raise DefinitionError(
            "each result needs a name: .aggregate(n=agg.count()), not .aggregate(agg.count())"
        )


def inputs_of_results(results: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, str]]:
    """Yield the inputs of results, given as a name, an aggregate and what else: the result as text, and what it reads."""
    for name, aggregate, *_ in results:
        yield from ((f"aggregate {name!r}", column) for column in inputs_of(aggregate))


def check_computes(aggregates: Sequence[object]) -> None:
    """Refuse an operator without aggregates.

    Raises:
        DefinitionError: shows how to add some.
    """
    if not aggregates:
        raise DefinitionError("the operator has no aggregates: add some, such as .aggregate(n=agg.count())")


def no_aggregate(name: str, value: object) -> str:
    """Return the message for a result that is not an aggregate."""
    if isinstance(value, OverLookbacks):
        return f"{name} is over lookbacks {value.lookbacks}, but only RollingWindows have lookbacks: leave over(...) out"
    if isinstance(value, AggregateOperation):
        return (
            f"{name} is the AggregateOperation {value.name!r} itself: call it with columns, such as op('v')"
        )
    if callable(value) and getattr(value, "__module__", "").startswith("operators.aggregates."):
        return f"{name}={value!r} is not an aggregate: call it, such as agg.{getattr(value, '__name__', 'sum')}('v')"
    return (
        f"{name}={value!r} is not an aggregate: use one of operators.aggregates, such as agg.sum('v'), "
        "not of pyspark.sql.functions"
    )


def lasting(output: RollingOutput, lifetimes: Collection[int]) -> tuple[Operation, ...]:
    """Return the operations of the aggregates over a lifetime.

    Args:
        output: the rows, with the aggregates and their lookbacks.
        lifetimes: positions of the lookbacks without end.

    Raises:
        DefinitionError: the state of one of them would grow without end.
    """
    found: dict[Operation, None] = {}
    for name, bound in output.aggregates_over(lifetimes):
        if any(operation.keeps_all for operation in bound.operations):
            raise DefinitionError(
                f"aggregate {name!r} keeps each value, so that its state of a lifetime would grow without end: limit it to "
                f"other lookbacks, as in {name}=agg.collect_list('v').over('1h'); or use first, last, top_n or an "
                "estimate, and give a fold a merge function"
            )
        found |= dict.fromkeys(bound.operations)
    return tuple(found)
