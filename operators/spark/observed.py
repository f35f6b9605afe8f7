"""Metrics on their way to the driver: an array of each bucket, of which the driver makes totals by name.

Spark sends the expressions of observed metrics with the result of each task. A sum for each metric made that 65 kB; a list of
arrays, and what makes totals of it, takes a quarter.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

COUNTS = "counts"
"""The column with the arrays, and the name of the map that Spark reports."""


def observed(df: DataFrame, name: str, metrics: Sequence[str], largest: int = 0) -> DataFrame:
    """Return a frame that reports the totals of its column `counts`.

    Args:
        df: has arrays of a bigint for each metric in this column, or null.
        name: of the row that Spark reports. It has one value, `counts`: a map of the totals by metric, 0 without arrays.
        metrics: their names.
        largest: of so many, the first ones, the total is the largest value; of the others, it is the sum.
    """
    return df.observe(
        name, F.map_from_arrays(F.array(*map(F.lit, metrics)), _totals(len(metrics), largest)).alias(COUNTS)
    )


def _totals(metrics: int, largest: int) -> Column:
    return F.expr(
        f"aggregate(collect_list({COUNTS}), array_repeat(0L, {metrics}), (totals, one) -> transform(totals, (total, n) -> "
        f"if(n < {largest}, greatest(total, one[n]), total + one[n])))"
    )
