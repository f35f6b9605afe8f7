"""An operator bound to a Spark DataFrame: what applying it, explaining it and checking a checkpoint have in common."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession

from operators.columns.checks import check_column_name
from operators.columns.durations import odd_lengths
from operators.columns.expressions import named
from operators.errors import DefinitionError
from operators.runtime.binding import Binding, Runnable
from operators.spark.base.session import CALLER, PARTITIONS_KEY, check_running
from operators.spark.base.types import arrow_schema, check_collations, check_lacking, in_spark_types
from operators.spark.inputs.arguments import Arguments
from operators.spark.inputs.chains import Incoming, incoming
from operators.spark.inputs.future import reading_given_times, with_known_times
from operators.spark.inputs.watermarks import check_time, moment_us
from state_backends import StateConfig, resolve

_LENGTHS = ("size", "advance", "gap", "max_length", "lookbacks", "grace", "offset")


@dataclass(frozen=True, slots=True)
class Prepared:
    """An operator bound to a DataFrame.

    Attributes:
        df: the input, with expressions made columns.
        binding: the operator as it runs over a stream.
        bounded: the operator as it runs over a bounded frame.
        config: backend and options in effect.
        event_time: name of the event-time column of `df`.
        takes_updates: whether the operator can read updates of windows as records.
        final: whether each row comes once, when no record can change it any more.
    """

    df: DataFrame
    binding: Binding
    bounded: Binding
    config: StateConfig
    event_time: str
    takes_updates: bool
    final: bool

    @property
    def buckets(self) -> int:
        """Number of buckets of a stream: what the configuration says, or Spark's number of shuffle partitions."""
        return self.config.buckets or int(self.df.sparkSession.conf.get(PARTITIONS_KEY) or 1)

    def close_ticks(self, moment: datetime | str) -> int:
        """Return a close time in ticks.

        Raises:
            DefinitionError: it is not a time.
        """
        return moment_us(moment, self.df, self.event_time) // self.binding.tick_us

    def final_by(self, moment: datetime | str) -> int:
        """Return the close time in ticks up to which rows of a bounded frame are emitted.

        Raises:
            DefinitionError: it is not a time, or rows come before they are final.
        """
        if not self.final:
            raise DefinitionError(
                "close_time is for operators that emit on close: this one also emits rows that are not final yet, so that a "
                "stream that starts from a savepoint goes on from all of them. Leave close_time out"
            )
        return self.close_ticks(moment)

    def incoming(self) -> Incoming:
        """Return what is known of the event time of the input, which is a stream.

        Raises:
            DefinitionError: the event time has another watermark than the operator needs, or none.
        """
        binding = self.binding
        grace_us = binding.grace * binding.tick_us
        return incoming(self.df, binding.inputs.event_time, grace_us, takes_updates=self.takes_updates)


def prepare(operator: Runnable, df: DataFrame, event_time: "str | Column", arguments: Arguments) -> Prepared:
    """Return an operator bound to a DataFrame. Nothing runs.

    Args:
        operator: what the user defined.
        df: the input.
        event_time: its event-time column, by name or as an expression.
        arguments: the other arguments of the user, of which only backend, options and max_future count.

    Raises:
        DefinitionError: a missing column, a wrong type, or nothing to compute.
        ValueError: an unknown backend or option.
        SessionSetupError: the session was stopped.
    """
    check_frame(df)
    time = named(event_time)
    check_column_name("event_time", time)
    config = resolve(arguments.backend, arguments.options, conf_of(df.sparkSession))
    for message in _odd_lengths(operator):
        warnings.warn(message, stacklevel=CALLER)
    check_time(df, time)
    operator, df, time = operator.prepared(df, time)
    check_time(df, time)
    schema = arrow_schema(df.schema)
    try:
        binding = operator.bind(schema, time, config)
    except DefinitionError as error:
        raise type(error)(in_spark_types(str(error))) from error.__cause__
    check_lacking(df.schema, {name: name for name in binding.inputs.names})
    check_collations(df.schema, binding)
    if arguments.max_future_us is not None:
        df = with_known_times(df, time, arguments.max_future_us)
        binding = replace(binding, inputs=reading_given_times(binding.inputs))
    bounded = replace(binding, plan=operator.bounded().bind(schema, time, config).plan)
    return Prepared(df, binding, bounded, config, time, operator.takes_updates, operator.final)


def _odd_lengths(operator: Runnable) -> Iterator[str]:
    """Say which lengths are probably not meant as milliseconds. Of a custom operator, only grace is known to be a length."""
    windows = getattr(operator, "windows", None)
    if windows is not None:
        return odd_lengths(windows, _LENGTHS)
    return odd_lengths(getattr(operator, "definition", None), ("grace",))


def check_frame(frame: object) -> None:
    """Refuse what is not a DataFrame of Spark, or is one of a session that was stopped.

    Raises:
        DefinitionError: says what it is, and how it becomes one.
        SessionSetupError: the session was stopped.
    """
    if isinstance(frame, DataFrame):
        check_running(frame.sparkSession)
        return
    kind = f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}".removeprefix("builtins ")
    raise DefinitionError(
        f"apply takes a Spark DataFrame, not a {kind}: make one with spark.createDataFrame, "
        "or use local_runner, which needs no Spark"
    )


def conf_of(spark: SparkSession) -> dict[str, str]:
    """Return all of a session's conf, classic or of Spark Connect."""
    found = spark.conf.getAll
    return dict(found() if callable(found) else found)
