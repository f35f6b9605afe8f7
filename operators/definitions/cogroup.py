"""Several frames in one window, each with aggregates of its own: Kafka Streams' cogroup, Hazelcast Jet's co-aggregation.

The frames become one, in which each has its own columns, null in the others' rows; and each aggregate counts the rows of its
frame only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from operators.aggregates import Aggregate
from operators.aggregates.definitions import INPUTS
from operators.errors import DefinitionError, columns_told
from operators.runtime.local import LocalRunner
from operators.steps.step import Counters

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

    from operators.definitions.aggregation import WindowedAggregation

EVENT_TIME = "event time"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the frames.

    Attributes:
        name: the frame's.
        aggregates: its results by name.
    """

    name: str
    aggregates: tuple[tuple[str, Aggregate], ...]

    @property
    def columns(self) -> list[str]:
        """The columns that its aggregates read."""
        return list(dict.fromkeys(name for _, aggregate in self.aggregates for name in _inputs(aggregate)))

    @property
    def marker(self) -> str:
        """Name of the column that is true in its rows, and null in those of other frames."""
        return f"{self.name}.*"

    def joint(self, column: str) -> str:
        """Return the name that a column has beside those of other frames."""
        return f"{self.name}.{column}"

    def joint_aggregates(self) -> dict[str, Aggregate]:
        """Return its results by name, from columns under their joint names and from its rows only."""
        return {name: self._joint(aggregate) for name, aggregate in self.aggregates}

    def _joint(self, aggregate: Aggregate) -> Aggregate:
        changes: dict[str, Any] = {"where": self.marker}
        for field in fields(aggregate):
            value = getattr(aggregate, field.name)
            if field.name in INPUTS and value is not None:
                changes[field.name] = self.joint(value)
            if field.name == "columns":
                changes["columns"] = tuple(map(self.joint, value))
        return replace(aggregate, **changes)


def _inputs(aggregate: Aggregate) -> Sequence[str]:
    given = [getattr(aggregate, name, None) for name in INPUTS]
    return [*(name for name in given if name is not None), *getattr(aggregate, "columns", ())]


