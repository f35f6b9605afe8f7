"""Session gaps of a DataFrame's rows: whatever a user gave, as one column of intervals or whole milliseconds."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import (
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    YearMonthIntervalType,
)

from operators.definitions.windows import SessionWindows
from operators.errors import DefinitionError, columns_told

if TYPE_CHECKING:
    from operators.definitions.aggregation import WindowedAggregation

_NAME = "session gap"


def with_gap(
    operator: "WindowedAggregation", df: DataFrame, event_time: str
) -> tuple["WindowedAggregation", DataFrame]:
    """Return the operator and the frame with each row's gap as a column, if the windows are sessions with gaps of rows.

    Raises:
        DefinitionError: there is no such column, or its type is no length of time.
    """
    windows = operator.windows
    if not isinstance(windows, SessionWindows) or windows.gap_ticks is not None:
        return operator, df
    given = windows.gap_expression
    for what, name in (("event time", event_time), ("gap", windows.gap_column)):
        if name is not None and name not in df.columns:
            raise DefinitionError(
                f"there is no {what} column {name!r}; the frame has {columns_told(name, df.columns)}"
            )
    if given is None:
        given = F.col(quoted(str(windows.gap_column)))
    name = _NAME
    while name in df.columns:
        name += "_"
    length = _length(given, df.select(given).schema[0].dataType, df.schema[event_time].dataType, event_time)
    changed = replace(operator, windows=replace(windows, gap=None, gap_column=name))
    return changed, df.withColumn(name, length)


def _length(gap: Column, type_: DataType, time_type: DataType, event_time: str) -> Column:
    """A gap as an interval of days to seconds, or as whole milliseconds; what cannot be read as one becomes null."""
    if isinstance(type_, DayTimeIntervalType):
        return gap
    if isinstance(type_, IntegralType):
        return gap.cast("bigint")
    if isinstance(type_, StringType):
        gap = gap.try_cast("interval")
    elif not isinstance(type_, CalendarIntervalType | YearMonthIntervalType):
        raise DefinitionError(
            f"the gap is {type_.simpleString()}; an interval, its text, or whole milliseconds are wanted: cast it before"
        )
    # Months, and days where clocks are changed, are as long as they are from the record's time on.
    time = F.col(quoted(event_time))
    end = F.try_add(time, gap)
    if isinstance(time_type, TimestampNTZType):
        return F.try_subtract(end, time)
    # Not end - time: between timestamps Spark counts by the clock of the session's zone.
    return F.try_subtract(F.unix_micros(end), F.unix_micros(time)) * F.expr("interval '0.000001' second")


def quoted(name: str) -> str:
    """Return a column's name as Spark wants it where names are parsed."""
    return f"`{name.replace('`', '``')}`"
