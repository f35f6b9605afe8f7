"""Rolling windows: aggregates beside each record, over one or several lookbacks."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

import pyarrow as pa

from operators.aggregates import Aggregate
from operators.aggregates.over import OverLookbacks
from operators.aggregates.sides import EVENT_TIME, Side, check_joint_names
from operators.columns.checks import check_columns, column_types, list_names, refuse_alike, refuse_twice
from operators.columns.durations import Duration, tick_length, ticks
from operators.columns.expressions import named, refuse_expressions
from operators.definitions.attributes import OF_OPERATORS, unknown_attribute
from operators.definitions.completeness import TellsSince, since_column
from operators.definitions.keys import key_columns, named_keys
from operators.definitions.labels import Aggregated, EmittedRows, as_of
from operators.definitions.lookbacks import (
    check_closed,
    check_emitted,
    kept_columns,
    kept_names,
    lookback_ticks,
    pause_ticks,
)
from operators.definitions.publishing import PublishableFeatures
from operators.definitions.results import (
    check_computes,
    check_named,
    lasting,
    no_aggregate,
)
from operators.definitions.runnable import RunnableOperator
from operators.engines.rolling import RollingPlan
from operators.engines.rolling_rows import RollingOutput
from operators.errors import DefinitionError
from operators.kinds.rolling import Closed, Lookback, Rolling
from operators.runtime.binding import Binding, OutputTime, default_segment, segment_length
from operators.runtime.inputs import Inputs, check_clock, clock_of
from operators.steps.emission import bind_aggregates
from state_backends import StateConfig, resolve

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from operators.runtime.local import LocalRunner
    from operators.runtime.local_as_of import AsOfRunner

Policy = Literal["on_close", "on_arrival"]
"""When a row is emitted: when no record can change its windows any more, or in the batch of its record."""
_OF_OPERATORS = (*OF_OPERATORS, "apply_as_of", "local_runner_as_of")


@dataclass(frozen=True, slots=True)
class RollingWindows:
    """The windows of each record that end at its own time: its key's records of the last hour, day, week, or of all time.

    One row comes out for each record, with all its columns and the aggregates of each lookback.

    Args:
        lookbacks: lengths by name, such as {"1h": "1 hour", "mtd": "month to date", "ever": "lifetime"}: text such as "60
            minutes" or "PT1H", a timedelta, or whole milliseconds, positive; "day to date", so too week (from Monday), month,
            quarter and year, are the key's records since the record's own began in `zone`; "lifetime" is all of them. Results
            are named `<aggregate>_<name>`; after one length without a name, as the aggregates.
        grace: how long a row waits for records that are out of order, likewise; 0 or more.
        closed: which ends belong to a window of the length L at the time t, as in pandas and polars: "both" [t - L, t],
            "left" [t - L, t), "right" (t - L, t], "none" (t - L, t). Without t, a row's aggregates have nothing of the record
            itself. Records of one time count all or none, as in Spark's RANGE. The begin of what is to date belongs to it.
        tick: resolution of time, "1 ms" or "1 us"; event times are floored to it.
        forget_after: how long a key may be without records before its lifetime begins anew, likewise; None if for ever. Its
            state goes some time later. A late record older than the longest other lookback then counts in no lifetime.
        keep: the columns that come out beside the keys, the event time and the results, in the order of the frame; by default
            all. Others do not go through the shuffle, nor wait in the state. Labels of `apply_as_of` have all columns.
        zone: a zone of the tz database for lookbacks to date, such as "Europe/Berlin" or "UTC".
        offset: how much later their periods begin on the local clock: "6 hours", or by name, {"fiscal": "3 months"}.

    Raises:
        DefinitionError: a length is invalid, too small, or not a whole number of ticks; two are equal; no lookback, or one
            without a name; `closed` or the zone is unknown; `keep` is not a list of names; no zone, and one is needed.
    """

    lookbacks: Duration | Mapping[str, Duration]
    grace: Duration = 0
    closed: Closed = "both"
    tick: str = "1 ms"
    forget_after: Duration | None = None
    keep: Sequence[str] | None = None
    zone: str | None = None
    offset: Duration | Mapping[str, Duration] = 0
    lookback_ticks: tuple[Lookback, ...] = field(init=False, repr=False)
    names: tuple[str, ...] = field(init=False, repr=False)
    grace_ticks: int = field(init=False, repr=False)
    forget_ticks: int | None = field(init=False, repr=False)
    tick_us: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tick_us = tick_length(self.tick)
        lengths = lookback_ticks(self.lookbacks, tick_us, self.zone, self.offset)
        check_closed(self.closed)
        if self.keep is not None:
            object.__setattr__(self, "keep", kept_names(self.keep))
        object.__setattr__(self, "lookback_ticks", tuple(lengths))
        object.__setattr__(self, "names", tuple(lengths.values()))
        object.__setattr__(self, "grace_ticks", ticks(self.grace, tick_us, "grace", 0))
        object.__setattr__(self, "tick_us", tick_us)
        pause = pause_ticks(self.forget_after, tick_us, lifetime=None in lengths)
        object.__setattr__(self, "forget_ticks", pause)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What follows the name of an aggregate, for each lookback."""
        return tuple(f"_{name}" if name else "" for name in self.names)

    def group_by(self, *columns: "str | Column") -> "RollingAggregation":
        """Return an operator with separate windows for each distinct value of these columns: names or, on Spark, expressions.

        Null is a value like any other; all NaN are one value. Without columns all records are one group.
        """
        return RollingAggregation(self).group_by(*columns)

    def aggregate(self, *unnamed: NoReturn, **aggregates: Aggregate | OverLookbacks) -> "RollingAggregation":
        """Return an operator over all records as one group, with these results by name."""
        return RollingAggregation(self).aggregate(*unnamed, **aggregates)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name, _OF_OPERATORS)