@dataclass(frozen=True, slots=True)
class CoGroupedAggregation:
    """Windows over several frames; made by `WindowedAggregation.cogroup`.

    Attributes:
        operator: the same over the frames as one, without aggregates.
        sides: the frames with their aggregates.
    """

    operator: "WindowedAggregation"
    sides: tuple[Side, ...]

    def emit(self, policy: str) -> "CoGroupedAggregation":
        """Return the operator with an emission policy, "on_close" or "on_update"."""
        return replace(self, operator=self.operator.emit(policy))

    @property
    def joint(self) -> "WindowedAggregation":
        """The operator over the frames as one."""
        aggregates = [side.joint_aggregates() for side in self.sides]
        operator = self.operator
        for some in aggregates:
            operator = operator.aggregate(**some)
        return operator

    def apply(
        self,
        frames: Mapping[str, "DataFrame"],
        event_time: str | Mapping[str, str],
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        name: str = "windows",
    ) -> "DataFrame":
        """Return the windows of the frames, which are all batch or all streaming, as a DataFrame of the same kind.

        A window is there if any frame has a record in it. Streams each have a watermark; the slowest one's counts, unless
        Spark's `spark.sql.streaming.multipleWatermarkPolicy` says otherwise.

        Args:
            frames: the frames by the names that `cogroup` was given. Key columns have the same names and types in all.
            event_time: name of the event-time column, of all frames or by frame.
            backend, options, name: as in `WindowedAggregation.apply`.

        Raises:
            DefinitionError: a frame or a column is missing, or types differ.
        """
        from operators.spark.apply import apply
        from operators.spark.union import joined

        times = self.times(frames, event_time)
        operator, frame, read = joined(self, frames, times)
        return apply(operator, frame, EVENT_TIME, backend, options, name, given=read)

    def check(
        self,
        frames: Mapping[str, "DataFrame"],
        event_time: str | Mapping[str, str],
        checkpoint: str | Path,
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        operator: int = 0,
    ) -> int | None:
        """Refuse a checkpoint that a query with this operator cannot go on from, as `WindowedAggregation.check` does."""
        from operators.spark.union import joined

        joint, frame, _ = joined(self, frames, self.times(frames, event_time))
        return joint.check(frame, EVENT_TIME, checkpoint, backend=backend, options=options, operator=operator)

    def local_runner(
        self,
        event_time: str | Mapping[str, str],
        backend: str = "memory",
        directory: str | Path | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "CoGroupedRunner":
        """Return a runner without Spark, as `WindowedAggregation.local_runner` does; it takes tables by name."""
        runner = self.joint.local_runner(EVENT_TIME, backend, directory, options)
        return CoGroupedRunner(self, event_time, runner)

    def times(self, frames: Mapping[str, Any], event_time: str | Mapping[str, str]) -> dict[str, str]:
        """Return each frame's event-time column.

        Raises:
            DefinitionError: the frames are others than those of the operator, or one has no event time.
        """
        names = [side.name for side in self.sides]
        self.check_given(frames)
        if set(names) != set(frames):
            raise DefinitionError(
                f"frames {', '.join(names)} are wanted, {', '.join(frames) or 'none'} given: give one for each name, "
                f"such as {{{', '.join(f'{name!r}: ...' for name in names)}}}"
            )
        if isinstance(event_time, str):
            return dict.fromkeys(names, event_time)
        missing = [name for name in names if name not in event_time]
        if missing:
            raise DefinitionError(f"no event time is named for {', '.join(missing)}")
        return {name: event_time[name] for name in names}

    def check_given(self, frames: object) -> None:
        """Refuse frames that are not given by name.

        Raises:
            DefinitionError: says how they are given.
        """
        if not isinstance(frames, Mapping):
            wanted = ", ".join(f"{side.name!r}: ..." for side in self.sides)
            raise DefinitionError(
                f"frames are given by name, as {{{wanted}}}, not as a {type(frames).__name__}"
            )

    def shared(self) -> list[str]:
        """Return the columns that every frame has, beside the event time: the keys, and each record's gap if there is one."""
        gap = self.operator.windows.gap_input
        return [*self.operator.keys, *([] if gap is None else [gap])]


class CoGroupedRunner:
    """The local runner of several frames. Use it as a context manager."""

    def __init__(
        self, operator: CoGroupedAggregation, event_time: str | Mapping[str, str], runner: LocalRunner
    ) -> None:
        self._operator = operator
        self._event_time = event_time
        self._schemas: dict[str, pa.Schema] = {}
        self.runner = runner
        """The runner of the frames as one: its counters, its store, `restart`, `close`."""

    def __enter__(self) -> "CoGroupedRunner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runner.close()

    @property
    def counters(self) -> Counters:
        """Rows, late and bad rows, and windows since the runner was made."""
        return self.runner.counters

    def process(
        self, tables: Mapping[str, pa.Table], stream_time: "int | datetime | None" = None
    ) -> pa.Table:
        """Take one batch of tables by frame and return the rows to emit; a frame that had a table before may be left out.

        Raises:
            DefinitionError: a frame or a column is missing, or types differ.
        """
        self._operator.check_given(tables)
        self._schemas.update({name: table.schema for name, table in tables.items()})
        times = self._operator.times(self._schemas, self._event_time)
        given = {name: tables.get(name, schema.empty_table()) for name, schema in self._schemas.items()}
        return self.runner.process(self._joined(given, times), stream_time)

    def _joined(self, tables: Mapping[str, pa.Table], times: Mapping[str, str]) -> pa.Table:
        shared, parts = self._operator.shared(), []
        for own in self._operator.sides:
            table = tables[own.name]
            check_columns(own, table.schema.names, [*shared, times[own.name]])
            columns = {name: table.column(name) for name in shared}
            columns[EVENT_TIME] = table.column(times[own.name])
            for side in self._operator.sides:
                for name in side.columns:
                    check_columns(side, tables[side.name].schema.names, [name])
                    type_ = tables[side.name].schema.field(name).type
                    rows = table.column(name) if side is own else pa.nulls(table.num_rows, type_)
                    columns[side.joint(name)] = rows
                columns[side.marker] = pa.array([True if side is own else None] * table.num_rows, pa.bool_())
            parts.append(pa.table(columns))
        check_types([side.name for side in self._operator.sides], [dict(_types(part)) for part in parts])
        return pa.concat_tables(parts)


def _types(table: pa.Table) -> Sequence[tuple[str, Any]]:
    return list(zip(table.schema.names, table.schema.types, strict=True))


def check_columns(side: Side, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a frame that lacks a column.

    Raises:
        DefinitionError: names the frame, the column, and those that there are.
    """
    for name in wanted:
        if name not in names:
            raise DefinitionError(
                f"frame {side.name}: there is no column {name!r}; it has {columns_told(name, names)}"
            )


def check_types(names: Sequence[str], types: Sequence[Mapping[str, Any]]) -> None:
    """Refuse frames whose shared columns differ in type.

    Raises:
        DefinitionError: names the column and both frames' types.
    """
    for name, other in zip(names[1:], types[1:], strict=True):
        for column, type_ in types[0].items():
            if other[column] != type_:
                raise DefinitionError(
                    f"column {column!r} is {type_} in {names[0]}, {other[column]} in {name}: cast one of them"
                )
