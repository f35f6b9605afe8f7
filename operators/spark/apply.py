"""`apply`: an operator on a Spark DataFrame, as one pass over a bounded frame, or as a streaming plan with state."""

from dataclasses import replace

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from operators.columns.arrow import bounds_type
from operators.columns.checks import refuse_alike, refuse_twice
from operators.columns.records import FAR_FUTURE
from operators.errors import DefinitionError
from operators.runtime.binding import Binding, Runnable
from operators.runtime.evolution import state_conversion
from operators.runtime.metrics import LARGEST, names
from operators.spark.base.executors import tasks_at_once
from operators.spark.base.heartbeats import with_heartbeats
from operators.spark.base.inside import SAME_METRICS, has_condition, in_workers_of_arrow, known_columns
from operators.spark.base.observed import observed
from operators.spark.base.session import (
    check_partitions,
    check_session,
    check_snapshot_folder,
    check_workers,
)
from operators.spark.base.types import arrow_type, reported_schema, spark_schema
from operators.spark.batch.bounded import BoundedRun
from operators.spark.batch.bounded_input import input_columns, sort_input
from operators.spark.inputs.arguments import Arguments
from operators.spark.inputs.chains import Incoming, as_windows, direct, mark_times
from operators.spark.inputs.packing import PACKED, PACKED_COUNTS, TO_BUCKETS, Pack
from operators.spark.inputs.pipeline_schema import (
    check_schema,
    input_types,
    no_analysis_needed,
    with_given_columns,
    without_analysis,
)
from operators.spark.inputs.prepare import check_frame, prepare
from operators.steps.late_reports import LATE, LateSide
from state_backends import StateConfig
from state_backends.checkpoints.labels import partition_labels
from state_backends.checkpoints.savepoint import read_header

_RETAIN_KEY = "spark.sql.streaming.minBatchesToRetain"


