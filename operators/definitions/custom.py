"""Operators that users write on columns, and what binds one to the columns of a frame."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.user_code import result_type
from operators.columns.checks import (
    check_column_name,
    check_columns,
    column_types,
    listed_columns,
    refuse_twice,
)
from operators.columns.durations import Duration, tick_length, ticks
from operators.custom.contract import Declaration, Ints, Rows, Stored, Work
from operators.custom.plan import KINDS, CustomOutput, CustomPlan
from operators.definitions.runnable import RunnableOperator
from operators.errors import DefinitionError
from operators.runtime.inputs import Inputs
from operators.runtime.program import OutputTime, Program
from operators.steps.timers import NEVER
from state_backends import StateConfig

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@lru_cache(maxsize=256, typed=True)
def _ticks(length: Duration, tick: str, name: str) -> int:
    return ticks(length, tick_length(tick), name, 0)


@dataclass(frozen=True, kw_only=True)
class Operator(ABC):
    """An operator of one's own, on columns. Make it a frozen dataclass: its fields are its settings.

    A batch comes as in the built-in operators (a batch is atomic and has two close times): timers that the close time at
    its start has passed fire first, on the state as it was; then `take` gets the records that are not late; then those
    timers fire that the close time at its end has passed. On Spark both close times are the watermark's.

    What `take`, `fire`, `due` and `late_before` raise comes as an `OperatorError` that names the operator and the method.

    Attributes:
        grace: how long the operator waits for records that are out of order: text, a timedelta, or whole milliseconds.
        tick: resolution of time, "1 ms" or "1 us".
        version: raise it when what is stored gets another meaning: state of another version is refused.
        segment: length of a stored time segment; about what a batch of timers or of reads spans serves well.
    """

    grace: Duration = 0
    tick: str = "1 ms"

    version: ClassVar[int] = 1
    segment: ClassVar[Duration] = "10 minutes"
    keeps_inputs: ClassVar[bool] = False
    """Whether stored state has the declared inputs in their order, so that others are refused on it."""
    entry: ClassVar[str] = "what `take` and `fire` put or add: a key, a time and the declared columns"
    """What an entry of the store stands for, for `explain`."""
    timed: ClassVar[bool] = False
    """Whether entries have timers: whether the class has a `due`."""
    fires: ClassVar[bool] = False
    """Whether the class has a `fire`."""
    judges_late: ClassVar[bool] = False
    """Whether the class has a `late_before`."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.timed = cls.due is not Operator.due
        cls.fires = cls.fire is not Operator.fire
        cls.judges_late = cls.late_before is not Operator.late_before

    @abstractmethod
    def declare(self, types: Mapping[str, pa.DataType]) -> Declaration:
        """Return what the operator reads, keeps and makes. Called on the driver and in each worker.

        Args:
            types: the frame's columns with their Arrow types.

        Raises:
            DefinitionError: the columns don't serve; say which, and what would.
        """

    @abstractmethod
    def take(self, work: Work) -> Rows | None:
        """Take a batch's records, change the store, and return the rows to emit now, if any. Not called without records."""

    def fire(self, work: Work) -> Rows | None:
        """Take the entries whose timer has come, and return the rows to emit, if any.

        They have been taken out of the store: put back, with a later timer or none, what is to stay. Called once for all
        that is due, in order of key and time, and again while entries that it wrote are due before the same close time.
        """
        raise NotImplementedError(f"{type(self).__name__} has timers (`due`) and no `fire`")

    def due(self, entries: Stored) -> Ints:
        """Return each entry's timer in ticks, shape (n,), or NEVER. It depends on the entry alone, by default there is none.

        Timers are not kept beside the entries but follow from them, so that no crash can part the two. One that is past when
        its entry is written fires in the same batch.
        """
        return np.full(len(entries), NEVER)

    def late_before(self, close: int) -> int:
        """Return the event time in ticks before which a record is late, of a close time; by default that time itself."""
        return close

    def settings(self) -> dict[str, Any]:
        """Return what stored state depends on: by default all fields but `grace`. Under other settings it is refused.

        Values are compared as plain ones, or by their `repr`.
        """
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "grace"}

    def ticks(self, length: Duration) -> int:
        """Return a length of time (text, a timedelta, or whole milliseconds) in ticks.

        Raises:
            DefinitionError: it is no length of time, negative, or no whole number of ticks.
        """
        return _ticks(length, self.tick, f"a length of {type(self).__name__}")

    def instant(self, time: int) -> datetime:
        """Return ticks as a datetime with zone UTC.

        Raises:
            OverflowError: it is not between the years 1 and 9999.
        """
        return _EPOCH + timedelta(microseconds=time * tick_length(self.tick))

    def group_by(self, *columns: str) -> "GroupedOperator":
        """Return the operator for each distinct value of these columns. Without columns all records are one group.

        Raises:
            DefinitionError: the operator's grace, tick, segment or timers cannot be used, or a column is no name.
        """
        return GroupedOperator(self, columns)


