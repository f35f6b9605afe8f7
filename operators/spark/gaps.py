"""Session gaps of a DataFrame's rows: whatever a user gave, as one column of intervals or whole milliseconds."""

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

from operators.columns.checks import listed_columns
from operators.errors import DefinitionError

_NAME = "session gap"


def with_gap(gap: Column | str, df: DataFrame, event_time: str) -> tuple[str, DataFrame]:
    """Return the frame with each row's session gap as a column, and that column's name.

    Args:
        gap: an expression, or the name of a column.
        df: the rows.
        event_time: name of the event-time column: a gap of months is as long as they are from then on.

    Raises:
        DefinitionError: there is no such column, or its type is no length of time.
    """
    named = [("event time", event_time)] + ([("gap", gap)] if isinstance(gap, str) else [])
    for what, column in named:
        if column not in df.columns:
            raise DefinitionError(
                f"there is no {what} column {column!r}; the frame has {listed_columns(column, df.columns)}"
            )
    gap = F.col(quoted(gap)) if isinstance(gap, str) else gap
    name = _NAME
    while name in df.columns:
        name += "_"
    length = _length(gap, df.select(gap).schema[0].dataType, df.schema[event_time].dataType, event_time)
    return name, df.withColumn(name, length)


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
