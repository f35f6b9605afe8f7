"""Session gaps of a DataFrame's rows: whatever a user gave, as one column of intervals."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import DataType, DayTimeIntervalType, IntegralType, StringType

from operators.definitions import SessionWindows
from operators.errors import DefinitionError

if TYPE_CHECKING:
    from operators.windows import WindowedAggregation

_NAME = "session gap"


def with_gap(
    operator: "WindowedAggregation", df: DataFrame, event_time: str
) -> tuple["WindowedAggregation", DataFrame]:
    """Return the operator and the frame with each row's gap as a column, if the windows are sessions with gaps of rows.

    Raises:
        DefinitionError: there is no such column.
    """
    windows = operator.windows
    if not isinstance(windows, SessionWindows) or windows.gap_ticks is not None:
        return operator, df
    given = windows.gap_expression
    if given is None:
        if windows.gap_column not in df.columns:
            raise DefinitionError(
                f"there is no gap column {windows.gap_column!r}; the frame has {', '.join(df.columns)}"
            )
        given = F.col(quoted(windows.gap_column))
    name = _NAME
    while name in df.columns:
        name += "_"
    interval = _interval(given, df.select(given).schema[0].dataType, F.col(quoted(event_time)))
    changed = replace(operator, windows=replace(windows, gap=None, gap_column=name))
    return changed, df.withColumn(name, interval)


def _interval(gap: Column, type_: DataType, time: Column) -> Column:
    """A gap as an interval of days to seconds; what cannot be read as one becomes null."""
    if isinstance(type_, DayTimeIntervalType):
        return gap
    if isinstance(type_, IntegralType):
        return F.timestamp_millis(gap) - F.timestamp_millis(F.lit(0))
    if isinstance(type_, StringType):
        gap = gap.try_cast("interval")
    return time + gap - time  # months are as long as they are from that time on


def quoted(name: str) -> str:
    """Return a column's name as Spark wants it where names are parsed."""
    return f"`{name.replace('`', '``')}`"
