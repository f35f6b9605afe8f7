"""What every operator that is grouped by keys can do: run on a Spark frame, and run without Spark."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat

from operators.columns.arrow import plain_type
from operators.columns.records import check_event_time
from operators.errors import DefinitionError, check_column_name, columns_told
from operators.runtime.local import LocalRunner
from operators.runtime.program import Program
from operators.steps.emission import bounds_type
from operators.steps.late import LateSide
from state_backends import StateConfig, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from operators.spark.with_late import WithLate

Types = Mapping[str, pa.DataType]


class Applicable(ABC):
    """An operator with its keys."""

    __slots__ = ()

    @abstractmethod
    def program(self, schema: pa.Schema, event_time: str, config: StateConfig) -> Program:
        """Return the operator bound to a frame's columns.

        Raises:
            DefinitionError: a missing column, a wrong type, or nothing to compute.
        """

    @property
    def takes_updates(self) -> bool:
        """Whether updates of windows, each of which comes several times, can be its records."""
        return False

    def bounded(self) -> "Applicable":
        """Return the operator as it runs over a frame that is all there: itself, or one that does the same in less time."""
        return self

    def prepared(self, df: "DataFrame", event_time: str) -> "tuple[Applicable, DataFrame]":
        """Return the operator and the frame that it runs on: as they are, or with expressions made columns."""
        return self, df

    def apply(
        self,
        df: "DataFrame",
        event_time: str,
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        name: str = "windows",
    ) -> "DataFrame":
        """Return what the operator makes of a batch or streaming DataFrame, as a DataFrame of the same kind.

        Columns: the keys, and the results. Those of windows are `window` struct<start, end>, the aggregates by name and, on
        update, `change`.

        Args:
            df: the input. A streaming one gets its watermark here, from `grace`; one that comes out of another stateful
                operator has one.
            event_time: column of type timestamp or timestamp_ntz.
            backend: "memory", "rocksdb" or another known one; else Spark's conf `spark.windows.state.backend`, else "memory".
            options: options by name, such as {"state.buckets": 8}; they go before Spark's conf.
            name: begins the names of the metrics that a stream reports; several operators in one query need several names.

        Raises:
            DefinitionError: a missing column, a wrong type, or nothing to compute.
            ValueError: an unknown backend or option.
            SessionSetupError: a session that was stopped, or whose workers lack this library; a streaming frame in one that
                lacks what its state needs.
        """
        from operators.spark.apply import apply

        return apply(self, df, event_time, backend, options, name)

    def apply_with_late(
        self,
        df: "DataFrame",
        event_time: str,
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        name: str = "windows",
    ) -> "WithLate":
        """Return what the operator makes of a DataFrame, with the late and bad records beside it, in one pass over the source.

        A late record is told with the last window that could have held it and by how much it missed that; a bad one with what
        is wrong with it. Both are told whole, with all columns that the frame has. For this all columns go where the record's
        key is, and nothing is accumulated before: `apply` is faster where late records need only be counted.

        Args:
            df, event_time, backend, options, name: as for `apply`.

        Raises:
            DefinitionError: as `apply`; or a column that does not go through Arrow.
        """
        from operators.spark.with_late import WithLate

        return WithLate.of(self, df, event_time, backend, options, name)

    def local_runner(
        self,
        event_time: str,
        backend: str = "memory",
        directory: str | Path | None = None,
        options: Mapping[str, object] | None = None,
        *,
        late: bool = False,
    ) -> LocalRunner:
        """Return a runner of this operator without Spark, to be used as a context manager.

        Args:
            event_time: column of timestamps, or of int64 ticks.
            backend: name of the state backend.
            directory: where state and changelog live; None for a temporary one that goes with the runner.
            options: options by name, as for `apply`.
            late: whether each batch's late and bad records are kept, in the runner's `late`.
        """

        def bind(schema: pa.Schema, config: StateConfig) -> Program:
            program = self.program(schema, event_time, config)
            if not late:
                return program
            time = bounds_type(column_types(schema)[event_time], program.tick_us)
            return replace(program, late=LateSide(schema.remove_metadata(), time, program.tick_us))

        return LocalRunner(bind, resolve(backend, options), directory)

    def explain(
        self,
        frame: "DataFrame | pa.Schema | pa.Table",
        event_time: str,
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Print what the operator does with a frame, and why: windows, aggregates, state and its bytes, shuffle, options.

        Nothing runs. `operators.explain.Explanation.of` takes the same arguments and returns the same as a value.

        Args:
            frame: a DataFrame of Spark, or the columns as pyarrow has them, for which no session is wanted.
            event_time: column of type timestamp or timestamp_ntz; without Spark also of int64 ticks.
            backend, options: as for `apply`.

        Raises:
            DefinitionError: as `apply`; or the frame is none of these.
            ValueError: an unknown backend or option.
        """
        from operators.explain import Explanation

        print(Explanation.of(self, frame, event_time, backend, options))  # noqa: T201 - what it is for

    def check(
        self,
        df: "DataFrame",
        event_time: str,
        checkpoint: str | Path,
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        operator: int = 0,
    ) -> int | None:
        """Refuse a checkpoint that a query with this operator cannot go on from, before it starts. Nothing is changed.

        A query that has nothing new to read runs no batch, and so succeeds without a look at its state: this looks.

        Args:
            df: the input of the query, or a bounded frame with the same columns.
            event_time: column of type timestamp or timestamp_ntz.
            checkpoint: the query's checkpoint folder. No query may be running on it.
            backend, options: as for `apply`.
            operator: number of the operator among those with state in the query's plan, from 0: Spark counts from the sink.

        Returns:
            number of the last batch in the checkpoint; None if there is none yet, so that the query begins anew.

        Raises:
            StateError: the state is another operator's, or has another number of buckets; says what differs.
            DefinitionError: as `apply`.
            ValueError: an unknown backend or option.
        """
        from operators.spark.continuing import check_checkpoint

        return check_checkpoint(self, df, event_time, checkpoint, backend, options, operator)


def column_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return a frame's columns with the types that they are taken as."""
    return {name: plain_type(type_) for name, type_ in zip(schema.names, schema.types, strict=True)}


def check_columns(
    types: Types, event_time: str, keys: tuple[str, ...], others: Mapping[str, str | None]
) -> None:
    """Refuse a frame that lacks a column, or whose event time or keys are of a wrong type.

    Args:
        types: the frame's columns.
        event_time: name of the event-time column.
        keys: names of the key columns.
        others: further columns that are wanted, with what each is; None is none.

    Raises:
        DefinitionError: names the column, and those that there are.
    """
    check_column_name("event_time", event_time)
    named = [("event time", event_time), *others.items(), *(("key", key) for key in keys)]
    for what, name in named:
        if name is not None and name not in types:
            raise DefinitionError(
                f"there is no {what} column {name!r}; the frame has {columns_told(name, types)}"
            )
    check_event_time(types[event_time], event_time)
    for key in keys:
        if (
            pat.is_nested(types[key])
            or pat.is_time(types[key])
            or pat.is_interval(types[key])
            or getattr(types[key], "unit", "us") == "ns"
        ):
            raise DefinitionError(
                f"key column {key!r} is {types[key]}; an atomic type of Spark is wanted: cast it, or group by its fields"
            )


def refuse_twice(what: str, names: tuple[str, ...]) -> None:
    """Refuse names of which one is there twice.

    Raises:
        DefinitionError: names it.
    """
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(f"{what} {name!r} is there twice; give each a name of its own")
