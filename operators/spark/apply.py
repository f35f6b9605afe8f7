"""`apply`: an operator on a Spark DataFrame, as a plan of three steps for a stream and of one pass for a bounded frame."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import StructType

from operators.definitions.runnable import refuse_twice
from operators.errors import DefinitionError, check_column_name
from operators.runtime.evolution import adaption
from operators.runtime.metrics import names
from operators.runtime.program import Program
from operators.spark.bounded import BoundedRun, FirstStage, FirstStageRows, InputRows, Slicing, Source
from operators.spark.chains import Incoming, as_windows, incoming, marked
from operators.spark.first_stage import FRAME, EngineStage
from operators.spark.gaps import quoted
from operators.spark.packing import PACKED_DDL, Pack, Unpack, partition_labels
from operators.spark.session import (
    PARTITIONS_KEY,
    check_partitions,
    check_running,
    check_session,
    check_snapshot_folder,
    check_workers,
)
from operators.spark.sorting import in_order
from operators.spark.types import arrow_schema, check_collations, spark_schema, told_schema
from operators.spark.watermarks import check_time, utc, zoned_column
from operators.steps.emission import bounds_type
from operators.steps.late import LATE, LateSide
from operators.steps.partials import KEY, TIME, TwoStagePlan
from state_backends import StateConfig, resolve
from state_backends.checkpoints.savepoint import read_header

if TYPE_CHECKING:
    from operators.definitions.runnable import Applicable

_RETAIN_KEY = "spark.sql.streaming.minBatchesToRetain"
SLICING = Slicing()
"""How bounded frames are cut into steps; no result depends on it."""


def apply(  # noqa: PLR0913 - what users give, and two that they don't
    operator: "Applicable",
    df: DataFrame,
    event_time: str,
    backend: str | None,
    options: Mapping[str, object] | None,
    name: str,
    *,
    with_late: bool = False,
    given: Incoming | None = None,
) -> DataFrame:
    """Return what the operator makes of a frame; see `Applicable.apply`.

    With late records, these are rows too, beside which all is null but the column `late`. What is known of the event time of a
    stream that was made of several is given; else it is found out.
    """
    check_frame(df)
    check_column_name("event_time", event_time)
    columns = df.columns
    spark = df.sparkSession
    config = resolve(backend, options, windows_conf(spark))
    config = config.with_default("state.snapshots.retain", spark.conf.get(_RETAIN_KEY, None))
    check_time(df, event_time)
    operator, df = operator.prepared(df, event_time)
    program = operator.program(arrow_schema(df.schema), event_time, config)
    check_collations(df.schema, program)
    if with_late:
        program = replace(program, late=_late_side(program, df, columns, event_time))
    # Numbered names: Spark's own mapInArrow fails on a column name with a dot.
    narrow = df.select(*[zoned_column(df, name).alias(alias) for name, alias in program.aliases.items()])
    out = as_windows(spark_schema(program.rows), {time.column for time in program.times if time.is_end})
    if not df.isStreaming:
        check_workers(spark)
        plan = operator.bounded().program(arrow_schema(df.schema), event_time, config).plan
        return _bounded(narrow, replace(program, plan=plan), out, name, config.log_level)
    check_session(spark)
    buckets = bucket_count(spark, config)
    check_partitions(spark, buckets)
    check_snapshot_folder(spark, config)
    grace_us = program.grace * program.tick_us
    read = given or incoming(df, event_time, grace_us, takes_updates=operator.takes_updates)
    out = marked(out, program.times, read, program.tick_us)
    try:
        return _streaming(narrow, program, config, buckets, out, name, read)
    except AnalysisException as error:
        if error.getCondition() != "DUPLICATED_METRICS_NAME":
            raise
        raise DefinitionError(
            f"the frame comes from another operator named {name!r}: give each operator of a query a name of its own, "
            f"such as apply(..., name='{name}_2')"
        ) from error


def check_frame(given: object) -> None:
    """Refuse what is no DataFrame of Spark, or one of a session that was stopped.

    Raises:
        DefinitionError: says what it is, and how it becomes one.
        SessionSetupError: the session was stopped.
    """
    if isinstance(given, DataFrame):
        check_running(given.sparkSession)
        return
    kind = f"{type(given).__module__.partition('.')[0]} {type(given).__name__}".removeprefix("builtins ")
    raise DefinitionError(
        f"apply takes a DataFrame of Spark, not a {kind}: make one with spark.createDataFrame, "
        "or run without Spark with local_runner"
    )


def _late_side(program: Program, df: DataFrame, columns: list[str], event_time: str) -> LateSide:
    """How late records are told: with all columns that the frame had before it was prepared."""
    refuse_twice("column", tuple(columns))
    refuse_twice("output column", (*program.output.arrow.names, LATE))
    record = told_schema(StructType([df.schema[name] for name in columns]))
    return LateSide(record, bounds_type(record.field(event_time).type, program.tick_us), program.tick_us)


def bucket_count(spark: SparkSession, config: StateConfig) -> int:
    """Return the number of buckets of a stream: what the configuration says, or Spark's number of shuffle partitions."""
    return config.buckets or int(spark.conf.get(PARTITIONS_KEY) or 1)