@no_analysis_needed()
def apply(
    operator: Runnable,
    df: DataFrame,
    event_time: str | Column,
    arguments: Arguments,
    *,
    with_late: bool = False,
    incoming: Incoming | None = None,
) -> DataFrame:
    """Return the rows of an operator on a DataFrame.

    Args:
        operator: what the user defined.
        df: the input.
        event_time: its event-time column.
        arguments: the other arguments of the user.
        with_late: whether late records are rows, too, of which all columns but `late` are null.
        incoming: what is known of the event time of a stream that was made of several; by default it is found out.
    """
    check_frame(df)
    schema = arguments.schema
    check_schema(df, schema, arguments.streaming)
    if schema is not None and not (arguments.idle is None and arguments.close_time is None):
        raise DefinitionError(
            "schema is for pipelines, which cannot have idle or close_time: leave these out"
        )
    df = with_given_columns(df, schema)
    prepared = prepare(operator, df, event_time, arguments)
    binding, columns, spark = prepared.binding, df.columns, df.sparkSession
    config = prepared.config.with_default("state.snapshots.retain", spark.conf.get(_RETAIN_KEY, None))
    df = prepared.df
    streaming = df.isStreaming if arguments.streaming is None else arguments.streaming
    late = _late_side(binding, df, columns) if with_late else None
    binding = binding.reporting(late)
    narrow = input_columns(df, binding, streaming=streaming)
    if schema is not None:
        narrow = without_analysis(narrow, input_types(binding, df.schema, streaming=streaming))
    out = as_windows(spark_schema(binding.rows), {time.column for time in binding.times if time.is_end})
    idle_ms = arguments.idle_ms
    if not streaming:
        if idle_ms is not None:
            raise DefinitionError(
                "idle is for streams: a bounded frame has no later records, and all of its windows are emitted. Leave idle out"
            )
        check_workers(spark)
        close_time = FAR_FUTURE if arguments.close_time is None else prepared.final_by(arguments.close_time)
        return _bounded(
            narrow, prepared.bounded.reporting(late), out, arguments.name, config.log_level, close_time
        )
    if arguments.close_time is not None:
        raise DefinitionError(
            "close_time is for bounded frames: on a stream, the watermark says which windows are closed"
        )
    check_session(spark)
    check_partitions(spark, prepared.buckets)
    check_snapshot_folder(spark, config)
    if schema is not None and known_columns(df) is not None:
        # What lies below is not known: it may be a shuffle.
        incoming = replace(direct(-(-binding.grace * binding.tick_us // 1_000)), shuffled=True)
    incoming = (incoming or prepared.incoming()).with_idle(idle_ms)
    out = mark_times(out, binding.times, incoming, binding.tick_us)
    name = arguments.name
    try:
        return _streaming(narrow, binding, config, prepared.buckets, out, name, incoming)
    except AnalysisException as error:
        if not has_condition(error, SAME_METRICS):
            raise
        raise DefinitionError(
            f"the frame comes from another operator named {name!r}: give each operator of a query its own name, "
            f"such as apply(..., name='{name}_2')"
        ) from error


def _late_side(binding: Binding, df: DataFrame, columns: list[str]) -> LateSide:
    """How late records are reported: with all columns that the frame had before it was prepared."""
    refuse_twice("column", tuple(columns))
    refuse_alike("output column", (*binding.output.arrow.names, LATE))
    record = reported_schema(StructType([df.schema[name] for name in columns]))
    time = arrow_type(df.schema[binding.inputs.event_time].dataType)
    return LateSide(record, bounds_type(time, binding.tick_us), binding.tick_us)


def _bounded(
    df: DataFrame, binding: Binding, out: StructType, name: str, log_level: str, close_time: int
) -> DataFrame:
    """The rows of a bounded frame."""
    input_ = sort_input(df, binding, name)
    run = BoundedRun(binding, input_.source, name, input_.step, log_level, close_time)
    return input_.df.mapInArrow(run, out)


def _streaming(
    df: DataFrame,
    binding: Binding,
    config: StateConfig,
    buckets: int,
    out: StructType,
    name: str,
    incoming: Incoming,
) -> DataFrame:
    # Imported here: the bucket's processor needs pandas, which a batch does not.
    from operators.spark.replicas.forget_lookup import Requests
    from operators.spark.replicas.results import Unpack
    from operators.spark.stream.bucket_task import RESULT_TYPES
    from operators.spark.stream.job import Job
    from operators.spark.stream.processor import BucketProcessor

    labels = tuple(partition_labels(buckets))
    savepoint = None if config.savepoint is None else read_header(config.savepoint)
    if savepoint is not None:
        state_conversion(binding, savepoint.identity, savepoint.schema, config.evolution, moved=True)
    timed = incoming.with_watermark(df, binding.inputs.aliases[binding.inputs.event_time])
    if sum(marker not in binding.inputs.names for marker in incoming.markers) > 1:
        # Rows of several inputs cannot be told apart.
        incoming = replace(
            incoming, watermark_rule=replace(incoming.watermark_rule, delays_us=()), markers=()
        )
    rule = incoming.watermark_rule
    clocked = rule.idle_ms is not None
    if rule.idle_ms is not None:
        timed = with_heartbeats(timed, rule.idle_ms)
    tells = clocked or bool(rule.delays_us)
    pack = Pack(binding, labels, name, tells, incoming.shuffled, incoming.markers)
    packed = without_analysis(timed, known_columns(df)).mapInArrow(pack, spark_schema(PACKED))
    packed = observed(packed, f"{name}_in", PACKED_COUNTS)
    sent = without_analysis(packed.select(*TO_BUCKETS.names), spark_schema(TO_BUCKETS))
    requests = Requests.of(config.forget_folder, name, pa.schema(list(binding.output.keys)), labels)
    job = Job(binding, config, labels, rule, savepoint, requests, tasks_at_once(df.sparkSession))
    with in_workers_of_arrow(df.sparkSession):
        results = sent.groupBy("bucket").transformWithStateInPandas(
            BucketProcessor(job, name),
            RESULT_TYPES,
            "append",
            "eventtime",
        )
    results = observed(results, f"{name}_out", names(binding.counts), len(LARGEST))
    return without_analysis(results, RESULT_TYPES).mapInArrow(Unpack(binding.rows, config), out)