@dataclass(frozen=True, slots=True)
class RollingAggregation(PublishableFeatures, TellsSince, RunnableOperator):
    """Rolling windows, keys, aggregates and an emission policy; each method returns a changed copy.

    Attributes:
        windows: the window definition.
        keys: key columns.
        aggregates: results by name, each with the names of its lookbacks.
        policy: "on_close" or "on_arrival".
        rows: the rows that come out; None if they are the records with all columns.
        key_names: names of the keys in stored state, if they are not those of the columns.
        since: the column that says since when all results count all records, if there is one.
    """

    windows: RollingWindows
    keys: tuple[str, ...] = ()
    aggregates: tuple[Aggregated, ...] = ()
    policy: Policy = "on_close"
    rows: EmittedRows | None = None
    key_names: tuple[str, ...] = ()
    since: str | None = None

    def group_by(self, *columns: "str | Column") -> "RollingAggregation":
        """Return the operator grouped by these columns or, on Spark, expressions, in place of earlier ones."""
        return replace(self, keys=key_columns(columns))

    def aggregate(self, *unnamed: NoReturn, **aggregates: Aggregate | OverLookbacks) -> "RollingAggregation":
        """Return the operator with these results added, for each lookback, such as `mean=agg.avg("amount")`.

        An aggregate can be limited to some of the lookbacks: `shops=agg.collect_set("shop").over("1h", "1d")`.

        Raises:
            DefinitionError: an aggregate without a name, what is not an aggregate, or an unknown lookback.
        """
        check_named(unnamed)
        added = []
        for name, one in aggregates.items():
            limited = one if isinstance(one, OverLookbacks) else OverLookbacks(one, self.windows.names)
            if not isinstance(limited.aggregate, Aggregate):
                raise DefinitionError(no_aggregate(name, one))
            for lookback in limited.lookbacks:
                if lookback not in self.windows.names:
                    raise DefinitionError(
                        f"{name} is over lookback {lookback!r}, which does not exist; the windows have "
                        f"{list_names(lookback, map(repr, self.windows.names))}"
                    )
            added.append((name, limited.aggregate, limited.lookbacks))
        return replace(self, aggregates=(*self.aggregates, *added)).checked()

    def checked(self) -> "RollingAggregation":
        """Return the operator, if its results have distinct names."""
        refuse_alike("output column", self.results)
        return self

    @property
    def results(self) -> Iterator[str]:
        """Names of the results, in the order of their columns, and of the one that tells since when they are complete."""
        for lookback, suffix in zip(self.windows.names, self.windows.suffixes, strict=True):
            yield from (f"{name}{suffix}" for name, _, over in self.aggregates if lookback in over)
        yield from [] if self.since is None else [self.since]

    def emit(self, policy: Policy) -> "RollingAggregation":
        """Return the operator with an emission policy.

        Args:
            policy: "on_close": each row once its windows are closed, so that no record can change them any more: exact.
                "on_arrival": each row in the batch in which its record came, from what is known by then; a record that comes
                later changes no row that is out.
        """
        if policy not in get_args(Policy):
            known = " or ".join(map(repr, get_args(Policy)))
            raise DefinitionError(f"emit of rolling windows takes {known}, not {policy!r}")
        return replace(self, policy=policy)

    @property
    def final(self) -> bool:
        return self.policy == "on_close"

    def for_readers(self, event_time: str) -> "RollingAggregation":
        windows = replace(self.windows, keep=None)
        return replace(
            self, windows=windows, policy="on_arrival", rows=EmittedRows((), event_time), since=None
        )

    def bounded(self) -> "RollingAggregation":
        # After the last record both policies say the same.
        return replace(self, policy="on_close")

    def prepared(
        self, df: "DataFrame", event_time: str, taken: Collection[str] = ()
    ) -> "tuple[RollingAggregation, DataFrame, str]":
        operator, found = self.on_columns(df, event_time, taken)
        time = found.name(event_time)
        if self.rows is None and found.names:
            operator = replace(operator, rows=EmittedRows(tuple((name, name) for name in df.columns), time))
        return operator, found.df, time

    def bind(self, schema: pa.Schema, event_time: str, config: StateConfig) -> Binding:
        refuse_expressions([("event_time", event_time), *self.input_arguments])
        windows, types = self.windows, column_types(schema)
        check_computes(self.aggregates)
        check_columns(types, event_time, self.keys, {})
        rows = self._rows(types, event_time)
        time = event_time if self.rows is None else self.rows.time
        output = self._output(types, rows, time)
        names = sorted({name for operation in output.operations for name in operation.inputs})
        read = tuple((name, types[name]) for name in names)
        label = None if self.rows is None else self.rows.marker
        emitted = {name: out for name, out, _ in rows}
        plan = RollingPlan(
            Rolling(windows.lookback_ticks, windows.closed, windows.forget_ticks),
            self.policy == "on_arrival",
            output.operations,
            lasting(output, [n for n, ticks in enumerate(windows.lookback_ticks) if ticks is None]),
            read,
            tuple((name, types[name]) for name in dict.fromkeys((*emitted, time))),
            time,
            windows.tick_us,
            label,
        )
        values = read if label is None else (*read, (label, pa.bool_()))
        keys = tuple((name, types[name]) for name in self.keys)
        offset, clock = plan.max_bound_offset, check_clock(windows.zone, clock_of(types[time]), time)
        inputs = Inputs(event_time, keys, values, windows.tick_us, offset, rows=plan.rows, clock=clock)
        return Binding(
            plan,
            output,
            inputs,
            windows.grace_ticks,
            self._segment(plan, config),
            times=(OutputTime(emitted[time], None, 0, closed=not plan.on_arrival),)
            if time in emitted
            else (),
            segment_given=config.segment is not None,
            labels=None if label is None else output,
        )

    def _rows(
        self, types: Mapping[str, pa.DataType], event_time: str
    ) -> tuple[tuple[str, str, pa.DataType], ...]:
        """The columns of the rows that come out: name, name in the result, and type."""
        columns = tuple(zip(types, types, strict=True)) if self.rows is None else self.rows.columns
        if self.windows.keep is not None and (self.rows is None or self.rows.marker is None):
            columns = kept_columns(columns, self.windows.keep, (*self.keys, event_time))
        rows = tuple((name, out, types[name]) for name, out in columns)
        check_emitted(rows, self.results)
        refuse_twice("column", tuple(out for _, out, _ in rows))
        return rows

    def _output(
        self, types: Mapping[str, pa.DataType], rows: tuple[tuple[str, str, pa.DataType], ...], time: str
    ) -> RollingOutput:
        windows = self.windows
        named = {name: aggregate for name, aggregate, _ in self.aggregates}
        aggregates = bind_aggregates(named, types, windows.tick_us)
        bound = tuple((name, one.combining()) for name, one in aggregates)
        over = tuple(tuple(windows.names.index(name) for name in over) for _, _, over in self.aggregates)
        keys = tuple((name, types[name]) for name in self.keys)
        return RollingOutput(
            named_keys(keys, self.key_names),
            bound,
            rows,
            windows.suffixes,
            over,
            label=None if self.rows is None else self.rows.marker,
            since=since_column(self.since, types[time], windows.tick_us),
        )

    def _segment(self, plan: RollingPlan, config: StateConfig) -> int:
        default = default_segment(0, plan.kind.longest, self.windows.grace_ticks, plan.tick_us)
        return segment_length(config, plan.tick_us, default)

    def apply_as_of(  # noqa: PLR0913 - two frames, each with its time
        self,
        labels: "DataFrame",
        records: "DataFrame",
        label_time: "str | Column",
        event_time: "str | Column",
        *,
        backend: str | None = None,
        options: Mapping[str, object] | None = None,
        name: str = "windows",
        idle: Duration | None = None,
        max_future: Duration | None = None,
    ) -> "DataFrame":
        """Return each label with the aggregates of its key's records as of the label's own time.

        For training sets that are right at each point in time: a label sees what `apply` would have put beside a record of its
        time. Labels are in no window. For a label without records, a count is 0, a list is empty, and every other aggregate is
        null.

        Args:
            labels, records: both batch or both streaming. A streaming label waits until its time is closed; the slower one of
                the two watermarks counts. A label without a time comes out with nulls for the results. The key columns have the
                same names and types in both; an expression is evaluated in each.
            label_time: column of the labels with their times, or an expression.
            event_time: column of the records, or an expression, of the same type.
            backend, options, name, idle, max_future: as for `apply`. A label of the future has nulls for the results.

        Raises:
            DefinitionError: a column is missing, or types differ.
        """
        from operators.spark.apply import apply
        from operators.spark.inputs.arguments import Arguments
        from operators.spark.inputs.expression_columns import with_expression_columns
        from operators.spark.inputs.union import check_frames, check_inputs, unite

        frames = {"labels": labels, "records": records}
        check_frames(frames)
        times = {"labels": named(label_time), "records": named(event_time)}
        _, sides = as_of(self, labels.columns, times["labels"])
        taken = check_inputs(sides, self.keys, frames, times)
        found = with_expression_columns(labels, self.keys, [("label_time", times["labels"])], taken)
        ready, df, time = self.prepared(records, times["records"], taken)
        frames = {"labels": found.df, "records": df}
        times = {"labels": found.name(times["labels"]), "records": time}
        operator, sides = as_of(ready, labels.columns, times["labels"])
        grace_us = self.windows.grace_ticks * self.windows.tick_us
        most_us = Arguments(max_future=max_future).max_future_us
        frame, incoming = unite(sides, operator.keys, frames, times, grace_us, most_us)
        arguments = Arguments(backend, options, name, idle=idle)
        return apply(operator, frame, EVENT_TIME, arguments, incoming=incoming)

    def local_runner_as_of(
        self,
        label_time: str,
        event_time: str,
        backend: str = "memory",
        directory: str | Path | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "AsOfRunner":
        """Return a runner of `apply_as_of` that needs no Spark; its `process` takes a table of labels and one of records.

        Args:
            label_time, event_time: as for `apply_as_of`.
            backend, directory, options: as for `local_runner`.
        """
        from operators.runtime.local_as_of import AsOfRunner

        refuse_expressions([("label_time", label_time), ("event_time", event_time), *self.input_arguments])

        def sides_of(columns: Sequence[str]) -> "tuple[list[Side], LocalRunner]":
            operator, sides = as_of(self, columns, label_time)
            check_joint_names(sides, self.keys)
            return sides, operator.runner_of_inputs(EVENT_TIME, resolve(backend, options), directory, sides)

        return AsOfRunner(sides_of, self.keys, {"labels": label_time, "records": event_time})
