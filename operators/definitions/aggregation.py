"""What a user builds from a window definition: keys, aggregates, emission, and then rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn, Protocol

import pyarrow as pa

from operators.aggregates import Aggregate, AggregateOperation
from operators.columns.durations import ticks
from operators.columns.records import check_gap
from operators.definitions.cogroup import CoGroupedAggregation, Side
from operators.definitions.runnable import Applicable, check_columns, column_types, refuse_twice
from operators.errors import DefinitionError, check_column_name
from operators.kinds.panes import PaneSchema
from operators.runtime.program import OutputTime, Plan, Program
from operators.steps.emission import OutputSchema, bind_aggregates, bounds_type
from state_backends import StateConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POLICIES = ("on_close", "on_update")


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
    def retracts(self) -> bool:
        """Whether windows that were emitted on update can cease to be."""

    @property
    def bounds_behind(self) -> tuple[int | None, int]:
        """By how many ticks start and end of a window may lie before the close time of the batch before that emits it."""

    def plan(self, schema: PaneSchema, policy: str) -> Plan:
        """Return what is computed for these operations."""

    def segment(self, schema: PaneSchema) -> int:
        """Return the default length of a stored segment in ticks."""


@dataclass(frozen=True, slots=True)
class WindowedAggregation(Applicable):
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
            check_column_name("group_by", column)
        refuse_twice("key column", columns)
        return _checked(replace(self, keys=columns))

    def aggregate(self, *unnamed: NoReturn, **aggregates: Aggregate) -> "WindowedAggregation":
        """Return the operator with these results beside earlier ones, such as `mean=agg.avg("delay")`."""
        if unnamed:
            raise DefinitionError(
                "each result wants a name: .aggregate(n=agg.count()), not .aggregate(agg.count())"
            )
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise DefinitionError(_no_aggregate(name, aggregate))
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
        if len(frames) < 2 or any(results == {} for results in frames.values()):
            raise DefinitionError("cogroup wants two frames or more, each with an aggregate or more")
        for name, results in frames.items():
            if not isinstance(results, Mapping):
                raise DefinitionError(
                    f"frame {name}: give its results by name, such as {name}={{'n': agg.count()}}"
                )
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

    def bounded(self) -> "WindowedAggregation":
        # After the last record both policies say the same.
        return self.emit("on_close")

    def prepared(self, df: "DataFrame", event_time: str) -> "tuple[WindowedAggregation, DataFrame]":
        from operators.spark.gaps import with_gap

        return with_gap(self, df, event_time)

    def program(self, schema: pa.Schema, event_time: str, config: StateConfig) -> Program:
        windows = self.windows
        types = column_types(schema)
        gap = windows.gap_input
        self._check_columns(types, event_time, gap)
        bound = bind_aggregates(dict(self.aggregates), types)
        output = OutputSchema(
            tuple((name, types[name]) for name in self.keys),
            bounds_type(types[event_time], windows.tick_us),
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
            times=tuple(self._times()),
        )

    def _times(self) -> Iterator[OutputTime]:
        updates = self.policy == "on_update"
        for name, behind in zip(("start", "end"), self.windows.bounds_behind, strict=True):
            if behind is not None:
                yield OutputTime("window", name, behind, updates)

    def _check_columns(self, types: Mapping[str, pa.DataType], event_time: str, gap: str | None) -> None:
        if not self.aggregates:
            raise DefinitionError("nothing to compute: add aggregates, such as .aggregate(n=agg.count())")
        check_columns(types, event_time, self.keys, {"gap": gap})
        if gap is not None:
            check_gap(types[gap], gap)


def _no_aggregate(name: str, given: object) -> str:
    """What to say of a result that is no aggregate."""
    if isinstance(given, AggregateOperation):
        return (
            f"{name} is the AggregateOperation {given.name!r} itself: call it with columns, such as op('v')"
        )
    if callable(given) and getattr(given, "__module__", None) == "operators.aggregates":
        return (
            f"{name}={given!r} is no aggregate: call it, such as agg.{getattr(given, '__name__', 'sum')}('v')"
        )
    return (
        f"{name}={given!r} is no aggregate: use one of operators.aggregates, such as agg.sum('v'), "
        "not of pyspark.sql.functions"
    )


def _checked(operator: WindowedAggregation) -> WindowedAggregation:
    results = [name for name, _ in operator.aggregates]
    own = ("window", "change") if operator.policy == "on_update" else ("window",)
    for name in (*operator.keys, *results):
        if name in own:
            raise DefinitionError(
                f"output column {name!r} is there twice: windows come with one of that name; name yours otherwise"
            )
    refuse_twice("output column", (*operator.keys, *results))
    return operator
