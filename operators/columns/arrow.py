"""Arrow columns as NumPy columns with a mask, and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from operators.columns.python_values import arrow_values, python_values
from serializers.arrays import fill, one_array
from serializers.errors import SerializationError

Ints = npt.NDArray[np.int64]
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ColumnData:
    """Values of one input column.

    Attributes:
        values: shape (n,): int64, float64, or objects; where not valid, the value is 0 or None.
        valid: shape (n,), bool, or None if no value is null.
    """

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None

    def take(self, rows: Ints) -> "ColumnData":
        """Return the values at these positions."""
        return ColumnData(self.values[rows], None if self.valid is None else self.valid[rows])

    def kept(self, mask: npt.NDArray[np.bool_]) -> "ColumnData":
        """Return the values under the mask; the others become null."""
        valid = mask if self.valid is None else self.valid & mask
        nothing = None if self.values.dtype == object else 0
        return ColumnData(np.where(valid, self.values, np.asarray(nothing, self.values.dtype)), valid)

    def filled(self, default: object) -> npt.NDArray[Any]:
        """Return the values, with `default` for null."""
        if self.valid is None:
            return self.values
        return np.where(self.valid, self.values, np.asarray(default, self.values.dtype))


def state_code(type_: pa.DataType) -> str:
    """Return how values of this Arrow type are held: "i8", "f8" or "object"."""
    if pat.is_floating(type_):
        return "f8"
    if pat.is_boolean(type_) or pat.is_integer(type_) or pat.is_date(type_) or pat.is_timestamp(type_):
        return "i8"
    return "i8" if pat.is_duration(type_) else "object"


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type as which columns of a type are read: the values of a dictionary, not a view, not a small decimal."""
    if pat.is_dictionary(type_):
        return plain_type(type_.value_type)
    if pat.is_string_view(type_):
        return pa.string()
    if pat.is_binary_view(type_):
        return pa.binary()
    if pat.is_decimal(type_) and type_.bit_width < 128:
        return pa.decimal128(type_.precision, type_.scale)
    return type_


def plain_table(table: pa.Table) -> pa.Table:
    """Return a table without types that few functions of Arrow support: views, and decimals of 32 and 64 bits."""
    for number, field in enumerate(table.schema):
        type_ = field.type.value_type if pat.is_dictionary(field.type) else field.type
        if plain_type(type_) != type_:
            chunks = [_plain_chunk(chunk, plain_type(type_)) for chunk in table.column(number).chunks]
            table = table.set_column(number, field.name, pa.chunked_array(chunks, plain_type(type_)))
    return table


def _plain_chunk(chunk: pa.Array, type_: pa.DataType) -> pa.Array:
    if pat.is_dictionary(chunk.type):
        return chunk.dictionary.cast(type_).take(chunk.indices)
    return chunk.cast(type_)


def plain_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array of plain values."""
    array = one_array(column)
    return array.cast(array.type.value_type) if pat.is_dictionary(array.type) else array


def canonical_floats(array: pa.Array) -> pa.Array:
    """Return an array in which equal floats have equal bits: one NaN, and no minus zero."""
    if not pat.is_floating(array.type):
        return array
    wide = pc.add(array.cast(pa.float64()), 0.0)
    return pc.if_else(pc.is_nan(wide), float("nan"), wide).cast(array.type)


def column_data(array: pa.Array | pa.ChunkedArray, name: str = "") -> ColumnData:
    """Return an Arrow column as NumPy values. O(n); objects cost a Python object each.

    Args:
        array: the column.
        name: its name, for errors.

    Raises:
        SerializationError: a column of uint64 has a number that no int64 holds.
    """
    array = plain_array(array)
    if pat.is_uint64(array.type) and (most := pc.max(array).as_py() or 0) > _INT64_MAX:
        raise SerializationError(
            f"column {name!r} of type uint64 has the number {most}, but values are stored as int64, up to {_INT64_MAX}: "
            "cast it to decimal128(20, 0) or to a string"
        )
    valid = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    code = state_code(array.type)
    if code == "object":
        return ColumnData(fill(python_values(array)), valid)
    words = _as_words(array, code)
    if valid is not None:
        words = pc.fill_null(words, 0)
    return ColumnData(words.to_numpy(zero_copy_only=False), valid)


def _as_words(array: pa.Array, code: str) -> pa.Array:
    if code == "f8":
        return array.cast(pa.float64())
    if pat.is_date32(array.type) or pat.is_time32(array.type):
        array = array.cast(pa.int32())
    return array.cast(pa.int64())


def arrow_column(
    values: npt.NDArray[Any], type_: pa.DataType, missing: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return NumPy values as an Arrow column of the type, null where `missing`."""
    if values.dtype == object:
        listed = values.tolist()
        if missing is not None:
            listed = [None if gone else value for value, gone in zip(listed, missing.tolist(), strict=True)]
        return arrow_values(listed, type_)
    words = pa.array(values, mask=missing)
    if words.type == type_:
        return words
    if pat.is_boolean(type_):
        return pc.not_equal(words, 0)
    if pat.is_date32(type_):
        words = words.cast(pa.int32())
    return words.cast(type_)


def to_unit(ticks: Ints, tick_us: int, unit: str) -> Ints:
    """Return ticks as numbers in a unit of Arrow's timestamps."""
    per_tick = {"s": 1e-6, "ms": 1e-3, "us": 1, "ns": 1_000}[unit] * tick_us
    return ticks * int(per_tick) if per_tick >= 1 else ticks // round(1 / per_tick)


def bounds_type(type_: pa.DataType, tick_us: int) -> pa.DataType:
    """Return a timestamp type like that of the event time, with a unit not coarser than ticks."""
    coarse = ("s", "ms") if tick_us == 1 else ("s",)
    tick_unit = "us" if tick_us == 1 else "ms"
    if pat.is_int64(type_):
        return pa.timestamp(tick_unit)
    return pa.timestamp(tick_unit if type_.unit in coarse else type_.unit, type_.tz)
