"""Session gaps of a DataFrame's rows: an expression or a column, as one column of intervals or whole milliseconds."""

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

from operators.columns.checks import list_columns
from operators.errors import DefinitionError
from operators.spark.base.quoting import quote

_NAME = "session gap"


def with_gap(gap: Column | str, df: DataFrame, event_time: str) -> tuple[str, DataFrame]:
    """Return the frame with each row's session gap as a column, and that column's name.

    Args:
        gap: an expression, or the name of a column.
        df: the rows.
        event_time: name of the event-time column: a gap of months is as long as they are from then on.

    Raises:
        DefinitionError: the column does not exist, or its type is not a length of time.
    """
    named = [("event time", event_time)] + ([("gap", gap)] if isinstance(gap, str) else [])
    for what, column in named:
        if column not in df.columns:
            raise DefinitionError(
                f"{what} column {column!r} does not exist; the frame has the columns {list_columns(column, df.columns)}"
            )
    gap = F.col(quote(gap)) if isinstance(gap, str) else gap
    name = _NAME
    while name in df.columns:
        name += "_"
    length = _length(gap, df.select(gap).schema[0].dataType, df.schema[event_time].dataType, event_time)
    return name, df.withColumn(name, length)


def _length(gap: Column, type_: DataType, time_type: DataType, event_time: str) -> Column:
    """A gap as an interval of days to seconds, or as whole milliseconds; null if it cannot be read as one."""
    if isinstance(type_, DayTimeIntervalType):
        return gap
    if isinstance(type_, IntegralType):
        return gap.cast("bigint")
    if isinstance(type_, StringType):
        gap = gap.try_cast("interval")
    elif not isinstance(type_, CalendarIntervalType | YearMonthIntervalType):
        raise DefinitionError(
            f"the gap is of type {type_.simpleString()}; it must be an interval, its text, or whole milliseconds: cast it first"
        )
    # Months, and days on which clocks change, are as long as they are from the record's time on.
    time = F.col(quote(event_time))
    end = F.try_add(time, gap)
    if isinstance(time_type, TimestampNTZType):
        return F.try_subtract(end, time)
    # Not end - time: between timestamps Spark counts by the clock of the session's zone.
    return F.try_subtract(F.unix_micros(end), F.unix_micros(time)) * F.expr("interval '0.000001' second")
