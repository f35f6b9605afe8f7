"""Event times of a DataFrame as operators read them."""

from datetime import datetime, timezone

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import TimestampNTZType, TimestampType

from operators.columns.checks import not_a_time
from operators.errors import DefinitionError
from operators.spark.base.quoting import quote

_TIMES = ("timestamp", "timestamp_ntz")


def check_time(df: DataFrame, event_time: str, frame: str = "") -> None:
    """Refuse an event-time column that is not a timestamp; one that does not exist is refused elsewhere.

    Args:
        df: the frame.
        event_time: name of the column.
        frame: name of the frame, where there are several.

    Raises:
        DefinitionError: names its type.
    """
    if event_time not in df.columns:
        return
    type_ = df.schema[event_time].dataType.simpleString()
    if type_ not in _TIMES:
        raise DefinitionError(not_a_time(type_, event_time, frame))


def zoned_column(df: DataFrame, name: str, *, streaming: bool) -> Column:
    """Return a column of the frame; in a stream a timestamp without zone as one of UTC, since watermarks need a zone."""
    return utc(df, name) if streaming else F.col(quote(name))


def utc(df: DataFrame, name: str) -> Column:
    """Return a column of the frame; a timestamp without zone as one of UTC."""
    column = F.col(quote(name))
    if not isinstance(df.schema[name].dataType, TimestampNTZType):
        return column
    # From its fields, not by a cast, which would use the session's zone and its changes of the clock.
    day = F.unix_date(F.to_date(column)).cast("bigint") * 86_400
    minutes = (F.hour(column) * 60 + F.minute(column)).cast("bigint")
    seconds = F.expr(f"extract(SECOND FROM {quote(name)})")
    return F.timestamp_micros((day + minutes * 60) * 1_000_000 + (seconds * 1_000_000).cast("bigint"))


def moment_us(moment: datetime | str, df: DataFrame, event_time: str) -> int:
    """Return a moment in microseconds since the epoch, as a value of the event-time column.

    Args:
        moment: a datetime, or text that Spark can cast. Without a zone, it is in the session's zone; if the column has no zone,
            it is compared as it is.
        df: the frame.
        event_time: its event-time column.

    Raises:
        DefinitionError: it is not a time.
    """
    if not isinstance(moment, datetime | str):
        raise DefinitionError(
            f"close_time is {moment!r}: give a datetime, or text such as '2026-01-01 00:00:00'"
        )
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    text = F.lit(moment.isoformat() if isinstance(moment, datetime) else moment)
    zoneless = isinstance(df.schema[event_time].dataType, TimestampNTZType)
    one = df.sparkSession.range(1).select(
        text.try_cast(TimestampNTZType() if zoneless else TimestampType()).alias("at")
    )
    (row,) = one.select(F.unix_micros(utc(one, "at"))).collect()
    if row[0] is None:
        raise DefinitionError(
            f"close_time is {moment!r}, which is not a time: give a datetime, or text such as '2026-01-01 00:00:00'"
        )
    return int(row[0])
