"""Columns of entries as Arrow arrays: numbers as they are, objects as msgpack."""

import pyarrow as pa

from serializers.arrays import fill
from serializers.pages import Column
from serializers.values import pack_values, unpack_value

ARROW_TYPES = {"i8": pa.int64(), "f8": pa.float64(), "object": pa.binary()}
"""The type of a column in Arrow, by its code in a `PageLayout`."""


def to_arrow(column: Column) -> pa.Array:
    """Return a column as an array. O(rows), one Python call for each object."""
    if column.dtype == object:
        return pa.array(pack_values(column.tolist()), pa.binary())
    return pa.array(column)


def from_arrow(array: pa.ChunkedArray, code: str) -> Column:
    """Return the column that `to_arrow` was given.

    Args:
        array: the values.
        code: the code of the column in its `PageLayout`.

    Raises:
        CorruptDataError: an object cannot be read.
    """
    if code == "object":
        return fill([unpack_value(value) for value in array.to_pylist()])
    return array.to_numpy()
