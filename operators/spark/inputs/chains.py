"""Chains: operators one after another in a streaming query, and the watermark that they share.

A query of Spark has one watermark. An operator of this library that reads a plain stream sets it, from its grace. One that
reads the output of another stateful operator must not set a second one: Spark uses the lower of both, and the second would wait
for rows that the first emits only when it moves. Instead, result columns carry the watermark in their metadata, like those of
Spark's operators, so that Spark's windows, joins and `dropDuplicatesWithinWatermark` accept them as event time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType, TimestampType

from operators.errors import DefinitionError, SessionSetupError
from operators.runtime.binding import OutputTime
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.base.inside import (
    DELAY,
    TIME_WINDOW,
    WATERMARK,
    gets_any_order,
    has_several_inputs,
    keeps_state,
    plan_nodes,
)
from operators.spark.base.quoting import quote

_BEHIND, _OUR_DELAY, _UPDATES, _UNBOUNDED, _OPEN, _IDLE, _CLOSED = (
    f"stateful_windows.{name}"
    for name in ("behindUs", "delayMs", "updates", "unbounded", "openUs", "idleMs", "closedUs")
)
ONLY_INPUT = ""
"""Name of an operator's input where there is one."""
_TICK_OF_SPARK_US = 1_000
"""Spark's watermark has a resolution of a millisecond, and rows at the watermark itself are late."""
_BY_TABLE = "write the first operator's rows to a table and read them in a second query"
_WAY_OUT = (
    "use 'window.end' or F.window_time('window') of windows that are emitted on close, or the event_time that a "
    f"custom operator declares; or {_BY_TABLE}"
)


@dataclass(frozen=True, slots=True)
class Incoming:
    """The event time of an operator's input.

    Attributes:
        watermark_rule: how close times follow from the watermark.
        delay_ms: delay of the watermark to set; None if the stream has one.
        effective_delay_ms: delay of the watermark in effect.
        open_us: how far behind the clock the operators before this one leave windows open because of their `idle`, in
            microseconds; 0 if they have none.
        earlier_idle_ms: the longest `idle` of the operators before this one, in milliseconds; 0 if they have none.
        shuffled: whether rows may arrive in any order, since a shuffle lies below.
        markers: for several inputs, the column that is true in the rows of each, in the order of `watermark_rule.delays_us`.
    """

    watermark_rule: WatermarkRule
    delay_ms: int | None
    effective_delay_ms: int
    open_us: int = 0
    earlier_idle_ms: int = 0
    shuffled: bool = False
    markers: tuple[str, ...] = ()

    def with_watermark(self, df: DataFrame, column: str) -> DataFrame:
        """Return the stream with the watermark on this column, unless it has one."""
        return (
            df if self.delay_ms is None else df.withWatermark(quote(column), f"{self.delay_ms} milliseconds")
        )

    def with_idle(self, idle_ms: int | None) -> "Incoming":
        """Return the event time of a stream whose windows the clock closes, too, when it is quiet for this long.

        In a chain, it is quiet for an operator when it is quiet for those before, which may emit rows until then.
        """
        if idle_ms is None:
            return self
        behind_us = self.watermark_rule.behind_us if self.watermark_rule.chained else 0
        open_us = max(self.effective_delay_ms * 1_000, self.open_us) + behind_us
        idle_ms = max(idle_ms, self.earlier_idle_ms)
        return replace(self, watermark_rule=replace(self.watermark_rule, idle_ms=idle_ms, open_us=open_us))

    @property
    def left_open_us(self) -> int:
        """How far behind the clock this operator leaves windows open, without what `watermark_rule` has them lie behind."""
        idle_us = (self.watermark_rule.idle_ms or 0) * 1_000
        return max(idle_us - self.watermark_rule.behind_us, self.open_us)

    @staticmethod
    def of_inputs(parts: Mapping[str, "Incoming"], markers: Mapping[str, str]) -> "Incoming":
        """Return the event time of several inputs as one: a row is late if it is late for all of them.

        Args:
            parts: the inputs by name.
            markers: the column that is true in the rows of each input.
        """
        each = parts.values()
        told = all(part.watermark_rule.delays_us for part in each)
        rule = WatermarkRule(
            any(part.watermark_rule.chained for part in each),
            max(part.watermark_rule.behind_us for part in each),
            tuple((name, part.watermark_rule.delays_us[0][1]) for name, part in parts.items())
            if told
            else (),
        )
        return Incoming(
            rule,
            None,
            max(part.effective_delay_ms for part in each),
            max(part.open_us for part in each),
            max(part.earlier_idle_ms for part in each),
            any(part.shuffled for part in each),
            tuple(markers[name] for name in parts),
        )


