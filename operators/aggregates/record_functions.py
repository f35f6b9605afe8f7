"""Aggregates that pick values of some records: the first, the last, the largest."""

from typing import TYPE_CHECKING

from operators.aggregates.definitions import Aggregate
from operators.aggregates.ends import EndValues
from operators.aggregates.picks import Picked
from operators.aggregates.top import TopN
from operators.columns.expressions import named

if TYPE_CHECKING:
    from pyspark.sql import Column


def first(
    column: "str | Column", ignore_nulls: bool = False, *, where: "str | Column | None" = None
) -> Aggregate:
    """Value of the record with the earliest event time, of the column's type; null without records.

    If several records have that time, the result is their smallest value: NaN only without numbers, and null only without other
    values. So the order of arrival does not matter. State 16 bytes and the value.

    Args:
        column: a column of any atomic type; -0.0 becomes 0.0.
        ignore_nulls: whether to skip records whose value is null.
        where: boolean: records where it is not true do not count.
    """
    return Picked(named(column), last=False, nulls=not ignore_nulls, where=named(where))


def last(
    column: "str | Column", ignore_nulls: bool = False, *, where: "str | Column | None" = None
) -> Aggregate:
    """Value of the record with the latest event time, of the column's type; of several records of that time the largest value.

    Otherwise as `first`.
    """
    return Picked(named(column), last=True, nulls=not ignore_nulls, where=named(where))


def first_n(
    column: "str | Column",
    n: int,
    ignore_nulls: bool = False,
    *,
    distinct: bool = False,
    where: "str | Column | None" = None,
) -> Aggregate:
    """The values of the first n records by event time, in this order: array, never null, shorter if there are fewer records.

    Ties are ordered by value, with a null last, so that the order of arrival does not matter and `first(c)` is the first of
    them. State up to n values, and their times.

    Args:
        column: a column of any atomic type; -0.0 becomes 0.0.
        n: 1 or more.
        ignore_nulls: whether to skip records whose value is null.
        distinct: whether to list each value once, where it occurs first.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `n` is not a whole number of 1 or more.
    """
    return EndValues(
        named(column), size=n, last=False, distinct=distinct, nulls=not ignore_nulls, where=named(where)
    )


def last_n(
    column: "str | Column",
    n: int,
    ignore_nulls: bool = False,
    *,
    distinct: bool = False,
    where: "str | Column | None" = None,
) -> Aggregate:
    """The values of the last n records by event time, the latest at the end: array, never null, shorter if there are fewer.

    Ties are ordered by value, with a null first, so that `last(c)` is the last of them. With `distinct`, each value is listed
    once, where it occurs last: a, b, a gives [b, a]. Otherwise as `first_n`.
    """
    return EndValues(
        named(column), size=n, last=True, distinct=distinct, nulls=not ignore_nulls, where=named(where)
    )


def min_by(
    column: "str | Column", by: "str | Column", k: int | None = None, *, where: "str | Column | None" = None
) -> Aggregate:
    """Value of the record with the smallest `by`, of the column's type; null if that value is null, or without records.

    Records whose `by` is null do not count. If several records have the smallest `by`, the result is their smallest value, and
    null only without other values. Both columns may be of any atomic type. State 8 bytes, `by` and the value.

    With `k`, an array of the values of the k records with the smallest `by`, in ascending order of it, nulls among them; null
    without records. State up to k values, and their `by`. `bottom_n` leaves out nulls.

    Args:
        column, by: columns of any atomic type.
        k: 1 or more, or None for one value.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `k` is not a whole number of 1 or more.
    """
    if k is not None:
        return TopN(named(column), size=k, order=named(by), largest=False, nulls=True, where=named(where))
    return Picked(named(column), order=named(by), last=False, where=named(where))


def max_by(
    column: "str | Column", by: "str | Column", k: int | None = None, *, where: "str | Column | None" = None
) -> Aggregate:
    """Value of the record with the largest `by`, of the column's type; of several such records the largest value.

    NaN is the largest `by`. With `k`, an array of the values of the k records with the largest `by`, in descending order of it.
    Otherwise as `min_by`.
    """
    if k is not None:
        return TopN(named(column), size=k, order=named(by), nulls=True, where=named(where))
    return Picked(named(column), order=named(by), last=True, where=named(where))


def top_n(
    column: "str | Column", n: int, by: "str | Column | None" = None, *, where: "str | Column | None" = None
) -> Aggregate:
    """The n values with the largest `by` in descending order: array, never null, shorter if there are fewer values.

    Records with a null in either column do not count, NaN is the largest `by`, and for an equal `by` the larger value comes
    first. Equal values are repeated. State up to n values, and their `by`.

    Args:
        column: a column of any atomic type.
        n: 1 or more.
        by: a column of any atomic type; by default the values themselves.
        where: boolean: records where it is not true do not count.
    """
    return TopN(named(column), size=n, order=named(by), where=named(where))


def bottom_n(
    column: "str | Column", n: int, by: "str | Column | None" = None, *, where: "str | Column | None" = None
) -> Aggregate:
    """The n values with the smallest `by` in ascending order: array; for an equal `by` the smaller value comes first.

    Otherwise as `top_n`.
    """
    return TopN(named(column), size=n, order=named(by), largest=False, where=named(where))
