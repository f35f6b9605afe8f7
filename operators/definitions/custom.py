"""Custom operators on columns, and how one is bound to the columns of a frame."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.user_functions import result_type
from operators.columns.checks import (
    check_columns,
    column_types,
    list_columns,
    refuse_alike,
    refuse_twice,
)
from operators.columns.durations import Duration, tick_length, ticks
from operators.columns.expressions import refuse_expressions
from operators.columns.records import NEVER
from operators.custom.contract import CallContext, Declaration, Ints, OutputRows, StoredEntries
from operators.custom.output import CustomOutput
from operators.custom.plan import KINDS, CustomPlan
from operators.definitions.keys import key_columns, named_keys
from operators.definitions.runnable import RunnableOperator
from operators.errors import DefinitionError
from operators.runtime.binding import Binding, OutputTime, segment_length
from operators.runtime.inputs import Inputs, clock_of
from state_backends import StateConfig

if TYPE_CHECKING:
    from pyspark.sql import Column

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@lru_cache(maxsize=256, typed=True)
def _ticks(length: Duration, tick: str, name: str) -> int:
    return ticks(length, tick_length(tick), name, 0)


@dataclass(frozen=True, kw_only=True)
class Operator(ABC):
    """A custom operator on columns. Make it a frozen dataclass: its fields are its settings.

    Each batch is processed as in the built-in operators. A batch is atomic and has two close times. First, timers before the
    close time at its start fire, on the state of earlier batches. Then `process_batch` is called with the records that are not
    late. Then timers before the close time at its end fire. On Spark, the watermark sets both close times.

    An exception in `process_batch`, `fire`, `due` or `late_before` is raised as an `OperatorError` that names the operator and
    the method.

    Attributes:
        grace: how long the operator waits for records that are out of order: text, a timedelta, or whole milliseconds.
        tick: resolution of event time, "1 ms" or "1 us".
        version: increase it when the meaning of stored state changes: state of another version is refused.
        segment: length of a time segment of the store. A good value is the span of time that one batch reads.
    """

    grace: Duration = 0
    tick: str = "1 ms"

    version: ClassVar[int] = 1
    segment: ClassVar[Duration] = "10 minutes"
    keeps_inputs: ClassVar[bool] = False
    """Whether stored state holds the declared inputs in order, so that a change of the inputs is refused."""
    entry: ClassVar[str] = "what the operator puts or adds: a key, a time and the declared columns"
    """What an entry of the store is, as text for `explain`."""
    timed: ClassVar[bool] = False
    """Whether entries have timers: whether the class defines `due`."""
    fires: ClassVar[bool] = False
    """Whether the class defines `fire`."""
    judges_late: ClassVar[bool] = False
    """Whether the class defines `late_before`."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.timed = cls.due is not Operator.due
        cls.fires = cls.fire is not Operator.fire
        cls.judges_late = cls.late_before is not Operator.late_before

    @abstractmethod
    def declare(self, types: Mapping[str, pa.DataType]) -> Declaration:
        """Return the columns that the operator reads, stores and emits. Called on the driver and in each worker.

        Args:
            types: Arrow types of the frame's columns, by name.

        Raises:
            DefinitionError: the operator cannot use these columns; the message should name the column and the expected type.
        """

    @abstractmethod
    def process_batch(self, context: CallContext) -> OutputRows | None:
        """Process the records of a batch: update the store, and return the rows to emit, if any. Not called without records.

        An exception ends the query, since it is of all records at once. Find records that cannot be processed by their columns,
        leave them out, and call `context.report_failed` for each.
        """

    def fire(self, context: CallContext) -> OutputRows | None:
        """Process the entries whose timers are due, and return the rows to emit, if any.

        The entries have been removed from the store: write those that should stay, with a later timer or none. Called once with
        all due entries, in order of key and time, and again as long as entries that it wrote are due before the same close
        time.
        """
        raise NotImplementedError(f"{type(self).__name__} has timers (`due`) but no `fire` to process them")

    def due(self, entries: StoredEntries) -> Ints:
        """Return the timer of each entry in ticks, shape (n,), or NEVER. By default there are no timers.

        The result must depend on the entries only. Timers are not stored: they are computed from the entries, so that a crash
        cannot separate the two. If a timer is in the past when its entry is written, it fires in the same batch.
        """
        return np.full(len(entries), NEVER)

    def late_before(self, close_time: int) -> int:
        """Return the event time in ticks before which records are late. By default it is the close time."""
        return close_time

    @property
    def skips_errors(self) -> bool:
        """Whether calls for a record or timer that raise are skipped. If not, they end the query."""
        return False

    def settings(self) -> dict[str, Any]:
        """Return the settings that stored state depends on: by default all fields except `grace`.

        State that was stored under other settings is refused. Plain values are compared directly, others by their `repr`.
        """
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "grace"}

    def ticks(self, length: Duration) -> int:
        """Return a length of time (text, a timedelta, or whole milliseconds) in ticks.

        Raises:
            DefinitionError: it is not a length of time, is negative, or is not a whole number of ticks.
        """
        return _ticks(length, self.tick, f"a length of {type(self).__name__}")

    def instant(self, time: int) -> datetime:
        """Return ticks as a datetime in UTC.

        Raises:
            OverflowError: the year is not between 1 and 9999.
        """
        return _EPOCH + timedelta(microseconds=time * tick_length(self.tick))

    def group_by(self, *columns: "str | Column") -> "GroupedOperator":
        """Return the operator for each distinct value of these columns: names or, on Spark, expressions.

        Without columns all records are one group.

        Raises:
            DefinitionError: the operator's grace, tick, segment or timers are invalid, or a column is not a name.
        """
        return GroupedOperator(self, key_columns(columns))


