"""Several DataFrames as one, for operators that co-group them."""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

from operators.aggregates.sides import (
    EVENT_TIME,
    Side,
    check_joint_names,
    check_side_columns,
    check_types,
)
from operators.errors import DefinitionError
from operators.spark.base.quoting import quote
from operators.spark.base.types import check_lacking
from operators.spark.inputs.chains import Incoming, incoming
from operators.spark.inputs.future import known_by_now
from operators.spark.inputs.pipeline_schema import no_analysis_needed
from operators.spark.inputs.prepare import check_frame
from operators.spark.inputs.watermarks import check_time, zoned_column


@no_analysis_needed()
def check_frames(frames: Mapping[str, DataFrame]) -> None:
    """Refuse frames that are not DataFrames of Spark, or of which only some are streams.

    Raises:
        DefinitionError: names the frame.
        SessionSetupError: a session was stopped.
    """
    for frame in frames.values():
        check_frame(frame)
    streams = [name for name, frame in frames.items() if frame.isStreaming]
    if streams and len(streams) < len(frames):
        raise DefinitionError(
            f"either all frames must be streams or none: {', '.join(streams)} are, "
            f"{', '.join(name for name in frames if name not in streams)} are not"
        )


def check_inputs(
    sides: Sequence[Side], keys: Sequence[str], frames: Mapping[str, DataFrame], times: Mapping[str, str]
) -> list[str]:
    """Refuse frames that lack a column, and return the columns of all of them.

    Args:
        sides: the frames with their aggregates.
        keys: the key columns, names or expressions.
        frames: the frames by name.
        times: each frame's event-time column, a name or an expression.

    Raises:
        DefinitionError: names the frame and the column.
    """
    for side in sides:
        check_side_columns(side, frames[side.name].columns, [*keys, times[side.name], *side.columns])
    return [name for frame in frames.values() for name in frame.columns]


def unite(
    sides: Sequence[Side],
    shared: Sequence[str],
    frames: Mapping[str, DataFrame],
    times: Mapping[str, str],
    grace_us: int,
    max_future_us: int | None = None,
) -> tuple[DataFrame, Incoming | None]:
    """Return the frames as one, and, if they are streams, what is known of its event time.

    Args:
        sides: the frames with their aggregates.
        shared: the columns that every frame has in addition to its event time.
        frames: the frames by name.
        times: each frame's event-time column.
        grace_us: the operator's grace in microseconds.
        max_future_us: how far ahead of the clock event times may be in microseconds; None for any number.

    Raises:
        DefinitionError: an event time is not a timestamp, types differ, names collide, or a stream's watermark does not fit;
            or a column has a type that Arrow lacks, or times of day.
    """
    check_joint_names(sides, shared)
    for name, frame in frames.items():
        check_time(frame, times[name], name)
    for side in sides:
        check_lacking(frames[side.name].schema, {name: side.joint(name) for name in side.columns})
    parts = [_part(sides, side, shared, frames, times[side.name], max_future_us) for side in sides]
    read = {
        side.name: incoming(frames[side.name], times[side.name], grace_us, takes_updates=False)
        for side in sides
        if frames[side.name].isStreaming
    }
    if read:
        parts = [one.with_watermark(part, EVENT_TIME) for one, part in zip(read.values(), parts, strict=True)]
    types = [{field.name: field.dataType.simpleString() for field in part.schema} for part in parts]
    for side, told in zip(sides, types, strict=True):  # Before those of streams got a zone.
        told[EVENT_TIME] = frames[side.name].schema[times[side.name]].dataType.simpleString()
    check_types([side.name for side in sides], types, times)
    return reduce(DataFrame.unionByName, parts), Incoming.of_inputs(
        read, {side.name: side.marker for side in sides}
    ) if read else None


def _part(
    sides: Sequence[Side],
    of: Side,
    shared: Sequence[str],
    frames: Mapping[str, DataFrame],
    time: str,
    max_future_us: int | None,
) -> DataFrame:
    """One frame's rows, with the columns of all frames."""
    frame = frames[of.name]
    columns = [F.col(quote(name)) for name in shared]
    zoned = zoned_column(frame, time, streaming=frame.isStreaming)
    columns.append(known_by_now(frame, time, zoned, max_future_us).alias(EVENT_TIME))
    for side in sides:
        for name in side.columns:
            nothing = F.lit(None).cast(frames[side.name].schema[name].dataType)
            column = F.col(quote(name)) if side is of else nothing
            columns.append(column.alias(side.joint(name)))
        columns.append(F.lit(True if side is of else None).cast("boolean").alias(side.marker))
    return frame.select(*columns)
