"""`apply`: an operator on a Spark DataFrame, as a plan of three steps for a stream and of one pass for a bounded frame."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import StructType, TimestampNTZType

from operators.errors import DefinitionError
from operators.program import Program
from operators.runtime.bounded import BoundedRun
from operators.runtime.gaps import quoted, with_gap
from operators.runtime.packing import PACKED_DDL, RESULT_DDL, Pack, Unpack, partition_labels, to_blob
from operators.runtime.session import check_partitions, check_session
from operators.runtime.types import arrow_schema, spark_schema
from state_backends import StateConfig, resolve

if TYPE_CHECKING:
    from operators.windows import WindowedAggregation

_WATERMARK_KEY = "spark.watermarkDelayMs"
_PARTITIONS_KEY = "spark.sql.shuffle.partitions"
_TIMES = ("timestamp", "timestamp_ntz")


def apply(
    operator: "WindowedAggregation",
    df: DataFrame,
    event_time: str,
    backend: str | None,
    options: Mapping[str, object] | None,
    name: str,
) -> DataFrame:
    """Return the operator's windows of a frame; see `WindowedAggregation.apply`."""
    spark = df.sparkSession
    config = resolve(backend, options, _windows_conf(spark))
    _check_time(df, event_time)
    operator, df = with_gap(operator, df, event_time)
    program = operator.program(arrow_schema(df.schema), event_time, config)
    # Numbered names: Spark's own mapInArrow fails on a column name with a dot.
    narrow = df.select(*[_input(df, name).alias(alias) for name, alias in program.aliases.items()])
    out = spark_schema(program.output.arrow)
    if not df.isStreaming:
        plan = operator.emit("on_close").program(arrow_schema(df.schema), event_time, config).plan
        return _bounded(narrow, replace(program, plan=plan), out)
    check_session(spark)
    return _streaming(narrow, program, config, out, name)


def _windows_conf(spark: SparkSession) -> dict[str, str]:
    found = spark.conf.getAll
    return dict(found() if callable(found) else found)


def _check_time(df: DataFrame, event_time: str) -> None:
    if event_time in df.columns and df.schema[event_time].dataType.simpleString() not in _TIMES:
        raise DefinitionError(
            f"event time column {event_time!r} is {df.schema[event_time].dataType.simpleString()}; a timestamp is wanted: "
            "cast it, for example with to_timestamp"
        )


def _input(df: DataFrame, name: str) -> Column:
    """A column of the frame; in a stream a timestamp without zone as one of UTC, since watermarks are only for these."""
    column = F.col(quoted(name))
    if not (df.isStreaming and isinstance(df.schema[name].dataType, TimestampNTZType)):
        return column
    # From its fields, not by a cast: that would go through the session's zone and its changes of the clock.
    day = F.unix_date(F.to_date(column)).cast("bigint") * 86_400
    minutes = (F.hour(column) * 60 + F.minute(column)).cast("bigint")
    seconds = F.expr(f"extract(SECOND FROM {quoted(name)})")
    return F.timestamp_micros((day + minutes * 60) * 1_000_000 + (seconds * 1_000_000).cast("bigint"))


def _bounded(df: DataFrame, program: Program, out: StructType) -> DataFrame:
    """The windows of a bounded frame; after the last record both policies say the same, so they are computed on close."""
    keys = [program.aliases[name] for name in program.group_by]
    parts = df.repartition(*keys) if keys else df.repartition(1)
    ordered = parts.sortWithinPartitions(*keys, program.aliases[program.event_time])
    return ordered.mapInArrow(BoundedRun(program), out)


def _streaming(df: DataFrame, program: Program, config: StateConfig, out: StructType, name: str) -> DataFrame:
    spark = df.sparkSession
    # Imported here: the bucket's processor needs pandas, which a batch does not.
    from operators.runtime.bucket import BucketProcessor

    buckets = config.buckets or int(spark.conf.get(_PARTITIONS_KEY) or 1)
    check_partitions(spark, buckets)
    labels = tuple(partition_labels(buckets))
    empty = to_blob(arrow_schema(df.schema).empty_table().rename_columns(program.inputs))
    packed = _watermarked(df, program).mapInArrow(Pack(program, labels), PACKED_DDL)
    counts = [F.sum(column).alias(column) for column in ("rows", "bad", "sent", "row_bytes")]
    packed = packed.observe(f"{name}_in", *counts, F.sum(F.length("blob")).alias("sent_bytes"))
    results = packed.groupBy("bucket").transformWithStateInPandas(
        BucketProcessor(program, config, labels, empty), RESULT_DDL, "append", "eventtime"
    )
    results = results.observe(f"{name}_out", F.sum("late").alias("late"), F.sum("windows").alias("windows"))
    return results.mapInArrow(Unpack(program.output.arrow), out)


def _watermarked(df: DataFrame, program: Program) -> DataFrame:
    """The frame with the watermark that makes Spark's close time ours; Spark counts in whole milliseconds."""
    delay = -(-program.grace * program.tick_us // 1_000)
    time = program.aliases[program.event_time]
    given = df.schema[time].metadata.get(_WATERMARK_KEY)
    if given is not None and given != delay:
        raise DefinitionError(
            f"column {program.event_time!r} has a watermark of {given} ms already, the windows' grace is {delay} ms: "
            "leave withWatermark out, apply sets it from grace"
        )
    return df if given is not None else df.withWatermark(time, f"{delay} milliseconds")
