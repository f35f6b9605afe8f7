"""Grouping keys as bytes: a version byte, then the msgpack list of the key's columns.

Two keys are the same bytes exactly if Spark's GROUP BY puts them in one group: null equals null and
nothing else, NaN equals NaN, and -0.0 equals 0.0.
"""

import hashlib
import zlib
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from serializers.errors import CorruptDataError, NewerFormatError, SerializationError
from serializers.key_reading import read_columns
from serializers.key_writing import write_columns
from serializers.shapes import short
from serializers.values import canonical, pack_value, pack_values, stored_times, unpack_value

KEY_VERSION = 1
_PREFIX = bytes([KEY_VERSION])
_MANY = 64
"""Keys from which on it takes less time to read and write them as columns."""
NO_COLUMNS = _PREFIX + pack_value([])
"""The one key of an operator that groups by nothing."""
_LONGEST_STORED = 256
_HASHED = b"\xff"
"""How the hash of a long key begins: no key does."""


def encode_keys(columns: Sequence[pa.Array]) -> list[bytes]:
    """Return one key per row of the given columns. O(bytes), for decimals one Python call for each row: pass distinct rows.

    Args:
        columns: key columns of any atomic type, all of the same length.

    Raises:
        SerializationError: a column of nanoseconds or times of day, which Spark does not have; or a time that is beyond 64
            bits in microseconds.
    """
    if columns and len(columns[0]) >= _MANY:
        plain = [_microseconds(column) if _is_time(column.type) else column for column in columns]
        if (written := write_columns(plain, KEY_VERSION)) is not None:
            return written
    lists = [_python_values(column) for column in columns]
    return [_PREFIX + row for row in pack_values(zip(*lists, strict=True))]


def _python_values(column: pa.Array) -> list[Any]:
    type_ = column.type
    if pat.is_time(type_) or (pat.is_temporal(type_) and getattr(type_, "unit", "us") == "ns"):
        raise SerializationError(
            f"a key column of type {type_} cannot be stored: cast it to microseconds or to text"
        )
    # As numbers: Python's dates end at the year 9999, those of Spark do not.
    if pat.is_date(type_):
        return stored_times(column.cast(pa.date32()).cast(pa.int32()).to_pylist(), date)
    if pat.is_timestamp(type_):
        numbers = _microseconds(column).cast(pa.int64()).to_pylist()
        return stored_times(numbers, datetime, zoned=type_.tz is not None)
    if pat.is_floating(column.type):
        return [canonical(value) for value in column.to_pylist()]
    return column.to_pylist()


def _is_time(type_: pa.DataType) -> bool:
    """Whether it is a timestamp that can be stored."""
    return pat.is_timestamp(type_) and type_.unit != "ns"


def _microseconds(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.timestamp("us", column.type.tz))
    except pa.ArrowInvalid as error:
        raise SerializationError(
            f"a key column of type {column.type} has a time that is beyond 64 bits in microseconds and cannot be stored"
        ) from error


def stored_key(key: bytes) -> bytes:
    """Return the key as tables have it in their index: a long one as its SHA-256, since indexes have limits."""
    return key if len(key) <= _LONGEST_STORED else _HASHED + hashlib.sha256(key).digest()


def bucket_of(key: bytes, buckets: int) -> int:
    """Return the bucket of a key: each has a range of CRC-32, so that the keys of a bucket are next to one another by it."""
    return zlib.crc32(key) * buckets >> 32


def crc_range(bucket: int, buckets: int) -> tuple[int, int]:
    """Return the CRC-32s of the keys of a bucket, from the first to the one after the last."""
    low, high = ((number << 32) + buckets - 1 for number in (bucket, bucket + 1))
    return low // buckets, high // buckets


def decode_keys(keys: Sequence[bytes], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return the key columns, in the order and of the types given. O(bytes), for decimals one Python call for each key.

    Raises:
        NewerFormatError: a newer version wrote a key.
        CorruptDataError: the bytes are not a key of that many columns.
    """
    if len(keys) >= _MANY and (found := read_columns(keys, types, KEY_VERSION)) is not None:
        return found
    rows = [_decode_key(key, len(types)) for key in keys]
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return [_column(column, type_) for column, type_ in zip(columns, types, strict=True)]


def _column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    try:
        return _as_type(values, type_)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise CorruptDataError(f"a stored key has a value that is not of type {type_}: {error}") from error


def _as_type(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if pat.is_date(type_):
        return pa.array(values, pa.int32()).cast(pa.date32()).cast(type_)
    if pat.is_timestamp(type_):
        return pa.array(values, pa.int64()).cast(pa.timestamp("us", type_.tz)).cast(type_)
    return pa.array(values, type_)


def _decode_key(key: bytes, width: int) -> list[Any]:
    if not key or key[0] != KEY_VERSION:
        if key and key[0] > KEY_VERSION:
            raise NewerFormatError("a stored key", key[0], KEY_VERSION)
        raise CorruptDataError(f"the bytes are not a stored key: {key[:16]!r}")
    row = unpack_value(key[1:], times_as_numbers=True)
    if not isinstance(row, list) or len(row) != width:
        raise CorruptDataError(
            f"a stored key does not have the {width} columns of this operator: {short(row)}"
        )
    return row
