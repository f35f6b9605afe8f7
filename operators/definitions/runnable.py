"""What every operator can do once it is grouped by keys: run on a Spark DataFrame, run without Spark, explain itself."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from operators.aggregates.input_columns import with_inputs
from operators.aggregates.sides import Side
from operators.columns.arrow import bounds_type
from operators.columns.checks import column_types
from operators.columns.durations import Duration
from operators.columns.expressions import refuse_expressions
from operators.definitions.attributes import OfSomeKinds
from operators.definitions.results import inputs_of_results
from operators.runtime.binding import Binding, Runnable
from operators.steps.late_reports import LateSide
from state_backends import StateConfig, resolve

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType
    from typing_extensions import Self  # typing has it from Python 3.11 on

    from operators.runtime.local import LocalRunner
    from operators.spark.inputs.expression_columns import ExpressionFrame
    from operators.spark.with_late import WithLate
    from state_backends.checkpoints.savepoint import Savepoint


class RunnableOperator(OfSomeKinds, Runnable):
    """An operator with its keys, and results that are aggregates, if it has such."""

    __slots__ = ()
    keys: tuple[str, ...]
    key_names: tuple[str, ...]
    aggregates: tuple[tuple[Any, ...], ...] = ()

    @property
    def input_arguments(self) -> Iterator[tuple[str, str]]:
        """What is given for columns: the argument, and the name or expression."""
        yield from (("group_by", key) for key in self.keys)
        yield from inputs_of_results(self.aggregates)

    def prepared(self, df: "DataFrame", event_time: str) -> "tuple[RunnableOperator, DataFrame, str]":
        operator, found = self.on_columns(df, event_time)
        return operator, found.df, found.name(event_time)

    def on_columns(
        self, df: "DataFrame", event_time: str, taken: Collection[str] = ()
    ) -> "tuple[Self, ExpressionFrame]":
        """Return the operator with columns in place of the expressions among its keys and inputs, and the frame that has these.

        Args:
            df: the input.
            event_time: its event-time column or expression.
            taken: columns of other frames that are to have the same key columns.
        """
        from operators.spark.inputs.expression_columns import with_expression_columns

        inputs = [("event_time", event_time), *inputs_of_results(self.aggregates)]
        found = with_expression_columns(df, self.keys, inputs, taken)
        changes: dict[str, Any] = {"keys": found.keys, "key_names": found.key_names or self.key_names}
        if self.aggregates:
            changes["aggregates"] = tuple(
                (name, with_inputs(one, found.name), *over) for name, one, *over in self.aggregates
            )
        operator: Any = self
        return replace(operator, **changes), found

    def apply(  # noqa: PLR0913 - a frame, a backend, and what some frames need
        self,
        df: "DataFrame",
        event_time: "str | Column",
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        name: str = "windows",
        close_time: datetime | str | None = None,
        idle: Duration | None = None,
        schema: "StructType | None" = None,
        streaming: bool | None = None,
        max_future: Duration | None = None,
    ) -> "DataFrame":
        """Apply the operator to a batch or streaming DataFrame and return a DataFrame of the same kind.

        Columns: the keys and the results. Those of windows are `window` struct<start, end>, the aggregates by name and, on
        update, `change`.

        Args:
            df: the input. A streaming one gets its watermark here, from `grace`, unless it is the output of another stateful
                operator, which has one.
            event_time: column of type timestamp or timestamp_ntz: a name, or an expression.
            backend: "memory", "rocksdb", "spark" or a registered one; by default Spark's conf `spark.windows.state.backend`, or
                "memory".
            options: options by name, such as {"state.buckets": 8}; they override Spark's conf.
            name: prefix of the metrics that a stream reports; operators of one query need different names.
            close_time: for a bounded frame, the time by which rows have to be final to be emitted; by default all are. With
                `savepoint`, a stream emits the others.
            idle: for a stream, how long it has to be without records for the clock to close windows: those that ended this long
                ago, and no less than `grace`, are emitted, so that the last ones come out; records for them are late then. By
                default only records close windows. A bounded frame has none.
            schema: the columns of the frame and their types, for a query function of a declarative pipeline, where Spark
                analyses nothing; elsewhere Spark knows them. Other columns are dropped, and other types are cast. The frame
                must not be the output of a stateful operator.
            streaming: with `schema`, whether the frame is a stream.
            max_future: how far an event time may be ahead of the batch's clock. A record with a later time is bad: it is in no
                window, and it does not move the watermark. By default, all times are taken. A stream with `max_future` must not
                have a watermark already.

        Raises:
            DefinitionError: a column is missing or of a wrong type, the operator computes nothing, close_time is not a time, or
                a frame of a pipeline is without `schema` and `streaming`.
            ValueError: an unknown backend or option.
            SessionSetupError: the session was stopped, its workers lack this library, or it lacks what a stream needs.
        """
        from operators.spark.apply import apply
        from operators.spark.inputs.arguments import Arguments

        arguments = Arguments(backend, options, name, close_time, idle, schema, streaming, max_future)
        return apply(self, df, event_time, arguments)

    def savepoint(
        self,
        df: "DataFrame",
        event_time: "str | Column",
        path: str | Path,
        close_time: datetime | str | None = None,
        *,
        running: "Savepoint | None" = None,
        options: Mapping[str, object] | None = None,
    ) -> "Savepoint":
        """Write the state that a bounded frame leaves to a new folder, from which a stream starts.

        The stream goes on as if it had read these rows, and then had reached the close time: with `state.savepoint` set to the
        folder, on any backend and with any number of buckets. Its input are the rows that are not in the frame. Windows that
        are final at the close time are not in the state: `apply` with the same `close_time` emits them.

        With `running`, the state is that of a stopped query, in which aggregates that were added are filled from the history:
        they are as if they had always been there. The history has exactly the records that the query has read.

        Args:
            df: the history; not a stream.
            event_time: column of type timestamp or timestamp_ntz.
            path: the savepoint's folder, as a path or URI that all workers can access.
            close_time: as a datetime, or text that Spark can cast, in the session's time zone. Records of the stream whose
                windows all end before it are late. If the frame and the stream are cut at a time, that time.
            running: what `write_savepoint` wrote of the query, instead of `close_time`.
            options: options by name, as for `apply`. `state.buckets` is the number of files.

        Raises:
            DefinitionError: as `apply`; or the frame is a stream, or it is not one of `close_time` and `running` that is given.
            StateError: the folder contains a savepoint already; or `running` lacks no records, or the history has others than
                the query has read, with key and time.

        Cost: that of `apply`, and a shuffle of the entries. A task has the entries of some keys in memory; the driver has none.
        """
        from operators.spark.state.bootstrap import savepoint

        return savepoint(self, df, event_time, path, close_time, running, options)

    def apply_with_late(  # noqa: PLR0913 - as apply
        self,
        df: "DataFrame",
        event_time: "str | Column",
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        name: str = "windows",
        idle: Duration | None = None,
        schema: "StructType | None" = None,
        streaming: bool | None = None,
        max_future: Duration | None = None,
    ) -> "WithLate":
        """Apply the operator to a DataFrame and also return the late and bad records, in one pass over the source.

        A late record is reported with the last window that could have held it and by how much it missed that; a bad one with
        what is wrong with it. Both have all columns of the frame. For this, all columns go through the shuffle, and nothing is
        accumulated before it: `apply` is faster if late records need only be counted.

        Args:
            df, event_time, backend, options, name, idle, schema, streaming, max_future: as for `apply`.

        Raises:
            DefinitionError: as `apply`; or a column has a type that Arrow does not have.
        """
        from operators.spark.inputs.arguments import Arguments
        from operators.spark.with_late import WithLate

        arguments = Arguments(backend, options, name, None, idle, schema, streaming, max_future)
        return WithLate.of(self, df, event_time, arguments)

    def local_runner(
        self,
        event_time: str,
        backend: str = "memory",
        directory: str | Path | None = None,
        options: Mapping[str, object] | None = None,
        *,
        late: bool = False,
    ) -> "LocalRunner":
        """Return a runner of this operator that needs no Spark, to be used as a context manager.

        Args:
            event_time: column of timestamps, or of int64 ticks.
            backend: name of the state backend.
            directory: where state and changelog are kept; None for a temporary directory, removed with the runner.
            options: options by name, as for `apply`.
            late: whether the late and bad records of each batch are kept, in the runner's `late`.

        Raises:
            DefinitionError: a key, an aggregate or the event time is an expression of Spark.
        """
        return self.runner_of_inputs(event_time, resolve(backend, options), directory, (), late=late)

    def runner_of_inputs(
        self,
        event_time: str,
        config: StateConfig,
        directory: str | Path | None,
        sides: Sequence[Side],
        *,
        late: bool = False,
    ) -> "LocalRunner":
        """Return a local runner of rows that may be those of several frames.

        Args:
            event_time, directory, late: as for `local_runner`.
            config: the configuration of the state.
            sides: the frames, or none for the rows of one.
        """
        from operators.runtime.local import LocalRunner

        refuse_expressions([("event_time", event_time), *self.input_arguments])

        def bind(schema: pa.Schema, config: StateConfig) -> Binding:
            binding = self.bind(schema, event_time, config)
            if not late:
                return binding
            time = bounds_type(column_types(schema)[event_time], binding.tick_us)
            return binding.reporting(LateSide(schema.remove_metadata(), time, binding.tick_us))

        def bind_closing(schema: pa.Schema, config: StateConfig) -> Binding:
            return self.as_on_close().bind(schema, event_time, config)

        markers = {side.name: side.marker for side in sides}
        return LocalRunner(bind, config, directory, bind_closing, markers)

    def explain(
        self,
        frame: "DataFrame | pa.Schema | pa.Table",
        event_time: "str | Column",
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        checkpoint: str | Path | None = None,
        operator: int = 0,
    ) -> None:
        """Print what the operator does with a frame, and why: windows, aggregates, state and its bytes, shuffle, options.

        Nothing runs. `operators.Explanation.of` takes the same arguments and returns the same as a value.

        Args:
            frame: a DataFrame of Spark, or a pyarrow Table or Schema, which needs no session.
            event_time: column or expression of type timestamp or timestamp_ntz; without Spark a name, also of int64 ticks.
            backend, options: as for `apply`.
            checkpoint: a query with this operator, which may run: says since when results that were added count all records.
            operator: number of the operator among those with state in the query's plan, from 0: Spark counts from the sink.

        Raises:
            DefinitionError: as `apply`; or the frame is of another type.
            ValueError: an unknown backend or option.
            StateError: the checkpoint has no state of windows.
        """
        from operators.explain import Explanation

        explained = Explanation.of(self, frame, event_time, backend, options, checkpoint, operator)
        print(explained)  # noqa: T201 - what it is for

    def check(
        self,
        df: "DataFrame",
        event_time: "str | Column",
        checkpoint: str | Path,
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        idle: Duration | None = None,
        operator: int = 0,
    ) -> int | None:
        """Check that a query with this operator can go on from a checkpoint, before it starts. Nothing is changed.

        A query without new input runs no batch, and so succeeds without reading its state: this reads it.

        Args:
            df: the input of the query, or a bounded frame with the same columns.
            event_time: column or expression of type timestamp or timestamp_ntz.
            checkpoint: the query's checkpoint folder. No query may run on it meanwhile.
            backend, options, idle: as for `apply`.
            operator: number of the operator among those with state in the query's plan, from 0: Spark counts from the sink.

        Returns:
            number of the last batch in the checkpoint; None if a query has started there and has no batch yet: it then starts
            from the beginning.

        Raises:
            StateError: the state belongs to another operator, or has another number of buckets, or `idle` was added or
                removed; says what differs. Or no query has ever started there.
            DefinitionError: as `apply`.
            ValueError: an unknown backend or option.
        """
        from operators.spark.inputs.arguments import Arguments
        from operators.spark.state.checkpoint_check import check_checkpoint

        arguments = Arguments(backend, options, idle=idle)
        return check_checkpoint(self, df, event_time, checkpoint, arguments, operator)
