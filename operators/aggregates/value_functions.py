"""Aggregates of the distribution of values: distinct ones, all of them, ranks and estimates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from operators.aggregates.definitions import Aggregate, CollectList
from operators.aggregates.distinct import CollectSet, CollectUnion, CountDistinct
from operators.aggregates.histograms import ApproxTopK, HistogramOf, Mode
from operators.aggregates.percentiles import Percentile
from operators.aggregates.quantile_sketches import ApproxQuantiles, several
from operators.aggregates.sketches import ApproxCountDistinct
from operators.aggregates.texts import Joined
from operators.columns.expressions import named

if TYPE_CHECKING:
    from pyspark.sql import Column


def collect_union(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """The distinct elements of arrays, sorted, NaN last: array, empty without any. Nulls do not count.

    State the distinct elements.

    Args:
        column: a column of arrays of any atomic type.
        where: boolean: records where it is not true do not count.
    """
    return CollectUnion(named(column), where=named(where))


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


def listagg(
    column: "str | Column", delimiter: str | bytes = "", *, where: "str | Column | None" = None
) -> Aggregate:
    """All texts, or bytes, except nulls as one, by event time, then by value: of the column's type, null without values.

    Args:
        column: a column of texts or of bytes.
        delimiter: what stands between two of them.
        where: boolean: records where it is not true do not count.
    """
    return Joined(named(column), delimiter=delimiter, distinct=False, where=named(where))


def listagg_distinct(
    column: "str | Column", delimiter: str | bytes = "", *, where: "str | Column | None" = None
) -> Aggregate:
    """The distinct texts, or bytes, as one, in ascending order. Otherwise as `listagg`; state as `count_distinct`."""
    return Joined(named(column), delimiter=delimiter, distinct=True, where=named(where))


def histogram(column: "str | Column", most: int = 1000, *, where: "str | Column | None" = None) -> Aggregate:
    """How often each value occurs: map from value to bigint, never null, in ascending order of values, NaN last.

    If there are more than `most` different values, the map has the most frequent of them, of ties the lowest: its counts then
    add up to less than `count(column)`. Nulls do not count, all NaN are equal, -0.0 equals 0.0. The state has each distinct
    value and its count, whatever `most` is.

    Args:
        column: a column of any atomic type.
        most: the largest number of entries, 1 or more.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `most` is not a whole number of 1 or more.
    """
    return HistogramOf(named(column), most=most, where=named(where))


def mode(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """The commonest value, of ties the lowest: of the column's type, null without values. Shares the state of `histogram`."""
    return Mode(named(column), where=named(where))


def approx_top_k(
    column: "str | Column",
    k: int = 5,
    max_items_tracked: int = 10_000,
    *,
    where: "str | Column | None" = None,
) -> Aggregate:
    """The k most frequent values, the most frequent first, of ties the lowest: array<struct<item, count: bigint>>, never null.

    Exact where each pane, and each state that panes are merged into, has up to `max_items_tracked` different values. Beyond
    that, a count is too high by at most 1 / (max_items_tracked + 1) of the records, and so each value that is more frequent
    than that is found. State up to `max_items_tracked` values and their counts. Nulls do not count.

    Args:
        column: a column of any atomic type.
        k: 1 or more.
        max_items_tracked: from k to 1,000,000.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: an argument is out of range.

    Source: Agarwal et al. 2012, Mergeable summaries.
    """
    return ApproxTopK(named(column), k=k, size=max_items_tracked, where=named(where))


def percentile(
    column: "str | Column", percentage: float | Sequence[float], *, where: "str | Column | None" = None
) -> Aggregate:
    """Value at a rank, exact: double, or array<double> for several ranks; null without values. Nulls do not count.

    Between two values, the result is interpolated linearly, as by Spark. NaN is larger than any number. The state has each
    value; `approx_quantiles` has a state of bounded size.

    Args:
        column: a column of numbers.
        percentage: rank from 0, the smallest value, to 1, the largest; or a list of ranks.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: a rank is not a number from 0 to 1.
    """
    return Percentile.at(named(column), percentage, named(where))


def percentile_disc(
    column: "str | Column", percentage: float | Sequence[float], *, where: "str | Column | None" = None
) -> Aggregate:
    """The value of rank ceil(percentage * n), from 1: double, or array<double> for several ranks; null without values.

    Always one of the values, as a double; `percentile`, whose state it shares, interpolates between two of them.
    """
    return Percentile.at(named(column), percentage, named(where), discrete=True)


def median(column: "str | Column", *, where: "str | Column | None" = None) -> Aggregate:
    """The value in the middle, exact: double; null without values. Shares the state of `percentile`."""
    return Percentile.at(named(column), 0.5, named(where))


def approx_count_distinct(
    column: "str | Column", rsd: float = 0.02, *, where: "str | Column | None" = None
) -> Aggregate:
    """Number of distinct values, estimated: bigint, never null; nulls do not count, all NaN are equal, -0.0 equals 0.0.

    The estimate depends on the set of values only, not on how it is divided into panes; up to 384 values with 0.02 it is nearly
    always exact. State a HyperLogLog sketch: 4 bytes per value, up to (1.04 / rsd)**2 bytes rounded up to a power of two.

    Args:
        column: a column of any atomic type.
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
        column: a column of numbers other than decimals.
        probabilities: ranks from 0, the smallest value, to 1, the largest; between two values, the result is the lower one.
        k: size of the sketch, 8 to 65535.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: an argument is out of range.
    """
    return ApproxQuantiles(named(column), probabilities=several(probabilities), size=k, where=named(where))
