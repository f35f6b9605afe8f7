"""Common parts of custom aggregates and operators: the types of results, and fingerprints of functions."""

import hashlib
from typing import Any

import pyarrow as pa

from operators.errors import DefinitionError

_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def result_type(given: str | pa.DataType) -> pa.DataType:
    """Return the Arrow type of a result.

    Args:
        given: Spark's name of a simple type, "array<...>" of one, or an Arrow type.

    Raises:
        DefinitionError: the name is unknown; the message lists the known names.
    """
    if isinstance(given, pa.DataType):
        return given
    if not isinstance(given, str):
        raise DefinitionError(
            f"result type must be Spark's name of a type, such as 'bigint', or an Arrow type, got {given!r}"
        )
    name = given.strip().lower()
    if name.startswith("array<") and name.endswith(">"):
        return pa.list_(result_type(name[6:-1]))
    if name not in _TYPES:
        raise DefinitionError(
            f"unknown result type {given!r}; known are {', '.join(_TYPES)}, array<...> of these, and Arrow types"
        )
    return _TYPES[name]


def fingerprint(*values: Any) -> str:
    """Return a text that differs for functions with different code, and for objects that have such, within a session.

    A function that Spark sends to a worker twice becomes two objects. Their fingerprints, made on the driver, are equal.
    """
    from pyspark import cloudpickle

    pickled: bytes = cloudpickle.dumps(values)  # type: ignore[no-untyped-call]
    return hashlib.sha256(pickled).hexdigest()[:16]
