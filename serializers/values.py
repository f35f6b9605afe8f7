"""One Python value as msgpack, with extension types for values that msgpack has no form for.

Extension codes: 1 date (days), 2 timestamp with zone (us, UTC), 3 timestamp without zone (us),
4 decimal (text), 5 interval (us), 6 integer beyond 64 bits (two's complement, big-endian), 7 time of day (us).
"""

import math
import struct
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgpack

from serializers.errors import CorruptDataError, SerializationError

_DATE, _INSTANT, _LOCAL, _DECIMAL, _INTERVAL, _BIG_INT, _TIME = range(1, 8)
_MICROSECOND = timedelta(microseconds=1)
_UTC_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LOCAL_EPOCH = datetime(1970, 1, 1)
_DAY_US = 86_400_000_000
_DATE_EPOCH = date(1970, 1, 1).toordinal()
_MOST_EXPONENT = 1_000_000
"""Beyond what Python computes with by default, and Spark has."""
_INT64 = struct.Struct(">q")


def _int64(code: int, number: int) -> msgpack.ExtType:
    if not -(2**63) <= number < 2**63:
        raise SerializationError(f"a time or interval of {number} us is beyond 64 bits and cannot be stored")
    return msgpack.ExtType(code, _INT64.pack(number))


def _of_bounded_exponent(value: Decimal) -> Decimal:
    """The number, unless it is one of few bytes that takes gigabytes as an integer."""
    if abs(value.adjusted()) > _MOST_EXPONENT:
        raise SerializationError(
            f"a decimal with the exponent {value.adjusted()} cannot be stored: at most {_MOST_EXPONENT}"
        )
    return value


