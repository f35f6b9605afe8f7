"""Metrics on their way to the driver: an array of each task or bucket, of which the driver makes totals by name.

Spark sends the expressions of observed metrics with the result of each task. A sum for each metric made that 65 kB; a list of
arrays, and what makes totals of it, takes a quarter.

Spark counts what each attempt of a task observed, also of a task that runs again because an executor was lost. So each array
has a number that tells who counted, the same in each attempt, and counts once.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

COUNTS = "counts"
"""The column with the arrays, and the name of the map that Spark reports."""
_BETWEEN = "\0"
"""Stands between names of metrics. One that has it itself would fail in Spark."""


def observed(df: DataFrame, name: str, metrics: Sequence[str], largest: int = 0) -> DataFrame:
    """Return a frame that reports the totals of its column `counts`.

    Args:
        df: has arrays of bigint in this column, or null: who counted, a number above 0, and the value of each metric.
        name: the name of the row that Spark reports. It has one value, `counts`: a map of the totals by metric, 0 without
            arrays.
        metrics: their names.
        largest: how many metrics, from the first on, have the largest value as their total; the others have the sum.
    """
    return df.observe(name, totals(metrics, largest).alias(COUNTS))


def totals(metrics: Sequence[str], largest: int = 0) -> Column:
    """Return the aggregate that `observed` reports."""
    many = len(metrics)
    found = F.expr(
        f"slice(aggregate(sort_array(collect_list({COUNTS})), array_repeat(0L, {many + 1}), (totals, one) -> "
        "if(totals[0] = one[0], totals, transform(totals, (total, n) -> "
        f"if(n <= {largest}, greatest(total, one[n]), total + one[n])))), 2, {many})"
    )
    # A literal of each name would be some thirty more for Spark to plan in each batch.
    return F.map_from_arrays(F.split(F.lit(_BETWEEN.join(metrics)), _BETWEEN), found)
