"""Aggregates by name: `from operators import aggregates as agg`, then `agg.count()`, `agg.avg("delay")` and so on.

Each takes input columns: names or, on Spark, expressions such as `F.col("v") * 2`. With `where="valid"`, a boolean column or
expression, only records where it is true count. Result types are those of Spark's function of the same name. Each pane has a
state, whose size is given in bytes; aggregates that need the same state share it. A column of a type that an aggregate does not
support is an error when the operator is applied.
"""

from collections.abc import Sequence
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
from operators.aggregates.percentiles import Percentile
from operators.aggregates.picks import Picked
from operators.aggregates.quantile_sketches import ApproxQuantiles, several
from operators.aggregates.regression import Together
from operators.aggregates.sketches import ApproxCountDistinct
from operators.aggregates.top import TopN
from operators.aggregates.user_operation import AggregateError, AggregateOperation
from operators.columns.checks import list_names
from operators.columns.expressions import named

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = [
    "Aggregate",
    "AggregateError",
    "AggregateOperation",
    "any_value",
    "approx_count_distinct",
    "approx_quantiles",
    "array_agg",
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
    "every",
    "first",
    "first_value",
    "fold",
    "last",
    "last_value",
    "linear_trend",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "percentile",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "some",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top_n",
    "var_pop",
    "var_samp",
    "variance",
]


def count(column: "str | Column | None" = None, *, where: "str | Column | None" = None) -> Aggregate:
    """Number of records, as `count("*")`, or of those whose column is not null: bigint, never null. State 8 bytes."""
    return Count(None if isinstance(column, str) and column == "*" else named(column), where=named(where))