@dataclass(frozen=True, slots=True)
class GroupedOperator(RunnableOperator):
    """An operator and its keys; made by `Operator.group_by`.

    Attributes:
        definition: the operator.
        keys: key columns.
        whole: whether it runs over a frame that is all there.
    """

    definition: Operator
    keys: tuple[str, ...]
    whole: bool = False

    def __post_init__(self) -> None:
        definition, name = self.definition, type(self.definition).__name__
        for column in self.keys:
            check_column_name("group_by", column)
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

    def program(self, schema: pa.Schema, event_time: str, config: StateConfig) -> Program:
        definition, types = self.definition, column_types(schema)
        check_columns(types, event_time, self.keys, {})
        tick_us = tick_length(definition.tick)
        declared = self._declared(types)
        results = tuple((name, self._result_type(name, type_)) for name, type_ in declared.results.items())
        refuse_twice("output column", (*self.keys, *declared.results))
        inputs = tuple((name, types[name]) for name in declared.inputs)
        keys = tuple((key, types[key]) for key in self.keys)
        grace = ticks(definition.grace, tick_us, "grace", 0)
        segment, name = definition.segment, f"segment of {type(definition).__name__}"
        if config.segment is not None:
            segment, name = config.segment, "spark.windows.state.segment"
        plan = CustomPlan(definition, declared, inputs, keys, grace, whole=self.whole)
        plan.describe()
        return Program(
            plan,
            CustomOutput(keys, results, tick_us, type(definition).__name__, declared.event_time),
            Inputs(event_time, keys, inputs, tick_us, plan.reach),
            grace,
            ticks(segment, tick_us, name, 1),
            counts=tuple(declared.counts),
            times=tuple(self._times(declared, dict(results), tick_us)),
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
                f"{name} declares {column!r} as the event time of its rows: name one of its results that is a timestamp"
            )
        yield OutputTime(column, None, ticks(declared.delay, tick_us, f"delay of {name}", 0))

    def _declared(self, types: dict[str, pa.DataType]) -> Declaration:
        name = type(self.definition).__name__
        declared = self.definition.declare(types)
        if not isinstance(declared, Declaration):
            raise DefinitionError(f"{name}.declare returns {declared!r}; a Declaration is wanted")
        for what, names in (("inputs", declared.inputs), ("counts", declared.counts)):
            if isinstance(names, str):
                raise DefinitionError(f"{name} declares {names!r} as {what}; a list of names is wanted")
        refuse_twice(f"input of {name}", tuple(declared.inputs))
        for column in declared.inputs:
            if column not in types:
                raise DefinitionError(
                    f"{name} reads the column {column!r}, which is not there; the frame has {listed_columns(column, types)}"
                )
        for column, type_ in declared.state.items():
            if type_ not in KINDS:
                raise DefinitionError(f"{name} keeps {column!r} as {type_!r}; int, float or object is wanted")
            if column in ("key", "time"):
                raise DefinitionError(
                    f"{name} declares {column!r} as state; every entry has it: declare what is beside it"
                )
        if not declared.results:
            raise DefinitionError(f"{name} declares no results: there would be nothing to emit")
        return declared

    def _result_type(self, name: str, given: "str | pa.DataType") -> pa.DataType:
        if not isinstance(given, str | pa.DataType):
            wanted = "Spark's name of a type, such as 'double', or an Arrow type, is wanted"
            raise DefinitionError(f"{type(self.definition).__name__} makes {name!r} as {given!r}; {wanted}")
        try:
            return result_type(given)
        except DefinitionError as error:
            raise DefinitionError(f"{type(self.definition).__name__} makes {name!r}: {error}") from None
