"""The plan of an operator on a frame, as a value and as text."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from operators.definitions.runnable import Applicable, column_types
from operators.errors import DefinitionError
from operators.explain.shuffle import StagePart, bounded_stage, spark_types, streamed_stage
from operators.explain.state import StatePart, state_of
from operators.explain.strategies import AggregatePart, aggregates_of
from operators.explain.text import text
from operators.explain.windows import WindowsPart, windows_of
from operators.runtime.closing import Closing
from operators.runtime.program import Program
from operators.steps.emission import OutputSchema
from state_backends import StateConfig, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an operator does with a frame, and why. `str()` of it is what `explain` prints.

    Attributes:
        windows: how its windows lie in time.
        aggregates: how each result is computed; none for an operator of one's own.
        state: what is stored.
        bounded: what a bounded frame sends through Spark's shuffle; None for a stream.
        streamed: what a stream sends; None for a bounded frame of Spark.
        program: the operator bound to the frame, as it runs on it.
        config: backend and options in effect.
        buckets: number of buckets of a stream; None if it is Spark's number of shuffle partitions, and that is not known.
        closing: how the close times of a stream of Spark follow from its watermark; None for other frames.
    """

    windows: WindowsPart
    aggregates: tuple[AggregatePart, ...]
    state: StatePart
    bounded: StagePart | None
    streamed: StagePart | None
    program: Program
    config: StateConfig
    buckets: int | None
    closing: Closing | None = None

    @classmethod
    def of(
        cls,
        operator: Applicable,
        frame: "DataFrame | pa.Schema | pa.Table",
        event_time: str,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "Explanation":
        """Return what an operator does with a frame; see `Applicable.explain`."""
        if isinstance(frame, pa.Table | pa.RecordBatch):
            frame = frame.schema
        if isinstance(frame, pa.Schema):
            config = resolve(backend, options)
            return cls._of(operator, frame, event_time, config, _Host(None, None, config.buckets))
        if not hasattr(frame, "sparkSession"):
            raise DefinitionError(
                f"explain takes a DataFrame of Spark, or a pyarrow Schema or Table, not {type(frame).__name__}"
            )
        return cls._of_spark(operator, frame, event_time, backend, options)

    @classmethod
    def _of_spark(
        cls,
        operator: Applicable,
        df: "DataFrame",
        event_time: str,
        backend: str | None,
        options: Mapping[str, object] | None,
    ) -> "Explanation":
        from operators.spark.apply import bucket_count, check_frame, windows_conf
        from operators.spark.chains import incoming
        from operators.spark.types import arrow_schema, check_collations
        from operators.spark.watermarks import check_time

        check_frame(df)
        spark = df.sparkSession
        config = resolve(backend, options, windows_conf(spark))
        check_time(df, event_time)
        operator, df = operator.prepared(df, event_time)
        types = {field.name: field.dataType for field in df.schema.fields}
        buckets = bucket_count(spark, config)
        host = _Host(types, df.isStreaming, buckets)
        made = cls._of(operator, arrow_schema(df.schema), event_time, config, host)
        check_collations(df.schema, made.program)
        if not df.isStreaming:
            return made
        grace_us = made.program.grace * made.program.tick_us
        read = incoming(df, event_time, grace_us, takes_updates=operator.takes_updates)
        return replace(made, closing=read.closing)

    @classmethod
    def _of(
        cls, operator: Applicable, schema: pa.Schema, event_time: str, config: StateConfig, host: "_Host"
    ) -> "Explanation":
        program = operator.program(schema, event_time, config)
        bounded = replace(program, plan=operator.bounded().program(schema, event_time, config).plan)
        if host.streaming is False:
            program = bounded
        windows, output = windows_of(program), program.output
        types = host.types
        if types is None:
            types = spark_types(column_types(schema)[event_time], event_time)
        return cls(
            windows,
            aggregates_of(program.plan, output) if isinstance(output, OutputSchema) else (),
            state_of(program, windows),
            None if host.streaming else bounded_stage(bounded, types),
            None if host.streaming is False else streamed_stage(program),
            program,
            config,
            host.buckets,
        )

    def __str__(self) -> str:
        return text(self)


@dataclass(frozen=True, slots=True)
class _Host:
    """Where a frame is.

    Attributes:
        types: Spark's types of its columns, or None if it is not Spark's.
        streaming: whether it is a stream; None where that is not said.
        buckets: number of buckets, if it is known.
    """

    types: "Mapping[str, DataType] | None"
    streaming: bool | None
    buckets: int | None
