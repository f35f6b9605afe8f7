"""An operator of a user's own, grouped by keys: what binds it to the columns of a frame."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.user_code import result_type
from operators.columns.durations import tick_length, ticks
from operators.custom.contract import Declaration, Operator
from operators.custom.plan import KINDS, OwnOutput, OwnPlan
from operators.definitions.runnable import Applicable, check_columns, column_types, refuse_twice
from operators.errors import DefinitionError, check_column_name, columns_told
from operators.runtime.program import OutputTime, Program
from state_backends import StateConfig


@dataclass(frozen=True, slots=True)
class GroupedOperator(Applicable):
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
        timers, fires = (
            getattr(type(definition), method) is not getattr(Operator, method) for method in ("due", "fire")
        )
        if timers and not fires:
            raise DefinitionError(f"{name} has timers (`due`) and no `fire`, which takes what is due")
        if fires and not timers:
            raise DefinitionError(f"{name} has a `fire` and no timers: say by `due` when it is to be called")

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
        plan = OwnPlan(definition, declared, inputs, keys, grace, whole=self.whole)
        plan.describe()
        return Program(
            plan,
            OwnOutput(keys, results, tick_us, type(definition).__name__, declared.event_time),
            event_time,
            self.keys,
            inputs,
            grace,
            tick_us,
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
                    f"{name} reads the column {column!r}, which is not there; the frame has {columns_told(column, types)}"
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
