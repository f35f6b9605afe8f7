"""Windowed aggregations, over one frame or several: windows, keys, aggregates and an emission policy."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, get_args

import pyarrow as pa

from operators.aggregates import Aggregate
from operators.aggregates.operation import Operation
from operators.aggregates.sides import EVENT_TIME, Side, check_joint_names, event_times
from operators.columns.arrow import bounds_type
from operators.columns.checks import check_columns, check_gap, column_types, refuse_alike
from operators.columns.durations import Duration
from operators.columns.expressions import is_column, refuse_expressions
from operators.definitions.attributes import OfSomeKinds
from operators.definitions.completeness import TellsSince, since_column
from operators.definitions.keys import check_same_keys, key_columns, named_keys
from operators.definitions.publishing import PublishableFeatures, PublishableFrames
from operators.definitions.results import check_computes, check_named, no_aggregate
from operators.definitions.runnable import RunnableOperator
from operators.errors import DefinitionError
from operators.runtime.binding import Binding, OutputTime, segment_length
from operators.runtime.inputs import Inputs, check_clock, clock_of
from operators.steps.emission import OutputSchema, bind_aggregates
from operators.steps.plan import Plan
from state_backends import StateConfig, resolve

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from operators.runtime.local_cogroup import CoGroupedRunner
    from operators.spark.inputs.chains import Incoming
    from state_backends.checkpoints.savepoint import Savepoint

Policy = Literal["on_close", "on_update"]
"""When windows are emitted: once, when they are closed; or after each batch that changed them."""


class WindowDefinition(Protocol):
    """A window kind with its lengths, as `operators.definitions.windows` has them."""

    @property
    def tick_us(self) -> int:
        """Length of a tick in microseconds."""

    @property
    def grace_ticks(self) -> int:
        """Grace in ticks."""

    @property
    def gap_input(self) -> str | None:
        """The input column of session gaps, if there is one."""

    @property
    def row_gap(self) -> "Column | str | None":
        """Each record's session gap on Spark, an expression or the name of a column, if there is one."""

    def with_gap_column(self, name: str) -> "WindowDefinition":
        """Return the definition with each record's gap in this column."""

    @property
    def local_clock(self) -> str | None:
        """The zone whose calendar the windows are in, if there is one."""

    @property
    def retracts(self) -> bool:
        """Whether windows that were emitted on update can cease to be."""

    @property
    def bounds_behind(self) -> tuple[int | None, int]:
        """By how many ticks start and end of a window may lie before the close time of the batch before that emits it."""

    def plan(self, operations: tuple[Operation, ...], policy: str) -> Plan:
        """Return what is computed for these operations."""

    def segment(self, operations: tuple[Operation, ...]) -> int:
        """Return the default length of a stored segment in ticks."""


