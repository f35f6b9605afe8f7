"""Explanations of operators: made from an operator and a DataFrame or a schema, without running anything."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from operators.aggregates.state_words import in_words
from operators.columns.checks import column_types
from operators.columns.expressions import named, refuse_expressions
from operators.errors import DefinitionError
from operators.explain.parts import AggregatePart, Parts
from operators.explain.shuffle import bounded_stage, spark_types, streamed_stage
from operators.explain.state import state_of
from operators.explain.text import text
from operators.runtime.binding import Binding, Runnable
from state_backends import StateConfig, resolve

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


class Explanation(Parts):
    """What an operator does with a frame, and why. Its `str()` is the text that `explain` prints."""

    __slots__ = ()

    @classmethod
    def of(
        cls,
        operator: Runnable,
        frame: "DataFrame | pa.Schema | pa.Table",
        event_time: "str | Column",
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        checkpoint: str | Path | None = None,
        number: int = 0,
    ) -> "Explanation":
        """Return what an operator does with a frame; see `RunnableOperator.explain`, whose `operator` is `number`."""
        if checkpoint is not None:
            return cls.of(operator, frame, event_time, backend, options).with_since(checkpoint, number)
        if isinstance(frame, pa.Table | pa.RecordBatch):
            frame = frame.schema
        if isinstance(frame, pa.Schema):
            refuse_expressions([("event_time", event_time)])
            return cls._of_schema(operator, frame, named(event_time), resolve(backend, options))
        if not hasattr(frame, "sparkSession"):
            raise DefinitionError(
                f"explain takes a Spark DataFrame, or a pyarrow Schema or Table, not {type(frame).__name__}"
            )
        return cls._of_spark(operator, frame, event_time, backend, options)

    @classmethod
    def of_columns(cls, operator: Runnable, frame: "DataFrame", event_time: "str | Column") -> "Explanation":
        """Return what an operator does with a stream, and with a bounded frame, of the columns of a bounded DataFrame."""
        return cls._of_spark(operator, frame, event_time, None, None, both=True)

    def with_since(self, checkpoint: str | Path, number: int) -> "Explanation":
        """Return the explanation with what a checkpoint says: since when aggregates that were added count all records.

        Args:
            checkpoint: the checkpoint folder of a query.
            number: the operator's number among those with state in the query's plan.

        Raises:
            StateError: the checkpoint has no state of windows.
        """
        from operators.spark.state.checkpoint_check import since_of

        found = since_of(checkpoint, number)
        parts = tuple(replace(part, since=found.get(part.result)) for part in self.aggregates)
        return replace(self, aggregates=parts)

    @classmethod
    def _of_spark(
        cls,
        operator: Runnable,
        df: "DataFrame",
        event_time: "str | Column",
        backend: str | None,
        options: Mapping[str, object] | None,
        *,
        both: bool = False,
    ) -> "Explanation":
        from operators.spark.inputs.arguments import Arguments
        from operators.spark.inputs.chains import is_shuffled
        from operators.spark.inputs.prepare import prepare

        prepared = prepare(operator, df, event_time, Arguments(backend, options))
        types = {field.name: field.dataType for field in prepared.df.schema.fields}
        bindings, buckets = (prepared.binding, prepared.bounded), prepared.buckets
        incoming = prepared.incoming() if df.isStreaming else None
        shuffled = is_shuffled(prepared.df) if incoming is None else incoming.shuffled
        found = cls._of(
            bindings,
            types,
            prepared.config,
            prepared.config.buckets if both else buckets,
            streaming=None if both else df.isStreaming,
            shuffled=shuffled and not both,
        )
        return found if incoming is None else replace(found, watermark_rule=incoming.watermark_rule)

    @classmethod
    def _of_schema(
        cls, operator: Runnable, schema: pa.Schema, event_time: str, config: StateConfig
    ) -> "Explanation":
        binding = operator.bind(schema, event_time, config)
        bounded = replace(binding, plan=operator.bounded().bind(schema, event_time, config).plan)
        types = spark_types(column_types(schema)[event_time], event_time)
        return cls._of((binding, bounded), types, config, config.buckets, streaming=None)

    @classmethod
    def _of(
        cls,
        bindings: tuple[Binding, Binding],
        types: "Mapping[str, DataType]",
        config: StateConfig,
        buckets: int | None,
        *,
        streaming: bool | None,
        shuffled: bool = False,
    ) -> "Explanation":
        """Explain a stream, a bounded frame, or both if `streaming` is None.

        Args:
            bindings: the operator on a stream, and on a bounded frame.
            types: Spark's types of the columns.
            config: effective backend and options.
            buckets: number of buckets, or None if it is not known.
            streaming: whether the frame is a stream, or None if it is not known.
            shuffled: whether its rows come out of a shuffle of Spark.
        """
        streamed, bounded = bindings
        binding = bounded if streaming is False else streamed
        windows = binding.plan.windows(binding.tick_us, binding.inputs.gap)
        return cls(
            windows,
            tuple(_aggregates(binding)),
            state_of(binding, windows),
            None if streaming else bounded_stage(bounded, types, shuffled=shuffled),
            None if streaming is False else streamed_stage(binding, shuffled=shuffled),
            binding,
            config,
            buckets,
        )

    def __str__(self) -> str:
        return text(self)


def _aggregates(binding: Binding) -> Iterator[AggregatePart]:
    """Each result, with how it is computed."""
    output = binding.output
    for names, (result, bound) in zip(output.result_names, output.aggregates, strict=True):
        states = tuple(in_words(operation.describe()) for operation in bound.operations)
        strategy = binding.plan.strategy_of(bound)
        yield AggregatePart(", ".join(names), str(bound.type), states, *strategy, result=result)
