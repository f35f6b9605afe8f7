"""Aggregates by name: `from operators import aggregates as agg`, then `agg.count()`, `agg.avg("delay")` and so on.

Each takes the name of an input column; aggregates over expressions are made with ordinary Spark columns before `apply`.
"""

from operators.aggregates.definitions import (
    Aggregate,
    Avg,
    Bound,
    CollectList,
    Count,
    Extremum,
    Spread,
    Sum,
)

__all__ = [
    "Aggregate",
    "Bound",
    "avg",
    "collect_list",
    "count",
    "max",
    "min",
    "stddev",
    "sum",
    "variance",
]


def count(column: str | None = None) -> Aggregate:
    """Number of records, or of those whose column is not null: bigint. State 8 bytes."""
    return Count(column)


def sum(column: str) -> Aggregate:  # noqa: A001 - the field's name
    """Sum: bigint of whole numbers (an error beyond 64 bits), double, or exact decimal. State 16 or 24 bytes."""
    return Sum(column)


def avg(column: str) -> Aggregate:
    """Mean: double. Shares its state with `sum` of a double, and of an int of up to 32 bits. State 16 or 24 bytes."""
    return Avg(column)


def min(column: str) -> Aggregate:  # noqa: A001 - the field's name
    """Smallest value, of the column's type; NaN counts as larger than any number. State 16 bytes, or the value."""
    return Extremum(column, largest=False)


def max(column: str) -> Aggregate:  # noqa: A001 - the field's name
    """Largest value, of the column's type; NaN counts as larger than any number. State 16 bytes, or the value."""
    return Extremum(column, largest=True)


def variance(column: str) -> Aggregate:
    """Sample variance, stable: double; null below two values, as in Spark. State 40 bytes."""
    return Spread(column, freedom=1, root=False)


def stddev(column: str) -> Aggregate:
    """Sample standard deviation, stable: double; null below two values, as in Spark. State 40 bytes."""
    return Spread(column, freedom=1, root=True)


def collect_list(column: str) -> Aggregate:
    """All values but nulls, by event time, then by value: array. State grows with them."""
    return CollectList(column)