@dataclass(frozen=True, slots=True)
class WindowedAggregation(PublishableFeatures, TellsSince, RunnableOperator):
    """Windows, keys, aggregates and an emission policy; each method returns a changed copy.

    Attributes:
        windows: the window definition.
        keys: key columns.
        aggregates: results by name.
        policy: "on_close" or "on_update".
        key_names: names of the keys in the result, if they are not those of the columns.
        clock: what event times are, as `clock_of` returns it, if their column does not tell: that of united streams has a zone.
        since: the column that says since when all results count all records, if there is one.
    """

    windows: WindowDefinition
    keys: tuple[str, ...] = ()
    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    policy: Policy = "on_close"
    key_names: tuple[str, ...] = ()
    clock: str | None = None
    since: str | None = None

    def group_by(self, *columns: "str | Column") -> "WindowedAggregation":
        """Return the operator grouped by these columns or, on Spark, expressions, in place of earlier ones."""
        return replace(self, keys=key_columns(columns)).checked()

    def aggregate(self, *unnamed: NoReturn, **aggregates: Aggregate) -> "WindowedAggregation":
        """Return the operator with these results added, such as `mean=agg.avg("delay")`."""
        check_named(unnamed)
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise DefinitionError(no_aggregate(name, aggregate))
        return replace(self, aggregates=(*self.aggregates, *aggregates.items())).checked()

    def cogroup(self, **frames: Mapping[str, Aggregate]) -> "CoGroupedAggregation":
        """Return an operator over several frames, each with its own results by name.

        Such as `.cogroup(clicks={"clicks": agg.count()}, orders={"revenue": agg.sum("amount")})`; then
        `.apply({"clicks": clicks, "orders": orders}, event_time="at")`.

        Raises:
            DefinitionError: fewer than two frames, a frame without results, or an operator that has aggregates already.
        """
        if self.aggregates:
            raise DefinitionError("cogroup takes the aggregates of each frame: leave .aggregate out")
        if len(frames) < 2 or any(results == {} for results in frames.values()):
            raise DefinitionError("cogroup needs at least two frames, each with at least one aggregate")
        for name, results in frames.items():
            if not isinstance(results, Mapping):
                raise DefinitionError(
                    f"frame {name}: results must be given by name, such as {name}={{'n': agg.count()}}"
                )
            WindowedAggregation(self.windows).aggregate(**results)
            if not name.isidentifier():
                raise DefinitionError(
                    f"frame name {name!r} is not an identifier: use letters, digits and underscores"
                )
        grouped = CoGroupedAggregation(
            self, tuple(Side(name, tuple(f.items())) for name, f in frames.items())
        )
        grouped.joint.checked()
        return grouped

    def emit(self, policy: Policy) -> "WindowedAggregation":
        """Return the operator with an emission policy.

        Args:
            policy: "on_close": each window once, final, when no record can change it any more. "on_update": after each
                batch, every window that it changed, with its value then.
        """
        if policy not in get_args(Policy):
            known = " or ".join(map(repr, get_args(Policy)))
            raise DefinitionError(f"emit takes {known}, not {policy!r}")
        return replace(self, policy=policy).checked()

    def as_on_close(self) -> "WindowedAggregation":
        return self.emit("on_close")

    @property
    def final(self) -> bool:
        return self.policy == "on_close"

    def bounded(self) -> "WindowedAggregation":
        return self.as_on_close()  # After the last record both policies say the same.

    def prepared(
        self, df: "DataFrame", event_time: str, taken: Collection[str] = ()
    ) -> "tuple[WindowedAggregation, DataFrame, str]":
        from operators.spark.base.gaps import with_gap
        from operators.spark.inputs.expression_columns import check_expression

        if is_column(self.windows.row_gap):
            check_expression(df, "gap", self.windows.row_gap)
        operator, found = self.on_columns(df, event_time, taken)
        df, event_time = found.df, found.name(event_time)
        if self.windows.row_gap is not None:
            gap, df = with_gap(self.windows.row_gap, df, event_time)
            operator = replace(operator, windows=self.windows.with_gap_column(gap))
        return operator.checked(), df, event_time

    def checked(self) -> "WindowedAggregation":
        """Return the operator, if the columns of its result have distinct names."""
        own = ("window", "change", "sequence") if self.policy == "on_update" else ("window",)
        results = [name for name, _ in self.aggregates] + ([] if self.since is None else [self.since])
        names = (*(self.key_names or self.keys), *results)
        for name in names:
            if name.lower() in own:
                raise DefinitionError(
                    f"result columns must have distinct names: {name!r} is already used by the windows; rename yours"
                )
        refuse_alike("output column", names)
        return self

    def bind(self, schema: pa.Schema, event_time: str, config: StateConfig) -> Binding:
        refuse_expressions([("event_time", event_time), *self.input_arguments])
        windows = self.windows
        types = column_types(schema)
        gap = windows.gap_input
        self._check_columns(types, event_time, gap)
        keys = tuple((name, types[name]) for name in self.keys)
        on_update = self.policy == "on_update"
        output = OutputSchema(
            named_keys(keys, self.key_names),
            bounds_type(types[event_time], windows.tick_us),
            windows.tick_us,
            bind_aggregates(dict(self.aggregates), types, windows.tick_us),
            with_change=on_update,
            retracts=windows.retracts and on_update,
            since=since_column(self.since, types[event_time], windows.tick_us),
        )
        plan = windows.plan(output.operations, self.policy)
        segment = segment_length(config, windows.tick_us, windows.segment(output.operations))
        read = sorted({name for operation in output.operations for name in operation.inputs})
        values = tuple((name, types[name]) for name in read)
        clock = check_clock(windows.local_clock, self.clock or clock_of(types[event_time]), event_time)
        inputs = Inputs(event_time, keys, values, windows.tick_us, plan.max_bound_offset, gap, clock=clock)
        return Binding(
            plan,
            output,
            inputs,
            windows.grace_ticks,
            segment,
            times=tuple(self._times()),
            segment_given=config.segment is not None,
        )

    def _times(self) -> Iterator[OutputTime]:
        updates = self.policy == "on_update"
        for name, behind in zip(("start", "end"), self.windows.bounds_behind, strict=True):
            yield OutputTime("window", name, behind, updates, closed=not updates)

    def _check_columns(self, types: Mapping[str, pa.DataType], event_time: str, gap: str | None) -> None:
        check_computes(self.aggregates)
        check_columns(types, event_time, self.keys, {"gap": gap})
        if gap is not None:
            check_gap(types[gap], gap)


