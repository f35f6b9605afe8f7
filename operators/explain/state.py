"""The state of an operator: the columns of an entry, and estimates of its bytes."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.operation import Operation
from operators.aggregates.state_words import in_words
from operators.aggregates.user_functions import AggregateError
from operators.columns.arrow import column_data
from operators.columns.records import Records
from operators.explain.parts import StatePart
from operators.kinds.described import WindowsPart
from operators.runtime.binding import Binding
from serializers import pack_value
from serializers.keys import NO_COLUMNS
from state_backends.store.schema import StoredSchema, head_codes

_WORD_BYTES = 8
_MANY_RECORDS = 100
_WHOLE = 1_000_000
TYPICAL = "texts of 16 characters, whole numbers of 7 digits"
"""The values that estimates of objects assume."""
INITIAL = "the initial state of a custom function"
"""The state of a user's functions that estimates assume."""
_VALUES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[int, pa.DataType], Any]], ...] = (
    (pat.is_boolean, lambda number, _: number % 2 == 0),
    (lambda type_: pat.is_string(type_) or pat.is_large_string(type_), lambda number, _: f"{number:016d}"),
    (lambda type_: pat.is_binary(type_) or pat.is_large_binary(type_), lambda number, _: b"%016d" % number),
    (pat.is_decimal, lambda number, type_: Decimal(number % 10**type_.precision).scaleb(-type_.scale)),
    (pat.is_floating, lambda number, _: number / 8),
    (pat.is_integer, lambda number, type_: number % 2 ** min(31, type_.bit_width - 1)),
    (pat.is_temporal, lambda number, _: number),
)
"""How a typical value is made from a number, by type."""


def state_of(binding: Binding, windows: WindowsPart) -> StatePart:
    """Return the state of a binding."""
    layout, stored = binding.plan.layout, binding.stored_schema()
    needed = None if windows.needed_us is None else windows.needed_us + binding.grace * binding.tick_us
    return StatePart(
        stored.head,
        tuple((in_words(state.name), state.parts) for state in stored.states),
        layout.width * _WORD_BYTES,
        layout.codes.count("object"),
        _object_bytes(binding, stored),
        _assumed(binding),
        binding.segment * binding.tick_us,
        needed,
        windows.spacing_us,
        windows.lone,
    )


def _object_bytes(binding: Binding, stored: StoredSchema) -> dict[int, int] | None:
    if "object" in head_codes(stored.head):  # values of a custom operator
        return None
    types, held = dict(binding.inputs.values), [op for op in binding.plan.operations if "object" in op.codes]
    found = {}
    for records in (1, _MANY_RECORDS):
        sizes = [_packed_bytes(operation, types, records) for operation in held]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        found[records] = sum(known)
    return found


def _assumed(binding: Binding) -> str:
    held = [operation for operation in binding.plan.operations if "object" in operation.codes]
    return "; ".join(dict.fromkeys(INITIAL if op.calls_user_code else TYPICAL for op in held))


def _packed_bytes(operation: Operation, types: dict[str, pa.DataType], records: int) -> int | None:
    """The bytes of the objects in a state of `records` typical records, or None if there are no typical values to be had."""
    state = operation.initial()
    if state is None:
        typical = _typical_records(operation.inputs, types, records)
        if typical is None:
            return None
        try:
            state = operation.accumulate(typical, np.zeros(1, np.int64))
        except AggregateError:  # of bytes that are to be sketches
            return None
    pairs = zip(operation.codes, state, strict=True)
    return sum(len(pack_value(column[0])) for code, column in pairs if code == "object")


def _typical_records(columns: Sequence[str], types: dict[str, pa.DataType], rows: int) -> Records | None:
    """Records of one key with distinct values."""
    typical = {name: _typical(types[name], rows) for name in columns}
    values = {name: column_data(column) for name, column in typical.items() if column is not None}
    if len(values) < len(typical):
        return None
    time = np.arange(rows) + _WHOLE**2
    return Records([NO_COLUMNS], np.zeros(rows, np.int64), time, values, 0)


def _typical(type_: pa.DataType, rows: int) -> pa.Array | None:
    """Distinct values of a type, or None for a type without typical values."""
    for fits, value in _VALUES:
        if fits(type_):
            return pa.array([value(_WHOLE + row, type_) for row in range(rows)], type_)
    return None