def windows_conf(spark: SparkSession) -> dict[str, str]:
    """Return all of a session's conf, classic or of Spark Connect."""
    found = spark.conf.getAll
    return dict(found() if callable(found) else found)


def _bounded(df: DataFrame, program: Program, out: StructType, name: str, log_level: str) -> DataFrame:
    """The windows of a bounded frame; after the last record both policies say the same, so they are computed on close."""
    source: Source
    keys, time = [program.aliases[name] for name in program.group_by], program.aliases[program.event_time]
    stage = EngineStage.of(program, df) if program.late is None else None
    if stage is not None:
        df, micros, source = stage.grouped(df), F.col(FRAME), stage
    elif isinstance(program.plan, TwoStagePlan) and program.plan.condenses and program.late is None:
        first = FirstStage(program, name, SLICING.rows)
        df, keys, source = df.mapInArrow(first, first.ddl), [KEY], FirstStageRows(program)
        most = (2**63 - 1) // program.tick_us
        micros = F.least(F.greatest(F.col(TIME), F.lit(-most)), F.lit(most)) * F.lit(program.tick_us)
    else:
        micros, source = F.unix_micros(utc(df, time)), InputRows(program)
    ordered = in_order(df, keys, micros, SLICING.group_bits)
    return ordered.mapInArrow(BoundedRun(program, source, name, SLICING.rows, log_level), out)


def _streaming(
    df: DataFrame,
    program: Program,
    config: StateConfig,
    buckets: int,
    out: StructType,
    name: str,
    read: Incoming,
) -> DataFrame:
    # Imported here: the bucket's processor needs pandas, which a batch does not.
    from operators.spark.processor import BucketProcessor, result_ddl

    labels = tuple(partition_labels(buckets))
    savepoint = None if config.savepoint is None else read_header(config.savepoint)
    if savepoint is not None:
        adaption(program, savepoint.identity, savepoint.schema, config.evolution, moved=True)
    timed = read.watermarked(df, program.aliases[program.event_time])
    wakes = savepoint is not None or read.closing.chained
    packed = timed.mapInArrow(Pack(program, labels, name, wakes=wakes), PACKED_DDL)
    counts = [F.sum(column).alias(column) for column in ("rows", "bad", "sent", "row_bytes")]
    packed = packed.observe(f"{name}_in", *counts, F.sum(F.length("blob")).alias("sent_bytes"))
    results = packed.groupBy("bucket").transformWithStateInPandas(
        BucketProcessor(program, config, labels, name, read.closing, savepoint),
        result_ddl(program.counts),
        "append",
        "eventtime",
    )
    results = results.observe(
        f"{name}_out", *[F.sum(quoted(one)).alias(one) for one in names(program.counts)]
    )
    return results.mapInArrow(Unpack(program.rows), out)
