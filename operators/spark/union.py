"""Several DataFrames as one, for operators that co-group them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

from operators.definitions.cogroup import EVENT_TIME, CoGroupedAggregation, Side, check_columns, check_types
from operators.errors import DefinitionError
from operators.spark.apply import check_frame
from operators.spark.chains import Incoming, incoming
from operators.spark.gaps import quoted, with_gap
from operators.spark.watermarks import zoned_column

if TYPE_CHECKING:
    from operators.definitions.aggregation import WindowedAggregation


def joined(
    cogrouped: CoGroupedAggregation, frames: Mapping[str, DataFrame], times: Mapping[str, str]
) -> tuple["WindowedAggregation", DataFrame, Incoming | None]:
    """Return the operator over the frames as one, these as one, and, if they are streams, what is known of their event time.

    Raises:
        DefinitionError: a column is missing, types differ, or only some frames are streams.
    """
    for frame in frames.values():
        check_frame(frame)
    if len({frame.isStreaming for frame in frames.values()}) > 1:
        streams = [name for name, frame in frames.items() if frame.isStreaming]
        raise DefinitionError(f"all frames have to be streams or none; {', '.join(streams)} are")
    operator = changed = cogrouped.operator
    given = {}
    for side in cogrouped.sides:
        frame, time = frames[side.name], times[side.name]
        check_columns(side, frame.columns, [*operator.keys, time, *side.columns])
        changed, given[side.name] = with_gap(operator, frame, time)
    cogrouped = replace(cogrouped, operator=changed)
    parts = [_part(cogrouped, side, given, times[side.name]) for side in cogrouped.sides]
    read = [_incoming(cogrouped, given[name], times[name]) for name in given if given[name].isStreaming]
    if read:
        parts = [one.watermarked(part, EVENT_TIME) for one, part in zip(read, parts, strict=True)]
    names = [side.name for side in cogrouped.sides]
    check_types(names, [{field.name: field.dataType.simpleString() for field in p.schema} for p in parts])
    return cogrouped.joint, reduce(DataFrame.unionByName, parts), Incoming.joined(read) if read else None


def _incoming(cogrouped: CoGroupedAggregation, frame: DataFrame, time: str) -> Incoming:
    windows = cogrouped.operator.windows
    return incoming(frame, time, windows.grace_ticks * windows.tick_us, takes_updates=False)


def _part(
    cogrouped: CoGroupedAggregation, own: Side, frames: Mapping[str, DataFrame], time: str
) -> DataFrame:
    """One frame's rows, with the columns of all frames."""
    frame = frames[own.name]
    columns = [F.col(quoted(name)) for name in cogrouped.shared()]
    columns.append(zoned_column(frame, time).alias(EVENT_TIME))
    for side in cogrouped.sides:
        for name in side.columns:
            nothing = F.lit(None).cast(frames[side.name].schema[name].dataType)
            column = F.col(quoted(name)) if side is own else nothing
            columns.append(column.alias(side.joint(name)))
        columns.append(F.lit(True if side is own else None).cast("boolean").alias(side.marker))
    return frame.select(*columns)
