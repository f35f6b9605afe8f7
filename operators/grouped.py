"""An operator of a user's own, grouped by keys: what binds it to the columns of a frame."""

from dataclasses import dataclass

import pyarrow as pa

from operators.aggregates.user_code import result_type
from operators.applicable import Applicable, check_columns, column_types, refuse_twice
from operators.base.columnar import Declaration, Operator
from operators.base.own import KINDS, OwnOutput, OwnPlan
from operators.durations import tick_length, ticks
from operators.errors import DefinitionError
from operators.program import Program
from state_backends import StateConfig


@dataclass(frozen=True, slots=True)
class GroupedOperator(Applicable):
    """An operator and its keys; made by `Operator.group_by`.

    Attributes:
        definition: the operator.
        keys: key columns.
    """

    definition: Operator
    keys: tuple[str, ...]

    def program(self, schema: pa.Schema, event_time: str, config: StateConfig) -> Program:
        definition, types = self.definition, column_types(schema)
        check_columns(types, event_time, self.keys, {})
        tick_us = tick_length(definition.tick)
        grace = ticks(definition.grace, tick_us, "grace", 0)
        declared = self._declared(types)
        results = tuple((name, result_type(type_)) for name, type_ in declared.results.items())
        refuse_twice("output column", (*self.keys, *declared.results))
        inputs = tuple((name, types[name]) for name in declared.inputs)
        segment, name = definition.segment, f"segment of {type(definition).__name__}"
        if config.segment is not None:
            segment, name = config.segment, "spark.windows.state.segment"
        return Program(
            OwnPlan(definition, declared, inputs, grace),
            OwnOutput(tuple((key, types[key]) for key in self.keys), results, tick_us),
            event_time,
            self.keys,
            inputs,
            grace,
            tick_us,
            ticks(segment, tick_us, name, 1),
        )

    def _declared(self, types: dict[str, pa.DataType]) -> Declaration:
        name = type(self.definition).__name__
        declared = self.definition.declare(types)
        if not isinstance(declared, Declaration):
            raise DefinitionError(f"{name}.declare returns {declared!r}; a Declaration is wanted")
        for column in declared.inputs:
            if column not in types:
                raise DefinitionError(
                    f"{name} reads the column {column!r}, which is not there; the frame has {', '.join(types)}"
                )
        for column, type_ in declared.state.items():
            if type_ not in KINDS:
                raise DefinitionError(f"{name} keeps {column!r} as {type_!r}; int, float or object is wanted")
        if not declared.results:
            raise DefinitionError(f"{name} declares no results: there would be nothing to emit")
        return declared
