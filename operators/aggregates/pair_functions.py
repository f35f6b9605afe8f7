"""Aggregates of two columns of numbers."""

from typing import TYPE_CHECKING

from operators.aggregates.definitions import Aggregate
from operators.aggregates.regression import Together
from operators.columns.expressions import named

if TYPE_CHECKING:
    from pyspark.sql import Column


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
