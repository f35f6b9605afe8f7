"""Nested values as JSON, for databases that have no such types."""

import base64
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_Plain = Callable[[Any], Any]


def json_text(column: pa.ChunkedArray) -> pa.Array:
    """Return nested values as JSON, value by value in Python.

    Floats that are not finite become the texts that Spark's `to_json` gives them, bytes base64, times ISO text,
    decimals and map keys text.
    """
    plain = _plain(column.type)
    values = [
        None if value is None else json.dumps(plain(value), ensure_ascii=False)
        for value in column.to_pylist()
    ]
    return pa.array(values, pa.string())


def inner_values(values: pa.Array) -> list[pa.Array]:
    """Return the arrays of the values that nested ones hold: the fields of structs, the elements of lists and maps."""
    if pat.is_struct(values.type):
        return values.flatten()
    if not pat.is_map(values.type):
        return [values.flatten()]
    offsets = values.offsets.to_numpy()
    return [part.slice(offsets[0], offsets[-1] - offsets[0]) for part in (values.keys, values.items)]


def lengths(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return the number of elements of each list or map, none of which is null."""
    if pat.is_map(values.type):
        return np.diff(values.offsets.to_numpy()).astype(np.int64)
    return pc.list_value_length(values).to_numpy(zero_copy_only=False).astype(np.int64)


def _plain(type_: pa.DataType) -> _Plain:
    """Return what makes a value of the type, or None, into one that JSON can hold."""
    of = _nested(type_) if pat.is_nested(type_) else _atomic(type_)
    return lambda value: None if value is None else of(value)


def _nested(type_: pa.DataType) -> _Plain:
    if pat.is_struct(type_):
        fields = {field.name: _plain(field.type) for field in type_}
        return lambda value: {name: of(value[name]) for name, of in fields.items()}
    if pat.is_map(type_):
        item = _plain(type_.item_type)
        return lambda value: {str(key): item(held) for key, held in value}
    element = _plain(type_.value_type)
    return lambda value: [element(one) for one in value]


def _atomic(type_: pa.DataType) -> _Plain:
    if pat.is_floating(type_):
        return lambda value: value if math.isfinite(value) else _NOT_FINITE[repr(value)]
    if pat.is_timestamp(type_) or pat.is_date(type_) or pat.is_time(type_):
        return lambda value: value.isoformat()
    if pat.is_binary(type_) or pat.is_large_binary(type_):
        return lambda value: base64.b64encode(value).decode()
    if pat.is_boolean(type_) or pat.is_integer(type_):
        return lambda value: value
    return str
