"""`apply`: an operator on a Spark DataFrame, as one pass over a bounded frame, or as a streaming plan with state."""

from collections.abc import Mapping
from datetime import datetime

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import StructType

from operators.columns.arrow import bounds_type
from operators.columns.checks import refuse_twice
from operators.columns.durations import Duration, ticks
from operators.columns.records import FAR_FUTURE
from operators.errors import DefinitionError
from operators.runtime.evolution import adaption
from operators.runtime.metrics import names
from operators.runtime.program import Program, Runnable
from operators.spark.bounded import BoundedRun
from operators.spark.bounded_input import input_columns, sorted_input
from operators.spark.chains import Incoming, as_windows, marked
from operators.spark.gaps import quoted
from operators.spark.heartbeats import with_heartbeats
from operators.spark.packing import PACKED_DDL, Pack, Unpack, partition_labels
from operators.spark.prepare import prepare
from operators.spark.session import (
    check_partitions,
    check_session,
    check_snapshot_folder,
    check_workers,
)
from operators.spark.types import reported_schema, spark_schema
from operators.steps.late import LATE, LateSide
from state_backends import StateConfig
from state_backends.checkpoints.savepoint import read_header

_MS_US = 1_000
_RETAIN_KEY = "spark.sql.streaming.minBatchesToRetain"


def apply(  # noqa: PLR0913 - what users give, and two that they don't
    operator: Runnable,
    df: DataFrame,
    event_time: str,
    backend: str | None,
    options: Mapping[str, object] | None,
    name: str,
    *,
    with_late: bool = False,
    incoming: Incoming | None = None,
    close_time: datetime | str | None = None,
    idle: Duration | None = None,
) -> DataFrame:
    """Return the rows of an operator on a DataFrame; see `RunnableOperator.apply`.

    Args:
        operator: what the user defined.
        df, event_time, backend, options, name: as there.
        with_late: whether late records are rows, too, of which all columns but `late` are null.
        incoming: what is known of the event time of a stream that was made of several; by default it is found out.
        close_time: of a bounded frame, the time by which windows have to end to be emitted.
        idle: how long a stream has to be without records for the clock to close windows.
    """
    prepared = prepare(operator, df, event_time, backend, options)
    program, columns, spark = prepared.program, df.columns, df.sparkSession
    config = prepared.config.with_default("state.snapshots.retain", spark.conf.get(_RETAIN_KEY, None))
    df = prepared.df
    late = _late_side(program, df, columns) if with_late else None
    program = program.reporting(late)
    narrow = input_columns(df, program)
    out = as_windows(spark_schema(program.rows), {time.column for time in program.times if time.is_end})
    idle_ms = None if idle is None else ticks(idle, _MS_US, "idle", 1)
    if not df.isStreaming:
        check_workers(spark)
        closes = FAR_FUTURE if close_time is None else prepared.final_by(close_time)
        return _bounded(narrow, prepared.bounded.reporting(late), out, name, config.log_level, closes)
    if close_time is not None:
        raise DefinitionError(
            "close_time is for bounded frames: on a stream, the watermark says which windows are closed"
        )
    check_session(spark)
    check_partitions(spark, prepared.buckets)
    check_snapshot_folder(spark, config)
    incoming = (incoming or prepared.incoming()).with_idle(idle_ms)
    out = marked(out, program.times, incoming, program.tick_us)
    try:
        return _streaming(narrow, program, config, prepared.buckets, out, name, incoming)
    except AnalysisException as error:
        if error.getCondition() != "DUPLICATED_METRICS_NAME":
            raise
        raise DefinitionError(
            f"the frame comes from another operator named {name!r}: give each operator of a query its own name, "
            f"such as apply(..., name='{name}_2')"
        ) from error


def _late_side(program: Program, df: DataFrame, columns: list[str]) -> LateSide:
    """How late records are reported: with all columns that the frame had before it was prepared."""
    refuse_twice("column", tuple(columns))
    refuse_twice("output column", (*program.output.arrow.names, LATE))
    record = reported_schema(StructType([df.schema[name] for name in columns]))
    return LateSide(
        record, bounds_type(record.field(program.inputs.event_time).type, program.tick_us), program.tick_us
    )


def _bounded(
    df: DataFrame, program: Program, out: StructType, name: str, log_level: str, close_time: int
) -> DataFrame:
    """The rows of a bounded frame."""
    input_ = sorted_input(df, program, name)
    run = BoundedRun(program, input_.source, name, input_.step, log_level, close_time)
    return input_.df.mapInArrow(run, out)


def _streaming(
    df: DataFrame,
    program: Program,
    config: StateConfig,
    buckets: int,
    out: StructType,
    name: str,
    incoming: Incoming,
) -> DataFrame:
    # Imported here: the bucket's processor needs pandas, which a batch does not.
    from operators.spark.processor import BucketProcessor, result_ddl

    labels = tuple(partition_labels(buckets))
    savepoint = None if config.savepoint is None else read_header(config.savepoint)
    if savepoint is not None:
        adaption(program, savepoint.identity, savepoint.schema, config.evolution, moved=True)
    timed = incoming.watermarked(df, program.inputs.aliases[program.inputs.event_time])
    closing = incoming.closing
    clocked = closing.idle_ms is not None
    if closing.idle_ms is not None:
        timed = with_heartbeats(timed, closing.idle_ms)
    wakes = savepoint is not None or closing.chained or clocked
    packed = timed.mapInArrow(Pack(program, labels, name, wakes=wakes, tells=clocked), PACKED_DDL)
    counts = [F.sum(column).alias(column) for column in ("rows", "bad", "sent", "row_bytes")]
    packed = packed.observe(f"{name}_in", *counts, F.sum(F.length("blob")).alias("sent_bytes"))
    results = packed.groupBy("bucket").transformWithStateInPandas(
        BucketProcessor(program, config, labels, name, closing, savepoint),
        result_ddl(program.counts),
        "append",
        "eventtime",
    )
    results = results.observe(
        f"{name}_out", *[F.sum(quoted(one)).alias(one) for one in names(program.counts)]
    )
    return results.mapInArrow(Unpack(program.rows), out)