def incoming(df: DataFrame, event_time: str, grace_us: int, *, takes_updates: bool) -> Incoming:
    """Return what is known of the event time of a stream.

    Args:
        df: the stream.
        event_time: its column of event times.
        grace_us: the operator's grace in microseconds.
        takes_updates: whether the operator can read updates of windows as records.

    Raises:
        DefinitionError: the column has a watermark with another delay, or lost the one that it needs.
    """
    nodes = plan_nodes(df)
    found = _incoming(df, event_time, grace_us, nodes, takes_updates=takes_updates)
    return replace(found, shuffled=_shuffle(nodes))


def is_shuffled(df: DataFrame) -> bool:
    """Return whether rows of a frame may come in any order, since a shuffle lies below, or since its plan cannot be read."""
    try:
        return _shuffle(plan_nodes(df))
    except SessionSetupError:
        return True


def _shuffle(nodes: Iterable[tuple[int, str]]) -> bool:
    return any(gets_any_order(name) for _, name in nodes)


def _incoming(
    df: DataFrame, event_time: str, grace_us: int, nodes: list[tuple[int, str]], *, takes_updates: bool
) -> Incoming:
    """What is known of the event time, but for shuffles."""
    metadata = df.schema[event_time].metadata
    grace_ms = -(-grace_us // 1_000)
    if WATERMARK not in (name for _, name in nodes):
        return direct(grace_ms)  # Metadata may come from a file that a query wrote: it means nothing here.
    stateful = [name for _, name in nodes if keeps_state(name)]
    if not stateful:
        return _of_watermarks(event_time, metadata.get(DELAY), grace_ms, nodes)
    names = ", ".join(dict.fromkeys(stateful))
    if _sets_another(nodes):
        raise DefinitionError(
            f"the frame has a withWatermark after a stateful operator ({names}): the watermark would never move, and "
            f"no row would be emitted. Leave that withWatermark out, and {_WAY_OUT}"
        )
    if metadata.get(_UPDATES) and not takes_updates:
        raise DefinitionError(
            f"event time {event_time!r} belongs to windows that are emitted on update: each comes several times, and would be "
            "counted as often. Give the first operator emit('on_close')"
        )
    if metadata.get(_UNBOUNDED):
        raise DefinitionError(
            f"event time {event_time!r} is of sessions, and can lie any time before the watermark, so that rows would be late: "
            "in one query, use 'window.end' of sessions without max_length, or with one gap for all records; "
            f"or {_BY_TABLE}"
        )
    if not {DELAY, _BEHIND} & metadata.keys():
        raise DefinitionError(
            f"event time {event_time!r} has no watermark, and the frame is the output of a stateful operator ({names}): "
            f"in one query, {_WAY_OUT}"
        )
    delay_ms = metadata.get(DELAY, metadata.get(_OUR_DELAY, 0))
    behind = metadata.get(_BEHIND, 0)
    ours = _BEHIND in metadata and stateful[0].startswith("TransformWithState")
    if not ours:
        # Spark's own operators emit rows that are a microsecond later than the watermark.
        behind = max(behind, 0) + _TICK_OF_SPARK_US
    rule = WatermarkRule(True, behind + max(0, grace_us - delay_ms * 1_000))
    if ours and _CLOSED in metadata and not any(has_several_inputs(name) for _, name in nodes):
        rule = replace(rule, delays_us=((ONLY_INPUT, -metadata[_CLOSED]),))
    return Incoming(rule, None, delay_ms, metadata.get(_OPEN, 0), metadata.get(_IDLE, 0))


def direct(grace_ms: int) -> Incoming:
    """Return the event time of a plain stream, to which `apply` gives its watermark."""
    # A millisecond more than the grace: what is emitted is later than the watermark of the batch before, not at it, as
    # Spark's operators require.
    return Incoming(WatermarkRule(delays_us=((ONLY_INPUT, (grace_ms + 1) * 1_000),)), grace_ms + 1, grace_ms)


def _of_watermarks(
    event_time: str, delay_ms: int | None, grace_ms: int, nodes: Sequence[tuple[int, str]]
) -> Incoming:
    """The event time of sources of which at least one has a watermark."""
    if delay_ms is None:
        raise DefinitionError(
            f"the frame has a withWatermark, but its event time {event_time!r} has none: it is on another column, an "
            "expression dropped it, or the first frame of a union lacks it. Spark refuses a second one, which apply would "
            "set: leave withWatermark out, and apply sets it from grace"
        )
    if delay_ms not in (grace_ms, grace_ms + 1):
        raise DefinitionError(
            f"column {event_time!r} has a watermark of {delay_ms} ms already, but grace is {grace_ms} ms: "
            "leave withWatermark out, since apply sets it from grace"
        )
    delays_us = ((ONLY_INPUT, delay_ms * 1_000),) if _is_on_all_rows(nodes) else ()
    rule = WatermarkRule(behind_us=_TICK_OF_SPARK_US * (grace_ms + 1 - delay_ms), delays_us=delays_us)
    return Incoming(rule, None, grace_ms)


def _is_on_all_rows(nodes: Sequence[tuple[int, str]]) -> bool:
    """Whether the plan has one watermark, with no union or join above it.

    Otherwise the highest event time of a batch does not say what the watermark will be: it may be that of rows without a
    watermark, and of several watermarks the lowest one counts.
    """
    names = [name for _, name in nodes]
    above = names[: names.index(WATERMARK)]
    return names.count(WATERMARK) == 1 and not any(map(has_several_inputs, above))


def _sets_another(nodes: Iterable[tuple[int, str]]) -> bool:
    """Whether a watermark is set on what a stateful operator emits."""
    above: int | None = None
    for depth, name in nodes:
        if above is not None and depth <= above:
            above = None
        if name == WATERMARK and above is None:
            above = depth
        elif above is not None and keeps_state(name):
            return True
    return False


def mark_times(schema: StructType, times: Sequence[OutputTime], input_: Incoming, tick_us: int) -> StructType:
    """Return the result columns of a stream with metadata from which later operators know their times.

    Args:
        schema: the columns.
        times: the columns, or fields, that later operators may take as event time.
        input_: the input of the operator.
        tick_us: length of a tick in microseconds.
    """
    by_column: dict[str, list[OutputTime]] = {}
    for time in times:
        by_column.setdefault(time.column, []).append(time)
    return StructType([_mark_time(field, by_column.get(field.name, []), input_, tick_us) for field in schema])


def _mark_time(field: StructField, times: list[OutputTime], input_: Incoming, tick_us: int) -> StructField:
    metadata, type_ = dict(field.metadata), field.dataType
    for time in times:
        said = _metadata(time, input_, tick_us)
        if time.field is None or not isinstance(type_, StructType):
            metadata |= _readable(said, type_)
            continue
        said = _readable(said, type_[time.field].dataType)
        inner = [
            StructField(f.name, f.dataType, f.nullable, said if f.name == time.field else f.metadata)
            for f in type_
        ]
        type_ = StructType(inner)
        if time.is_end:  # F.window_time takes it of a window that is given as a whole.
            metadata |= _just_before(said)
    return StructField(field.name, type_, field.nullable, metadata)


def _metadata(time: OutputTime, input_: Incoming, tick_us: int) -> dict[str, Any]:
    if time.behind is None:
        return {_UNBOUNDED: True}
    behind = input_.watermark_rule.behind(time.behind, tick_us)
    said: dict[str, Any] = {_BEHIND: behind, _OUR_DELAY: input_.effective_delay_ms}
    if input_.left_open_us:
        said[_OPEN] = input_.left_open_us
    if idle_ms := input_.watermark_rule.idle_ms or input_.earlier_idle_ms:
        said[_IDLE] = idle_ms
    if time.closed and not input_.left_open_us:
        # The close time is not before any row that was emitted, and the watermark is a tick before it.
        said[_CLOSED] = input_.watermark_rule.behind_us - _TICK_OF_SPARK_US
    if time.updates:
        said[_UPDATES] = True
    elif behind + 1 < _TICK_OF_SPARK_US:  # F.window_time is a microsecond before the end
        said[DELAY] = input_.effective_delay_ms
    return said


def _just_before(said: dict[str, Any]) -> dict[str, Any]:
    """What is known of the microsecond before a time."""
    return {key: value + 1 if key in {_BEHIND, _CLOSED} else value for key, value in said.items()}


def _readable(said: dict[str, Any], type_: DataType) -> dict[str, Any]:
    """What Spark can read of a time: watermarks are for timestamps with a zone."""
    return said if isinstance(type_, TimestampType) else {key: said[key] for key in said if key != DELAY}


def as_windows(schema: StructType, columns: Iterable[str]) -> StructType:
    """Return columns with these marked as time windows, which `F.window_time` and `F.window` accept."""
    names = set(columns)
    return StructType(
        [
            StructField(
                f.name,
                f.dataType,
                f.nullable,
                {**f.metadata, TIME_WINDOW: True} if f.name in names else f.metadata,
            )
            for f in schema
        ]
    )
