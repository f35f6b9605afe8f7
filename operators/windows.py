"""What a user builds from a window definition: keys, aggregates, emission, and then rows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates import Aggregate
from operators.batch import check_event_time, check_gap
from operators.cogroup import CoGroupedAggregation, Side
from operators.durations import ticks
from operators.emission import OutputSchema, bind_aggregates
from operators.errors import DefinitionError
from operators.kinds.panes import PaneSchema
from operators.program import Plan, Program
from operators.runtime.local import LocalRunner
from state_backends import StateConfig, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POLICIES = ("on_close", "on_update")


class WindowDefinition(Protocol):
    """A window kind with its lengths, as `operators.definitions` has them."""

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
    def retracts(self) -> bool:
        """Whether windows that were emitted on update can cease to be."""

    def plan(self, schema: PaneSchema, policy: str) -> Plan:
        """Return what is computed for these operations."""

    def segment(self, schema: PaneSchema) -> int:
        """Return the default length of a stored segment in ticks."""


@dataclass(frozen=True, slots=True)
class WindowedAggregation:
    """Windows, keys, aggregates and an emission policy; each method returns a changed copy.

    Attributes:
        windows: the window definition.
        keys: key columns.
        aggregates: results by name.
        policy: "on_close" or "on_update".
    """

    windows: WindowDefinition
    keys: tuple[str, ...] = ()
    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    policy: str = "on_close"

    def group_by(self, *columns: str) -> "WindowedAggregation":
        """Return the operator grouped by these columns, in place of earlier ones."""
        for column in columns:
            if not isinstance(column, str):
                raise DefinitionError(f"group_by takes names of columns, not {column!r}")
        _refuse_twice("key column", columns)
        return _checked(replace(self, keys=columns))

    def aggregate(self, **aggregates: Aggregate) -> "WindowedAggregation":
        """Return the operator with these results beside earlier ones, such as `mean=agg.avg("delay")`."""
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise DefinitionError(
                    f"{name}={aggregate!r} is no aggregate: use one of operators.aggregates"
                )
        return _checked(replace(self, aggregates=(*self.aggregates, *aggregates.items())))

    def cogroup(self, **frames: Mapping[str, Aggregate]) -> CoGroupedAggregation:
        """Return an operator over several frames, with results of their own by frame and name.

        Such as `.cogroup(clicks={"clicks": agg.count()}, orders={"revenue": agg.sum("amount")})`; then
        `.apply({"clicks": clicks, "orders": orders}, event_time="at")`.

        Raises:
            DefinitionError: fewer than two frames, a frame or the operator itself with no or with earlier aggregates.
        """
        if self.aggregates:
            raise DefinitionError("cogroup takes the aggregates of each frame; leave .aggregate out")
        if len(frames) < 2 or not all(frames.values()):
            raise DefinitionError("cogroup wants two frames or more, each with an aggregate or more")
        for name, results in frames.items():
            WindowedAggregation(self.windows).aggregate(**results)
            if not name.isidentifier():
                raise DefinitionError(f"frame name {name!r} is none: use letters, digits and underscores")
        grouped = CoGroupedAggregation(
            self, tuple(Side(name, tuple(f.items())) for name, f in frames.items())
        )
        _checked(grouped.joint)
        return grouped

    def emit(self, policy: str) -> "WindowedAggregation":
        """Return the operator with an emission policy.

        Args:
            policy: "on_close": each window once, final, when no record can change it any more. "on_update": after each
                batch, every window that it changed, with its value then.
        """
        if policy not in _POLICIES:
            raise DefinitionError(f"emission policy {policy!r} is unknown; known are {', '.join(_POLICIES)}")
        return _checked(replace(self, policy=policy))

    def apply(
        self,
        df: "DataFrame",
        event_time: str,
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        name: str = "windows",
    ) -> "DataFrame":
        """Return the windows of a batch or streaming DataFrame, as a DataFrame of the same kind.

        Columns: the keys, `window` struct<start, end>, the aggregates by name and, on update, `change`.

        Args:
            df: the input. A streaming one gets its watermark here, from `grace`.
            event_time: column of type timestamp or timestamp_ntz.
            backend: "memory", "rocksdb" or another known one; else Spark's conf `spark.windows.state.backend`, else "memory".
            options: options by name, such as {"state.buckets": 8}; they go before Spark's conf.
            name: begins the names of the metrics that a stream reports; several operators in one query need several names.

        Raises:
            DefinitionError: a missing column, a wrong type, or nothing to compute.
            ValueError: an unknown backend or option.
            SessionSetupError: a streaming frame in a session that lacks what its state needs.
        """
        from operators.runtime.spark import apply

        return apply(self, df, event_time, backend, options, name)

    def local_runner(
        self,
        event_time: str,
        backend: str = "memory",
        directory: str | Path | None = None,
        options: Mapping[str, object] | None = None,
    ) -> LocalRunner:
        """Return a runner of this operator without Spark, to be used as a context manager.

        Args:
            event_time: column of timestamps, or of int64 ticks.
            backend: name of the state backend.
            directory: where state and changelog live; None for a temporary one that goes with the runner.
            options: options by name, as for `apply`.
        """

        def bind(schema: pa.Schema, config: StateConfig) -> Program:
            return self.program(schema, event_time, config)

        return LocalRunner(bind, resolve(backend, options), directory)

    def program(self, schema: pa.Schema, event_time: str, config: StateConfig) -> Program:
        """Return the operator bound to a frame's columns.

        Raises:
            DefinitionError: a missing column, a wrong type, or nothing to compute.
        """
        windows = self.windows
        types = {name: _plain(type_) for name, type_ in zip(schema.names, schema.types, strict=True)}
        gap = windows.gap_input
        self._check_columns(types, event_time, gap)
        bound = bind_aggregates(dict(self.aggregates), types)
        output = OutputSchema(
            tuple((name, types[name]) for name in self.keys),
            _bounds_type(types[event_time], windows.tick_us),
            windows.tick_us,
            bound,
            with_change=self.policy == "on_update",
            retracts=windows.retracts and self.policy == "on_update",
        )
        columns = {name for op in output.operations for name in op.inputs}
        schema = PaneSchema(output.operations)
        segment = windows.segment(schema)
        if config.segment is not None:
            segment = ticks(config.segment, windows.tick_us, "spark.windows.state.segment", 1)
        return Program(
            windows.plan(schema, self.policy),
            output,
            event_time,
            self.keys,
            tuple((name, types[name]) for name in sorted(columns)),
            windows.grace_ticks,
            windows.tick_us,
            segment,
            gap,
        )

    def _check_columns(self, types: Mapping[str, pa.DataType], event_time: str, gap: str | None) -> None:
        if not self.aggregates:
            raise DefinitionError("nothing to compute: add aggregates, such as .aggregate(n=agg.count())")
        named = [("event time", event_time), ("gap", gap), *(("key", key) for key in self.keys)]
        for what, name in named:
            if name is not None and name not in types:
                raise DefinitionError(f"there is no {what} column {name!r}; the frame has {', '.join(types)}")
        check_event_time(types[event_time], event_time)
        if gap is not None:
            check_gap(types[gap], gap)
        for key in self.keys:
            if (
                pat.is_nested(types[key])
                or pat.is_time(types[key])
                or getattr(types[key], "unit", "us") == "ns"
            ):
                raise DefinitionError(
                    f"key column {key!r} is {types[key]}; an atomic type of Spark is wanted: cast it, or group by its fields"
                )


def _checked(operator: WindowedAggregation) -> WindowedAggregation:
    names = [*operator.keys, "window", *(name for name, _ in operator.aggregates)]
    _refuse_twice("output column", [*names, "change"] if operator.policy == "on_update" else names)
    return operator


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pat.is_dictionary(type_) else type_


def _refuse_twice(what: str, names: Any) -> None:
    for name in names:
        if list(names).count(name) > 1:
            raise DefinitionError(f"{what} {name!r} is there twice; give each a name of its own")


def _bounds_type(type_: pa.DataType, tick_us: int) -> pa.DataType:
    """A timestamp like the event time's, with a unit that can tell ticks apart."""
    coarse = ("s", "ms") if tick_us == 1 else ("s",)
    tick_unit = "us" if tick_us == 1 else "ms"
    if pat.is_int64(type_):
        return pa.timestamp(tick_unit)
    return pa.timestamp(tick_unit if type_.unit in coarse else type_.unit, type_.tz)