def _extension(value: Any) -> msgpack.ExtType:
    if isinstance(value, datetime):
        code, epoch = (_LOCAL, _LOCAL_EPOCH) if value.tzinfo is None else (_INSTANT, _UTC_EPOCH)
        return _int64(code, (value - epoch) // _MICROSECOND)
    if isinstance(value, date):
        return _int64(_DATE, value.toordinal() - _DATE_EPOCH)
    if isinstance(value, Decimal):
        return msgpack.ExtType(_DECIMAL, str(_of_bounded_exponent(value)).encode())
    if isinstance(value, timedelta):
        return _int64(_INTERVAL, value // _MICROSECOND)
    if isinstance(value, time) and value.tzinfo is None:
        return _int64(_TIME, (datetime.combine(_LOCAL_EPOCH, value) - _LOCAL_EPOCH) // _MICROSECOND)
    if isinstance(value, int):
        return msgpack.ExtType(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    raise SerializationError(
        f"a value of type {type(value).__name__} cannot be stored: use None, bool, int, float, str, bytes, "
        "date, datetime, time, Decimal, timedelta, or lists, tuples and dicts of these"
    )


_READERS: dict[int, Callable[[bytes], Any]] = {
    _DATE: lambda data: date.fromordinal(_INT64.unpack(data)[0] + _DATE_EPOCH),
    _INSTANT: lambda data: _UTC_EPOCH + timedelta(microseconds=_INT64.unpack(data)[0]),
    _LOCAL: lambda data: _LOCAL_EPOCH + timedelta(microseconds=_INT64.unpack(data)[0]),
    _DECIMAL: lambda data: _of_bounded_exponent(Decimal(data.decode())),
    _INTERVAL: lambda data: timedelta(microseconds=_INT64.unpack(data)[0]),
    _BIG_INT: lambda data: int.from_bytes(data, "big", signed=True),
    _TIME: lambda data: _time_of_day(_INT64.unpack(data)[0]),
}


def _time_of_day(number: int) -> time:
    if not 0 <= number < _DAY_US:
        raise ValueError(f"a time of day of {number} us")
    return (_LOCAL_EPOCH + timedelta(microseconds=number)).time()


def _read_extension(code: int, data: bytes) -> Any:
    reader = _READERS.get(code)
    if reader is None:
        raise CorruptDataError(
            f"unknown msgpack extension {code}: the bytes were not written by this library"
        )
    return reader(data)


_TIMES = {_DATE, _INSTANT, _LOCAL}
_BELIEVES_COUNTS = msgpack.version < (1, 2, 4)
"""Older versions reserve memory for as many items as an array claims to have, up to the bytes of the data."""
_UNCHECKED_BYTES = 1_024
_UNREADABLE = (
    ValueError,
    TypeError,
    OverflowError,
    ArithmeticError,
    RecursionError,
    msgpack.UnpackException,
    struct.error,
)


def stored_times(
    numbers: Iterable[int | None], kind: type, zoned: bool = False
) -> list[msgpack.ExtType | None]:
    """Return dates and timestamps as they are packed, from numbers: also those that Python has no values for.

    Args:
        numbers: days or microseconds since 1970, or None.
        kind: date or datetime.
        zoned: whether the timestamps have a zone.
    """
    code = _DATE if kind is date else _INSTANT if zoned else _LOCAL
    return [None if number is None else msgpack.ExtType(code, _INT64.pack(number)) for number in numbers]


def _read_number(code: int, data: bytes) -> Any:
    return _INT64.unpack(data)[0] if code in _TIMES else _read_extension(code, data)


def _pack_big(value: Any) -> Any:
    """The value with every integer that msgpack cannot hold made an extension."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return _extension(value)
    if isinstance(value, list | tuple):
        return [_pack_big(item) for item in value]
    if isinstance(value, dict):
        return {key: _pack_big(item) for key, item in value.items()}
    return value


_FIRST_BYTES = 512
"""Of a packer's buffer, which grows with what is packed."""


def _packer() -> Any:
    """A packer for one call. While it packs, it calls Python, so that other threads run, and may pack with their own."""
    return msgpack.Packer(default=_extension, buf_size=_FIRST_BYTES)


def pack_value(value: Any) -> bytes:
    """Return the msgpack bytes of one value, which may nest. O(size).

    Raises:
        SerializationError: the value is of a type that has no stored form.
    """
    packer = _packer()
    try:
        return packer.pack(value)
    except OverflowError:
        return packer.pack(_pack_big(value))


def pack_values(values: Iterable[Any]) -> list[bytes]:
    """Return what `pack_value` returns for each value, in half the time if they are small.

    Raises:
        SerializationError: as in `pack_value`.
    """
    packer, packed = _packer(), list[bytes]()
    for value in values:
        try:
            packed.append(packer.pack(value))
        except OverflowError:
            packed.append(packer.pack(_pack_big(value)))
    return packed


def unpack_value(data: bytes, *, times_as_numbers: bool = False) -> Any:
    """Return the value that `pack_value` wrote; sequences come back as lists. O(size).

    Args:
        data: the bytes.
        times_as_numbers: whether dates and timestamps come back as days and microseconds since 1970.

    Raises:
        CorruptDataError: the bytes are truncated or not of this library.
    """
    try:
        if _BELIEVES_COUNTS and len(data) > _UNCHECKED_BYTES and (b"\xdc" in data or b"\xdd" in data):
            _check_counts(data)
        hook = _read_number if times_as_numbers else _read_extension
        return msgpack.unpackb(data, ext_hook=hook, strict_map_key=False)
    except _UNREADABLE as error:
        if isinstance(error, CorruptDataError):
            raise
        why = str(error) or type(error).__name__
        raise CorruptDataError(f"a stored value of {len(data)} bytes cannot be read: {why}") from error


def _check_counts(data: bytes) -> None:
    """Walk over the data, so that an array that claims more items than there are is found before memory is reserved for it.

    Arrays of up to 15 items, which have neither of the two bytes of others, claim too little to count, as do short values.
    """
    walker = msgpack.Unpacker(max_buffer_size=len(data))
    walker.feed(data)
    walker.skip()


def canonical(value: Any) -> Any:
    """Return the one form of values that count as equal in a group: one NaN, and no minus zero."""
    if isinstance(value, float):
        return math.nan if value != value else value + 0.0
    return value