def sum(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:  # noqa: A001 - the field's name
    """Sum: bigint of whole numbers (an error beyond 64 bits), double, or exact decimal; null without values.

    Only the result has to fit: intermediate sums may exceed 64 bits, or the range of doubles. State 24 bytes, 16 for int and
    smaller types, or an object.
    """
    return Sum(named(column), where=named(where))


def avg(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Mean: double, or a decimal of four more digits, exact and rounded half up; null without values.

    Finite if the mean is finite, even if the sum exceeds the range of doubles. State as of `sum`; for bigint another 24 bytes.
    """
    return Avg(named(column), where=named(where))


def min(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:  # noqa: A001 - the field's name
    """Smallest value, of its type; NaN only if all are NaN, null without values; 0.0 for -0.0. State 16 bytes, or the value."""
    return Extremum(named(column), largest=False, where=named(where))


def max(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:  # noqa: A001 - the field's name
    """Largest value, of the column's type; NaN if any value is NaN, null without values. -0.0 becomes 0.0.

    State 16 bytes, or the value.
    """
    return Extremum(named(column), largest=True, where=named(where))


def bool_and(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Whether all values of a boolean column are true: boolean; nulls do not count, null without values. State 16 bytes."""
    return Truth(named(column), largest=False, where=named(where))


def bool_or(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Whether any value of a boolean column is true: boolean; nulls do not count, null without values. State 16 bytes."""
    return Truth(named(column), largest=True, where=named(where))


def variance(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Sample variance: double; null below two values, exactly 0 where all are equal. State 56 bytes.

    This and the aggregates derived from it are accurate to the last digits, even if values differ only in their last digits.
    The result is infinite only if it exceeds the range of doubles.
    """
    return Spread(named(column), freedom=1, root=False, where=named(where))


def stddev(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Sample standard deviation: double; null below two values. Shares the state of `variance`."""
    return Spread(named(column), freedom=1, root=True, where=named(where))


def var_pop(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Population variance: double; null without values. Shares the state of `variance`."""
    return Spread(named(column), freedom=0, root=False, where=named(where))


def stddev_pop(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Population standard deviation: double; null without values. Shares the state of `variance`."""
    return Spread(named(column), freedom=0, root=True, where=named(where))


def covar_samp(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Sample covariance of two columns: double; null below two records.

    In all aggregates of two columns, records with a null in either column do not count, a value that is not finite makes the
    result NaN, and a column is constant only if all its values are equal. State 120 bytes, shared by all of them.
    """
    return Together(named(y), other=named(x), kind="covar_samp", where=named(where))


def covar_pop(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Population covariance of two columns: double; null without records. Shares the state of `covar_samp`."""
    return Together(named(y), other=named(x), kind="covar_pop", where=named(where))


def corr(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Correlation of two columns: double; null if either is constant. Shares the state of `covar_samp`."""
    return Together(named(y), other=named(x), kind="corr", where=named(where))


def regr_slope(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Slope of the least-squares line of y over x: double; null if x is constant. Shares the state of `covar_samp`."""
    return Together(named(y), other=named(x), kind="regr_slope", where=named(where))


def regr_intercept(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Intercept of the least-squares line of y over x: double; null if x is constant. Shares the state of `covar_samp`."""
    return Together(named(y), other=named(x), kind="regr_intercept", where=named(where))


def linear_trend(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """The least-squares line: struct<slope: double, intercept: double>; null if x is constant. State of `covar_samp`."""
    return Together(named(y), other=named(x), kind="linear_trend", where=named(where))


def regr_count(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Number of records with both values: bigint, never null. Shares the state of `covar_samp`."""
    return Together(named(y), other=named(x), kind="regr_count", where=named(where))


def regr_avgx(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Mean of x over the records with both values: double; null without them. Shares the state of `covar_samp`."""
    return Together(named(y), other=named(x), kind="regr_avgx", where=named(where))


def regr_avgy(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Mean of y over the records with both values: double; null without them. Shares the state of `covar_samp`."""
    return Together(named(y), other=named(x), kind="regr_avgy", where=named(where))


def regr_sxx(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Sum of the squared distances of x from its mean: double; null without records. Shares the state of `covar_samp`."""
    return Together(named(y), other=named(x), kind="regr_sxx", where=named(where))


def regr_syy(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Sum of the squared distances of y from its mean: double; null without records. Shares the state of `covar_samp`."""
    return Together(named(y), other=named(x), kind="regr_syy", where=named(where))


def regr_sxy(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Sum of products of distances of x and y from their means: double; null without records. State of `covar_samp`."""
    return Together(named(y), other=named(x), kind="regr_sxy", where=named(where))


def regr_r2(y: "str | Column", x: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Square of the correlation: double; null if x is constant, 1 if only y is. Shares the state of `covar_samp`."""
    return Together(named(y), other=named(x), kind="regr_r2", where=named(where))


def first(
    column: "str | Column", ignore_nulls: bool = False, *, where: "str | Column | None" = None
) -> Aggregate:
    """Value of the record with the earliest event time, of the column's type; null without records.

    If several records have that time, the result is their smallest value: NaN only without numbers, and null only without other
    values. So the order of arrival does not matter. State 16 bytes and the value.

    Args:
        column: of any atomic type; -0.0 becomes 0.0.
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


def min_by(column: "str | Column", by: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Value of the record with the smallest `by`, of the column's type; null if that value is null, or without records.

    Records whose `by` is null do not count. If several records have the smallest `by`, the result is their smallest value, and
    null only without other values. Both columns may be of any atomic type. State 8 bytes, `by` and the value.
    """
    return Picked(named(column), by=named(by), last=False, where=named(where))


def max_by(column: "str | Column", by: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Value of the record with the largest `by`, of the column's type; of several such records the largest value.

    NaN is the largest `by`. Otherwise as `min_by`.
    """
    return Picked(named(column), by=named(by), last=True, where=named(where))


def count_distinct(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """Number of distinct values, exact: bigint, never null; nulls do not count, all NaN are equal, -0.0 equals 0.0.

    The state grows with the number of distinct values.
    """
    return CountDistinct(named(column), where=named(where))


def collect_set(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """The distinct values in ascending order, NaN last: array, never null; nulls are omitted. State as `count_distinct`."""
    return CollectSet(named(column), where=named(where))


def collect_list(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """All values except nulls, by event time, then by value: array, never null; -0.0 becomes 0.0. The state grows with them."""
    return CollectList(named(column), where=named(where))


def percentile(
    column: "str | Column", percentage: float | Sequence[float], *, where: "str | Column | None" = None
) -> Aggregate:
    """Value at a rank, exact: double, or array<double> for several ranks; null without values. Nulls do not count.

    Between two values, the result is interpolated linearly, as by Spark. NaN is larger than any number. The state has each
    value; `approx_quantiles` has a state of bounded size.

    Args:
        column: of numbers.
        percentage: rank from 0, the smallest value, to 1, the largest; or a list of ranks.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: a rank is not a number from 0 to 1.
    """
    return Percentile.at(named(column), percentage, named(where))


def median(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """The value in the middle, exact: double; null without values. Shares the state of `percentile`."""
    return Percentile.at(named(column), 0.5, named(where))


def top_n(
    column: "str | Column", n: int, by: "str | Column | None" = None, *, where: "str | Column | None" = None
) -> Aggregate:
    """The n values with the largest `by` in descending order: array, never null, shorter if there are fewer values.

    Records with a null in either column do not count, NaN is the largest `by`, and for an equal `by` the larger value comes
    first. Equal values are repeated. State up to n values, and their `by`.

    Args:
        column: of any atomic type.
        n: 1 or more.
        by: a column of any atomic type; by default the values themselves.
        where: boolean: records where it is not true do not count.
    """
    return TopN(named(column), size=n, by=named(by), where=named(where))


def approx_count_distinct(
    column: "str | Column", rsd: float = 0.02, *, where: "str | Column | None" = None
) -> Aggregate:
    """Number of distinct values, estimated: bigint, never null; nulls do not count, all NaN are equal, -0.0 equals 0.0.

    The estimate depends on the set of values only, not on how it is divided into panes; up to 384 values with 0.02 it is nearly
    always exact. State a HyperLogLog sketch: 4 bytes per value, up to (1.04 / rsd)**2 bytes rounded up to a power of two.

    Args:
        column: of any atomic type.
        rsd: maximum relative standard deviation, 0.00072 to 0.5: two thirds of all estimates have a smaller error.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `rsd` is out of range.
    """
    return ApproxCountDistinct(named(column), rsd=rsd, where=named(where))


def approx_quantiles(
    column: "str | Column",
    probabilities: Sequence[float],
    k: int = 200,
    *,
    where: "str | Column | None" = None,
) -> Aggregate:
    """Values at the given ranks, estimated: array<double>; null without values. Nulls and NaN do not count.

    Exact up to k values; beyond that a KLL sketch keeps a sample. In 99 of 100 cases the error of the rank is less than
    1.33 % of the number of values at k = 200, and about 2.7 / k at another k. The sample follows from the values, and from how
    batches and panes divide them: where these differ, results may differ within that bound. State about 8 bytes per value, up
    to about 25 * k bytes.

    Args:
        column: of numbers other than decimals.
        probabilities: ranks from 0, the smallest value, to 1, the largest; between two values, the result is the lower one.
        k: size of the sketch, 8 to 65535.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: an argument is out of range.
    """
    return ApproxQuantiles(named(column), probabilities=several(probabilities), size=k, where=named(where))


# Spark's other names.
mean = avg
std = stddev_samp = stddev
var_samp = variance
every = bool_and
some = bool_or
any_value = first_value = first
last_value = last
array_agg = collect_list

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from operators.aggregates.elsewhere import INSTEAD

        said = f"module 'operators.aggregates' has no attribute {name!r}"
        known = INSTEAD.get(name)
        raise AttributeError(
            f"{said}; it has {list_names(name, __all__)}" if known is None else f"{said}: use {known}"
        )


def __dir__() -> list[str]:
    """Return the public names only, for completion: no submodules and no imported names."""
    return sorted(__all__)
