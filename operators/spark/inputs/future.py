"""Records of the future: event times too far ahead of the clock are null for operators, and for the watermark."""

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import StructField, StructType

from operators.errors import DefinitionError
from operators.runtime.inputs import Inputs
from operators.spark.base.inside import WATERMARK, known_columns, plan_nodes
from operators.spark.base.quoting import quote
from operators.spark.inputs.pipeline_schema import without_analysis
from operators.spark.inputs.watermarks import utc

GIVEN_TIME = "event time before max_future"
"""The column of event times as they came, beside that in which those of the future are null."""
_MOST_US = 2**61


def known_by_now(df: DataFrame, event_time: str, column: Column, max_future_us: int | None) -> Column:
    """Return a column of a frame, with nulls where the event time is too far ahead of the clock.

    Spark replaces the clock by that of the batch, which the checkpoint has: a batch that runs again has the same nulls.

    Args:
        df: the frame.
        event_time: its event-time column.
        column: made of it.
        max_future_us: how far ahead of the clock event times may be in microseconds; None for any number.

    Raises:
        DefinitionError: the frame is a stream that has a watermark already.
    """
    if max_future_us is None:
        return column
    if known_columns(df) is None and df.isStreaming and any(name == WATERMARK for _, name in plan_nodes(df)):
        raise DefinitionError(
            "the frame has a watermark, from withWatermark or from another stateful operator, which records of the future move "
            "before max_future can leave them out: leave withWatermark out, since apply sets it from grace, or give max_future "
            "to the first operator"
        )
    latest = F.expr(f"current_timestamp() + interval {min(max_future_us, _MOST_US)} microseconds")
    return F.when(utc(df, event_time) <= latest, column)


def with_known_times(df: DataFrame, event_time: str, max_future_us: int) -> DataFrame:
    """Return a frame with nulls in place of event times that are too far ahead of the clock, and with all of them as they came.

    Raises:
        DefinitionError: as `known_by_now`.
    """
    given = F.col(quote(event_time))
    known = known_by_now(df, event_time, given, max_future_us)
    columns = known_columns(df)
    if columns is not None:
        columns = StructType([*columns, StructField(GIVEN_TIME, columns[event_time].dataType)])
    return without_analysis(df.withColumns({GIVEN_TIME: given, event_time: known}), columns)


def reading_given_times(inputs: Inputs) -> Inputs:
    """Return what an operator reads of the frame that `with_known_times` returns."""
    return replace(inputs, given_time=GIVEN_TIME)
