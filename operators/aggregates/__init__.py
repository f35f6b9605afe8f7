"""Aggregates by name: `from operators import aggregates as agg`, then `agg.count()`, `agg.avg("delay")` and so on.

Each takes the name of an input column; aggregates over expressions are made with ordinary Spark columns before `apply`. With
`where="valid"`, a boolean column, only the records where it is true count. Result types are those of Spark's own function.
States are kept per pane; sizes are in bytes, and aggregates that need the same state share it. What a column cannot be is an
error when the operator is applied.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from operators.aggregates.definitions import (
    Aggregate,
    Avg,
    CollectList,
    Count,
    Extremum,
    Spread,
    Sum,
    Truth,
)
from operators.aggregates.distinct import CollectSet, CountDistinct
from operators.aggregates.fold import fold
from operators.aggregates.picks import Picked
from operators.aggregates.regression import Together
from operators.aggregates.sketches import ApproxCountDistinct, ApproxQuantiles
from operators.aggregates.top import TopN
from operators.aggregates.user_operation import AggregateError, AggregateOperation
from operators.columns.checks import listed_names
from operators.errors import DefinitionError

__all__ = [
    "Aggregate",
    "AggregateError",
    "AggregateOperation",
    "approx_count_distinct",
    "approx_quantiles",
    "avg",
    "bool_and",
    "bool_or",
    "collect_list",
    "collect_set",
    "corr",
    "count",
    "count_distinct",
    "covar_pop",
    "covar_samp",
    "first",
    "fold",
    "last",
    "linear_trend",
    "max",
    "max_by",
    "min",
    "min_by",
    "regr_intercept",
    "regr_slope",
    "stddev",
    "stddev_pop",
    "sum",
    "top_n",
    "var_pop",
    "variance",
]


def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """Number of records, or of those whose column is not null: bigint, never null. State 8 bytes."""
    return Count(column, where=where)


def sum(column: str, *, where: str | None = None) -> Aggregate:  # noqa: A001 - the field's name
    """Sum: bigint of whole numbers (an error beyond 64 bits), double, or exact decimal; null without values.

    Only the result has to fit: on the way a sum may leave 64 bits, or the range of doubles, and come back. State 24 bytes, 16
    of int and smaller types, or an object.
    """
    return Sum(column, where=where)


def avg(column: str, *, where: str | None = None) -> Aggregate:
    """Mean: double, or a decimal of four more digits, exact and rounded half up; null without values.

    Finite where the mean is, though the sum may be beyond doubles. State that of `sum`; of bigint 24 bytes of its own.
    """
    return Avg(column, where=where)


def min(column: str, *, where: str | None = None) -> Aggregate:  # noqa: A001 - the field's name
    """Smallest value, of the column's type; NaN only if there is nothing else, null without values. -0.0 comes out as 0.0.

    State 16 bytes, or the value.
    """
    return Extremum(column, largest=False, where=where)


def max(column: str, *, where: str | None = None) -> Aggregate:  # noqa: A001 - the field's name
    """Largest value, of the column's type; NaN wherever there is one, null without values. -0.0 comes out as 0.0.

    State 16 bytes, or the value.
    """
    return Extremum(column, largest=True, where=where)


def bool_and(column: str, *, where: str | None = None) -> Aggregate:
    """Whether a boolean column is true wherever it is not null: boolean; null without values. State 16 bytes."""
    return Truth(column, largest=False, where=where)


def bool_or(column: str, *, where: str | None = None) -> Aggregate:
    """Whether a boolean column is true anywhere: boolean; null without values. State 16 bytes."""
    return Truth(column, largest=True, where=where)


def variance(column: str, *, where: str | None = None) -> Aggregate:
    """Sample variance: double; null below two values, exactly 0 where all are equal. State 56 bytes.

    Here and in all that follows from it, the result is right to its last digits, also where values differ in theirs only, and
    infinite only where it is beyond doubles itself.
    """
    return Spread(column, freedom=1, root=False, where=where)


def stddev(column: str, *, where: str | None = None) -> Aggregate:
    """Sample standard deviation: double; null below two values. State that of `variance`."""
    return Spread(column, freedom=1, root=True, where=where)


def var_pop(column: str, *, where: str | None = None) -> Aggregate:
    """Population variance: double; null without values. State that of `variance`."""
    return Spread(column, freedom=0, root=False, where=where)


def stddev_pop(column: str, *, where: str | None = None) -> Aggregate:
    """Population standard deviation: double; null without values. State that of `variance`."""
    return Spread(column, freedom=0, root=True, where=where)


def covar_samp(y: str, x: str, *, where: str | None = None) -> Aggregate:
    """Sample covariance of two columns: double; null below two records.

    Here and in all that follows from two columns, records with a null in either do not count, one that is not finite makes the
    result NaN, and a column is constant only where all values are equal. State 120 bytes, one for all.
    """
    return Together(y, other=x, kind="covar_samp", where=where)


def covar_pop(y: str, x: str, *, where: str | None = None) -> Aggregate:
    """Population covariance of two columns: double; null without records. State that of `covar_samp`."""
    return Together(y, other=x, kind="covar_pop", where=where)


def corr(y: str, x: str, *, where: str | None = None) -> Aggregate:
    """Correlation of two columns: double; null where either is constant. State that of `covar_samp`."""
    return Together(y, other=x, kind="corr", where=where)


def regr_slope(y: str, x: str, *, where: str | None = None) -> Aggregate:
    """How much y grows with x on the line of least squares: double; null where x is constant. State that of `covar_samp`."""
    return Together(y, other=x, kind="regr_slope", where=where)


def regr_intercept(y: str, x: str, *, where: str | None = None) -> Aggregate:
    """The y of the line of least squares where x is 0: double; null where x is constant. State that of `covar_samp`."""
    return Together(y, other=x, kind="regr_intercept", where=where)


def linear_trend(y: str, x: str, *, where: str | None = None) -> Aggregate:
    """The line of least squares: struct<slope: double, intercept: double>; null where x is constant.

    State that of `covar_samp`.
    """
    return Together(y, other=x, kind="linear_trend", where=where)


def first(column: str, ignore_nulls: bool = False, *, where: str | None = None) -> Aggregate:
    """Value of the record of the earliest event time, of the column's type.

    Of several records of that time the smallest value is taken, NaN only if there are no numbers, and null only if there is
    nothing else: the order of arrival is of no account. Null without records. State 16 bytes and the value.

    Args:
        column: of any atomic type; -0.0 comes out as 0.0.
        ignore_nulls: whether records whose value is null do not count.
        where: a boolean column: records where it is not true do not count.
    """
    return Picked(column, last=False, nulls=not ignore_nulls, where=where)


def last(column: str, ignore_nulls: bool = False, *, where: str | None = None) -> Aggregate:
    """Value of the record of the latest event time, of the column's type; of several records of that time the largest value.

    In all else as `first`.
    """
    return Picked(column, last=True, nulls=not ignore_nulls, where=where)


def min_by(column: str, by: str, *, where: str | None = None) -> Aggregate:
    """Value of the record with the smallest `by`, of the column's type; null if that record's value is, or without records.

    Records whose `by` is null do not count. Of several with the smallest `by`, the smallest value is taken, and null only if
    there is nothing else. Both columns may be of any atomic type. State 8 bytes, `by` and the value.
    """
    return Picked(column, by=by, last=False, where=where)


def max_by(column: str, by: str, *, where: str | None = None) -> Aggregate:
    """Value of the record with the largest `by`, of the column's type; of several such records the largest value.

    NaN is the largest `by`. In all else as `min_by`.
    """
    return Picked(column, by=by, last=True, where=where)


def count_distinct(column: str, *, where: str | None = None) -> Aggregate:
    """Number of distinct values, exact: bigint, never null; nulls do not count, all NaN are one, -0.0 is 0.0.

    State grows with the distinct values.
    """
    return CountDistinct(column, where=where)


def collect_set(column: str, *, where: str | None = None) -> Aggregate:
    """The distinct values in order, NaN last: array, never null; nulls are left out. State that of `count_distinct`."""
    return CollectSet(column, where=where)


def collect_list(column: str, *, where: str | None = None) -> Aggregate:
    """All values but nulls, by event time, then by value: array, never null; -0.0 comes out as 0.0. State grows with them."""
    return CollectList(column, where=where)


def top_n(column: str, n: int, by: str | None = None, *, where: str | None = None) -> Aggregate:
    """The n values with the largest `by` in descending order: array, never null, shorter if there are fewer.

    Records with a null in either column do not count, NaN is the largest `by`, and of an equal `by` the larger value comes
    first. A value that is there twice counts twice. State up to n values, and their `by`.

    Args:
        column: of any atomic type.
        n: 1 or more.
        by: a column of any atomic type; None for the values themselves.
        where: a boolean column: records where it is not true do not count.
    """
    return TopN(column, size=n, by=by, where=where)


def approx_count_distinct(column: str, rsd: float = 0.02, *, where: str | None = None) -> Aggregate:
    """Number of distinct values, estimated: bigint, never null; nulls do not count, all NaN are one, -0.0 is 0.0.

    The estimate depends on the set of values alone, not on how it was cut into panes. State a HyperLogLog sketch: some bytes
    per distinct value, up to about (1.04 / rsd)**2 bytes rounded up to a power of two.

    Args:
        column: of any atomic type.
        rsd: relative standard deviation at most, 0.00072 to 0.5: two thirds of all estimates are closer than that.
        where: a boolean column: records where it is not true do not count.

    Raises:
        DefinitionError: `rsd` is out of bounds, or the package datasketches is not installed.
    """
    return ApproxCountDistinct(column, rsd=rsd, where=where)


def approx_quantiles(
    column: str, probabilities: Sequence[float], k: int = 200, *, where: str | None = None
) -> Aggregate:
    """Values at some ranks, estimated: array<double>; null without values. Nulls and NaN do not count.

    Exact up to k values; beyond that a KLL sketch keeps a random choice of them. In 99 of 100 cases the rank of what it gives
    is off by less than 1.33 % of all values at k = 200, and by some 2.7 / k at another k. As the choice is random, results may
    differ within that bound from run to run, and between ways to cut records into panes. State some 8 bytes a value, up to some
    25 * k bytes.

    Args:
        column: of numbers other than decimals.
        probabilities: ranks from 0, the smallest value, to 1, the largest; of two neighbours the lower one is taken.
        k: size of the sketch, 8 to 65535.
        where: a boolean column: records where it is not true do not count.

    Raises:
        DefinitionError: an argument is out of bounds, or the package datasketches is not installed.
    """
    if not isinstance(probabilities, Iterable):
        raise DefinitionError(
            f"probabilities are {probabilities!r}: give a list of them, such as [0.5, 0.99]"
        )
    return ApproxQuantiles(column, probabilities=tuple(probabilities), size=k, where=where)


_QUANTILE = (
    "agg.approx_quantiles('v', [0.5]), an array with one value, exact for up to 200 values in a window"
)
_OTHERWISE = {
    **dict.fromkeys(
        ["median", "percentile", "percentile_approx", "approx_percentile", "quantile"], _QUANTILE
    ),
    **dict.fromkeys(["mean", "average"], "agg.avg"),
    **dict.fromkeys(["std", "stdev", "stddev_samp"], "agg.stddev"),
    **dict.fromkeys(["var", "var_samp"], "agg.variance"),
    **dict.fromkeys(["every", "all"], "agg.bool_and"),
    **dict.fromkeys(["some", "any"], "agg.bool_or"),
    "nunique": "agg.count_distinct",
}
"""What others call the aggregates here."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        known = _OTHERWISE.get(name)
        told = (
            listed_names(name, __all__) if known is None else f"{', '.join(__all__)}: did you mean {known}?"
        )
        raise AttributeError(f"module 'operators.aggregates' has no attribute {name!r}; it has {told}")


def __dir__() -> list[str]:
    """Return the public names only, for completion: no submodules and no imported names."""
    return sorted(__all__)
