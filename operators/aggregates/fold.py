"""Aggregates in plain Python: an initial state, and functions that add a record, merge two states and make the result."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.definitions import Aggregate, Bound, Types
from operators.aggregates.fold_operation import FoldOperation, Functions, MergeableFold
from operators.aggregates.user_functions import (
    FAIL,
    SKIP,
    AggregateError,
    check_on_error,
    fingerprint,
    result_type,
)
from operators.columns.checks import check_column_name
from operators.columns.expressions import named
from operators.columns.python_values import arrow_values
from operators.columns.ranges import State
from operators.errors import DefinitionError
from serializers.errors import SerializationError
from serializers.values import pack_value, unpack_value

if TYPE_CHECKING:
    from pyspark.sql import Column

_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


@dataclass(frozen=True, slots=True)
class Fold(Aggregate):
    """An aggregate in plain Python.

    Attributes:
        columns: input columns.
        type: Arrow type of the result.
        name: identifies the fold in errors and checkpoints.
        functions: the user's functions.
        on_error: what an exception in `add` does.
    """

    columns: tuple[str, ...]
    type: pa.DataType
    name: str
    functions: Functions
    on_error: str = FAIL

    @property
    def _name(self) -> str:
        return f"fold {self.name}"

    def bind(self, types: Types) -> Bound:
        self._check_where(types)
        taken = tuple(self._known(types, name) for name in self.columns)
        functions = self.functions
        code = fingerprint(functions.init, functions.add, functions.merge, functions.finish)
        kind = FoldOperation if functions.merge is None else MergeableFold
        skips = self.on_error == SKIP
        operation = kind(
            self.column, self.columns, taken, self.name, code, functions, skips=skips, where=self.where
        )
        return Bound((operation,), self.type, _Results(operation, self.type))


@dataclass(frozen=True, slots=True)
class _Results:
    """Computes the results of a fold. Unlike functions, these objects are equal for equal folds."""

    operation: FoldOperation
    type: pa.DataType

    def __call__(self, states: Sequence[State]) -> pa.Array:
        values = [self.operation.result(packed) for packed in states[0][0].tolist()]
        try:
            return _strict_array(values, self.type)
        except _UNFIT:
            for value in values:
                self._check(value)
            raise

    def _check(self, value: Any) -> None:
        try:
            _strict_array([value], self.type)
        except _UNFIT as error:
            what = "the state" if self.operation.functions.finish is None else "the result of finish"
            raise AggregateError(
                f"{self.operation.describe()}: {what} is {value!r}, expected {self.type}: {error}"
            ) from error


def fold(  # noqa: PLR0913 - functions, columns, and what becomes of them
    init: Any,
    add: Callable[..., Any],
    *columns: "str | Column",
    type: str | pa.DataType,  # noqa: A002 - the field's name
    merge: Callable[[Any, Any], Any] | None = None,
    finish: Callable[[Any], Any] | None = None,
    name: str | None = None,
    where: "str | Column | None" = None,
    on_error: str = FAIL,
) -> Aggregate:
    """An aggregate in plain Python, such as `agg.fold(0, lambda total, x: total + x, "x", type="bigint")`.

    The records of a key in a batch are added in order of event time, records of equal times in order of their values (null
    first, NaN last), so that the order of arrival within a batch does not matter.

    With `merge`, each record is added once and windows merge partial states. Without it, each record is added to each window
    that contains it, as in Kafka Streams: use this only if states cannot be merged. Session windows need `merge`.

    Functions may change the state and the values that they are given, which are copies. A state may be None, bool, int, float,
    str, bytes, date, datetime, time, Decimal, timedelta, or a list or dict of these; tuples become lists. Values of columns
    have one form for each type, as for `KeyedOperator`: times in UTC, maps as dicts.

    Args:
        init: state of a window without records, or a function that returns it, such as `list`.
        add: called with a state and the record's values of `columns`, None for null; returns the new state.
        columns: input columns: names or, on Spark, expressions.
        type: type of the result: Spark's name of a simple type, "array<...>" of one, or an Arrow type.
        merge: called with two states of one window, must be associative and commutative: which states are merged first, and
            which of two comes first, depends on batches, tasks and the length of stored segments, and states may overlap in
            time. If order matters, keep the times in the state, or leave `merge` out.
        finish: called with a state; returns the result. By default the result is the state.
        name: identifies the fold in errors and checkpoints; by default the name of `add`.
        where: a boolean column or expression: records where it is not true do not count.
        on_error: what an exception in `add` does. "fail" ends the query. "skip" leaves out records that cannot be added to the
            initial state, as if `where` were not true: other aggregates count them. They are counted in the metric `failed`,
            late ones too, and `apply_with_late` returns them. An exception for a state that other records made, or in
            another function, ends the query all the same: no record is to blame for it. Costs two further calls of `add` for
            each record, and there is no partial aggregation before the shuffle.

    Raises:
        DefinitionError: an argument is not a function, a column name or a type, or `init` cannot be stored.
        AggregateError: when the operator runs: a function raised, or returned a value that cannot be stored or emitted.
    """
    roles: dict[str, Any] = {"add": add, "merge": merge, "finish": finish}
    for role, function in roles.items():
        if not callable(function) and (function is not None or role == "add"):
            raise DefinitionError(f"fold: {role} must be a function, got {function!r}")
    inputs = tuple(map(named, columns))
    for column in inputs:
        check_column_name("fold", column)
    check_on_error("fold", on_error)
    name = name or getattr(add, "__name__", "function").strip("<>")
    functions = Functions(init if callable(init) else _constant(name, init), add, merge, finish)
    first = inputs[0] if inputs else None
    return Fold(first, inputs, result_type(type), name, functions, on_error, where=named(where))


def _constant(name: str, value: Any) -> Callable[[], Any]:
    """A function that returns a new copy of the value each time."""
    try:
        packed = pack_value(value)
    except (SerializationError, ValueError, TypeError) as error:
        raise DefinitionError(f"fold {name}: init cannot be stored: {error}") from error
    return functools.partial(unpack_value, packed)


def _strict_array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """The values as an Arrow array; a fraction in a column of whole numbers, which Arrow would truncate, is an error."""
    if any(_has_fraction(value, type_) for value in values):
        raise ValueError("its fraction would be truncated")
    return arrow_values(values, type_)


def _has_fraction(value: Any, type_: pa.DataType) -> bool:
    """Whether the type is a whole number and the value has a fraction."""
    if pat.is_list(type_) and isinstance(value, Sequence):
        return any(_has_fraction(item, type_.value_type) for item in value)
    return pat.is_integer(type_) and isinstance(value, float) and not value.is_integer()
