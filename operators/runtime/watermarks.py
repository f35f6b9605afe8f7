"""The watermark of a stream: what makes Spark's close time that of the windows."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import TimestampNTZType

from operators.errors import DefinitionError
from operators.runtime.gaps import quoted

_KEY = "spark.watermarkDelayMs"
_TIMES = ("timestamp", "timestamp_ntz")


def check_time(df: DataFrame, event_time: str) -> None:
    """Refuse a column that is there and is no timestamp.

    Raises:
        DefinitionError: names its type.
    """
    if event_time in df.columns and df.schema[event_time].dataType.simpleString() not in _TIMES:
        raise DefinitionError(
            f"event time column {event_time!r} is {df.schema[event_time].dataType.simpleString()}; a timestamp is wanted: "
            "cast it, for example with to_timestamp"
        )


def zoned_column(df: DataFrame, name: str) -> Column:
    """Return a column of the frame; in a stream a timestamp without zone as one of UTC: watermarks are for these only."""
    return utc(df, name) if df.isStreaming else F.col(quoted(name))


def utc(df: DataFrame, name: str) -> Column:
    """Return a column of the frame; a timestamp without zone as one of UTC."""
    column = F.col(quoted(name))
    if not isinstance(df.schema[name].dataType, TimestampNTZType):
        return column
    # From its fields, not by a cast: that would go through the session's zone and its changes of the clock.
    day = F.unix_date(F.to_date(column)).cast("bigint") * 86_400
    minutes = (F.hour(column) * 60 + F.minute(column)).cast("bigint")
    seconds = F.expr(f"extract(SECOND FROM {quoted(name)})")
    return F.timestamp_micros((day + minutes * 60) * 1_000_000 + (seconds * 1_000_000).cast("bigint"))


def watermarked(df: DataFrame, column: str, grace_us: int, told: str) -> DataFrame:
    """Return the frame with a watermark of the windows' grace; Spark counts in whole milliseconds.

    Args:
        df: a stream.
        column: its event time.
        grace_us: in microseconds.
        told: the column's name in errors.

    Raises:
        DefinitionError: the column has another watermark.
    """
    delay = -(-grace_us // 1_000)
    given = df.schema[column].metadata.get(_KEY)
    if given is not None and given != delay:
        raise DefinitionError(
            f"column {told!r} has a watermark of {given} ms already, the windows' grace is {delay} ms: "
            "leave withWatermark out, apply sets it from grace"
        )
    return df if given is not None else df.withWatermark(quoted(column), f"{delay} milliseconds")