@dataclass(frozen=True, slots=True)
class CoGroupedAggregation(PublishableFrames, OfSomeKinds):
    """Windows over several frames; made by `WindowedAggregation.cogroup`.

    Attributes:
        operator: the same over the frames as one, without aggregates.
        sides: the frames with their aggregates.
    """

    operator: "WindowedAggregation"
    sides: tuple[Side, ...]

    def emit(self, policy: Policy) -> "CoGroupedAggregation":
        """Return the operator with an emission policy, "on_close" or "on_update"."""
        return replace(self, operator=self.operator.emit(policy))

    def with_since(self, column: str) -> "CoGroupedAggregation":
        """Return the operator with a column that `WindowedAggregation.with_since` describes."""
        found = replace(self, operator=self.operator.with_since(column))
        found.joint.checked()
        return found

    @property
    def joint(self) -> "WindowedAggregation":
        """The operator over the frames as one."""
        aggregates = [side.joint_aggregates() for side in self.sides]
        operator = self.operator
        for some in aggregates:
            operator = operator.aggregate(**some)
        return operator

    def apply(  # noqa: PLR0913 - as that of one frame
        self,
        frames: Mapping[str, "DataFrame"],
        event_time: "str | Column | Mapping[str, str | Column]",
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        name: str = "windows",
        close_time: datetime | str | None = None,
        idle: Duration | None = None,
        max_future: Duration | None = None,
    ) -> "DataFrame":
        """Return the windows of the frames, which are all batch or all streaming, as a DataFrame of the same kind.

        A window is there if any frame has a record in it. Streams each have a watermark; the slowest one's counts, unless
        Spark's `spark.sql.streaming.multipleWatermarkPolicy` says otherwise.

        Args:
            frames: the frames by the names that `cogroup` was given. Key columns have the same names and types in all; an
                expression is evaluated in each.
            event_time: event-time column or expression, of all frames or by frame.
            backend, options, name, close_time, idle, max_future: as in `WindowedAggregation.apply`.

        Raises:
            DefinitionError: a frame or a column is missing, or types differ.
        """
        from operators.spark.apply import apply
        from operators.spark.inputs.arguments import Arguments

        most_us = Arguments(max_future=max_future).max_future_us
        joint, frame, incoming = self._unite(frames, event_time, most_us)
        arguments = Arguments(backend, options, name, close_time, idle)
        return apply(joint, frame, EVENT_TIME, arguments, incoming=incoming)

    def savepoint(
        self,
        frames: Mapping[str, "DataFrame"],
        event_time: "str | Column | Mapping[str, str | Column]",
        path: str | Path,
        close_time: datetime | str | None = None,
        *,
        running: "Savepoint | None" = None,
        options: Mapping[str, object] | None = None,
    ) -> "Savepoint":
        """Write the state that bounded frames leave to a new folder, as `WindowedAggregation.savepoint` does."""
        joint, frame, _ = self._unite(frames, event_time)
        return joint.savepoint(frame, EVENT_TIME, path, close_time, running=running, options=options)

    def check(
        self,
        frames: Mapping[str, "DataFrame"],
        event_time: "str | Column | Mapping[str, str | Column]",
        checkpoint: str | Path,
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        idle: Duration | None = None,
        operator: int = 0,
    ) -> int | None:
        """Refuse a checkpoint that a query with this operator cannot go on from, as `WindowedAggregation.check` does."""
        joint, frame, _ = self._unite(frames, event_time)
        return joint.check(
            frame, EVENT_TIME, checkpoint, backend=backend, options=options, idle=idle, operator=operator
        )

    def _unite(
        self,
        frames: Mapping[str, "DataFrame"],
        event_time: "str | Column | Mapping[str, str | Column]",
        max_future_us: int | None = None,
    ) -> "tuple[WindowedAggregation, DataFrame, Incoming | None]":
        """The operator over the frames as one, that frame, and what is known of its event time if it is a stream."""
        from operators.spark.base.types import arrow_type
        from operators.spark.inputs.union import check_frames, check_inputs, unite

        times = event_times(self.sides, frames, event_time)
        check_frames(frames)
        taken = check_inputs(self.sides, self.operator.keys, frames, times)
        ready, prepared, sides = [], {}, []
        for side in self.sides:
            of_side = replace(self.operator, aggregates=side.aggregates)
            operator, df, time = of_side.prepared(frames[side.name], times[side.name], taken)
            prepared[side.name], times[side.name] = df, time
            sides.append(replace(side, aggregates=operator.aggregates))
            ready.append(replace(operator, aggregates=()))
        check_same_keys(
            [side.name for side in sides], [operator.key_names or operator.keys for operator in ready]
        )
        whole, windows = CoGroupedAggregation(ready[-1], tuple(sides)), ready[-1].windows
        grace_us = windows.grace_ticks * windows.tick_us
        frame, incoming = unite(sides, whole.shared, prepared, times, grace_us, max_future_us)
        first = sides[0].name
        clock = clock_of(arrow_type(prepared[first].schema[times[first]].dataType))
        return replace(whole.joint, clock=clock), frame, incoming

    def local_runner(
        self,
        event_time: str | Mapping[str, str],
        backend: str = "memory",
        directory: str | Path | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "CoGroupedRunner":
        """Return a runner without Spark, as `WindowedAggregation.local_runner` does; it takes tables by name.

        Stream time is that of the slowest frame, as on Spark: the least of the frames' highest event times.
        """
        from operators.runtime.local_cogroup import CoGroupedRunner

        times = event_time.values() if isinstance(event_time, Mapping) else [event_time]
        refuse_expressions(("event_time", time) for time in times)
        check_joint_names(self.sides, self.shared)
        runner = self.joint.runner_of_inputs(EVENT_TIME, resolve(backend, options), directory, self.sides)
        return CoGroupedRunner(self.sides, self.shared, event_time, runner)

    @property
    def shared(self) -> list[str]:
        """The columns that every frame has in addition to its event time: the keys, and each record's gap if there is one."""
        gap = self.operator.windows.gap_input
        return [*self.operator.keys, *([] if gap is None else [gap])]
