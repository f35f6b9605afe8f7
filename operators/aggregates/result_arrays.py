"""Results as Arrow arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.columns.arrow import arrow_column, state_code
from operators.columns.ranges import Ints, State

_MOST_VALUES = 2**31


def list_array(name: str, values: pa.Array, rows: Ints | None, length: Ints) -> pa.Array:
    """Return lists of the values at `rows`, or of all in their order, with these lengths one after another.

    Raises:
        OverflowError: there are more values than a list column can hold.
    """
    offsets = _offsets(name, length)
    return pa.ListArray.from_arrays(offsets, values if rows is None else values_at(values, rows))


def map_array(name: str, keys: pa.Array, values: pa.Array, length: Ints) -> pa.Array:
    """Return maps of these entries, with these lengths one after another.

    Raises:
        OverflowError: there are more entries than a column can hold.
    """
    return pa.MapArray.from_arrays(_offsets(name, length), keys, values, type=pa.map_(keys.type, values.type))


def _offsets(name: str, length: Ints) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(length)])
    if offsets[-1] >= _MOST_VALUES:
        raise OverflowError(
            f"{name}: {offsets[-1]} values at once exceed the limit of a list column, {_MOST_VALUES}: "
            "use smaller windows or batches"
        )
    return pa.array(offsets, pa.int32())


def values_at(values: pa.Array, rows: Ints) -> pa.Array:
    """Return the values at these rows.

    Cost: with rows of 32 bits, Arrow takes texts in half the time that it takes with 64.
    """
    return values.take(pa.array(rows.astype(np.int32) if len(values) < _MOST_VALUES else rows))


def typed_values(values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    """Return Python values of a state as an Arrow column of the type; -0.0 becomes 0.0."""
    if not len(values):  # They may be of any dtype.
        return pa.array([], type_)
    dtype = {"i8": np.int64, "f8": np.float64}.get(state_code(type_))
    return arrow_column(values if dtype is None else one_zero(values.astype(dtype)), type_)


def values_with_nulls(values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    """Return Python values of a state, None among them, as an Arrow column of the type; -0.0 becomes 0.0."""
    missing = np.array([value is None for value in values.tolist()], bool)
    if not missing.any() or state_code(type_) == "object":
        return typed_values(values, type_)
    return pc.if_else(missing, None, typed_values(np.where(missing, 0, values), type_))


def one_zero(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values with -0.0 replaced by 0.0: the two are equal, but would be written as different values."""
    return values + 0.0 if values.dtype == np.float64 else values


def masked(type_: pa.DataType) -> Callable[[Sequence[State]], pa.Array]:
    """Return what makes results of a count and of values: null where the count is 0."""

    def finish(states: Sequence[State]) -> pa.Array:
        (count,), (values,) = states
        missing = count == 0
        return arrow_column(one_zero(values), type_, missing if missing.any() else None)

    return finish