@dataclass(frozen=True, slots=True)
class GroupedOperator(RunnableOperator):
    """An operator and its keys; made by `Operator.group_by`.

    Attributes:
        definition: the operator.
        keys: key columns.
        whole: whether it runs on a bounded frame.
        key_names: names of the keys in the result, if they are not those of the columns.
    """

    definition: Operator
    keys: tuple[str, ...]
    whole: bool = False
    key_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        definition, name = self.definition, type(self.definition).__name__
        tick_us = tick_length(definition.tick)
        ticks(definition.grace, tick_us, f"grace of {name}", 0)
        ticks(definition.segment, tick_us, f"segment of {name}", 1)
        if definition.timed and not definition.fires:
            raise DefinitionError(f"{name} has timers (`due`) but no `fire` to process them")
        if definition.fires and not definition.timed:
            raise DefinitionError(
                f"{name} has a `fire` but no timers: define `due`, which says when it is called"
            )

    def bounded(self) -> "GroupedOperator":
        return replace(self, whole=True)

    def bind(self, schema: pa.Schema, event_time: str, config: StateConfig) -> Binding:
        refuse_expressions([("event_time", event_time), *self.input_arguments])
        definition, types = self.definition, column_types(schema)
        check_columns(types, event_time, self.keys, {})
        tick_us = tick_length(definition.tick)
        declared = self._declared(types)
        results = tuple((name, self._result_type(name, type_)) for name, type_ in declared.results.items())
        inputs = tuple((name, types[name]) for name in declared.inputs)
        keys = tuple((key, types[key]) for key in self.keys)
        out = named_keys(keys, self.key_names)
        refuse_alike("output column", (*(name for name, _ in out), *declared.results))
        grace = ticks(definition.grace, tick_us, "grace", 0)
        segment = ticks(definition.segment, tick_us, f"segment of {type(definition).__name__}", 1)
        plan = CustomPlan(definition, declared, inputs, out, grace, whole=self.whole)
        plan.describe()
        return Binding(
            plan,
            CustomOutput(out, results, tick_us, type(definition).__name__, declared.event_time),
            Inputs(
                event_time,
                keys,
                inputs,
                tick_us,
                plan.max_bound_offset,
                clock=clock_of(types[event_time]),
            ),
            grace,
            segment_length(config, tick_us, segment),
            counts=tuple(declared.counts),
            times=tuple(self._times(declared, dict(results), tick_us)),
            segment_given=True,
        )

    @property
    def takes_updates(self) -> bool:
        return True

    def _times(
        self, declared: Declaration, results: dict[str, pa.DataType], tick_us: int
    ) -> Iterator[OutputTime]:
        """The event time of the results, if one is declared."""
        name, column = type(self.definition).__name__, declared.event_time
        if column is None:
            return
        if column not in results or not pat.is_timestamp(results[column]):
            raise DefinitionError(
                f"{name} declares {column!r} as event time: it must be a result of type timestamp"
            )
        yield OutputTime(column, None, ticks(declared.delay, tick_us, f"delay of {name}", 0))

    def _declared(self, types: dict[str, pa.DataType]) -> Declaration:
        name = type(self.definition).__name__
        declared = self.definition.declare(types)
        if not isinstance(declared, Declaration):
            raise DefinitionError(f"{name}.declare must return a Declaration, got {declared!r}")
        for what, names in (("inputs", declared.inputs), ("counts", declared.counts)):
            if isinstance(names, str):
                raise DefinitionError(f"{name} declares {what}={names!r}: expected a list of names")
        refuse_twice(f"input of {name}", tuple(declared.inputs))
        for column in declared.inputs:
            if column not in types:
                raise DefinitionError(
                    f"{name} reads column {column!r}, which does not exist; "
                    f"the frame has the columns {list_columns(column, types)}"
                )
        for column, type_ in declared.state.items():
            if type_ not in KINDS:
                raise DefinitionError(
                    f"{name} declares state column {column!r} of type {type_!r}: expected int, float or object"
                )
            if column in ("key", "time"):
                raise DefinitionError(
                    f"{name} declares state column {column!r}: every entry has a {column} already, use another name"
                )
        if not declared.results:
            raise DefinitionError(f"{name} declares no results: declare at least one result column")
        return declared

    def _result_type(self, name: str, type_: "str | pa.DataType") -> pa.DataType:
        if not isinstance(type_, str | pa.DataType):
            raise DefinitionError(
                f"{type(self.definition).__name__} declares result {name!r} of type {type_!r}: "
                "expected Spark's name of a type, such as 'double', or an Arrow type"
            )
        try:
            return result_type(type_)
        except DefinitionError as error:
            raise DefinitionError(f"{type(self.definition).__name__}, result {name!r}: {error}") from None
