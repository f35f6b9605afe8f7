"""Keys of common types read as columns: all keys at once, column by column, instead of value by value.

A key is a byte of its version and a msgpack list (see `keys`). Here the bytes of all keys are one array. A column is read at
the place of each key where the column before has ended. What is not as expected is left to the reader of single keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from serializers.arrays import rows_between

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_MOST_COLUMNS = 15
"""Columns of a list whose length is in its first byte."""
_LIST, _NIL, _FALSE, _TRUE, _FLOAT = 0x90, 0xC0, 0xC2, 0xC3, 0xCB
_EXTENSION_8 = 0xD7
_DAYS, _INSTANT, _LOCAL = 1, 2, 3
_UNSIGNED, _SIGNED = (0xCC, 0xCD, 0xCE, 0xCF), (0xD0, 0xD1, 0xD2, 0xD3)
_TEXT, _BINARY = (0xD9, 0xDA, 0xDB), (0xC4, 0xC5, 0xC6)
_FIXED_TEXT, _FIXED_TEXT_BYTES = 0xA0, 32
_PADDING = 16


class _UnexpectedError(Exception):
    """A value is not of the column's type, or is cut off."""


def read_columns(keys: Sequence[bytes], types: Sequence[pa.DataType], version: int) -> list[pa.Array] | None:
    """Return the key columns; None if a type is not among those read here, or a key is not as expected.

    Args:
        keys: encoded keys.
        types: the types of the columns.
        version: the first byte of each key.

    Cost: O(bytes) array work, 0.1 to 0.3 us for each key.
    """
    if len(types) > _MOST_COLUMNS or not all(map(_is_read, types)):
        return None
    try:
        reader = _Reader.of(keys)
        reader.skip(bytes([version, _LIST | len(types)]))
        columns = [_column(reader, type_) for type_ in types]
    except (_UnexpectedError, pa.ArrowInvalid):
        return None
    return columns if reader.is_at_end else None


def _is_read(type_: pa.DataType) -> bool:
    return bool(
        (pat.is_integer(type_) and not pat.is_uint64(type_))
        or type_ in (pa.bool_(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())
        or (pat.is_timestamp(type_) and type_.unit == "us")
    )


@dataclass(slots=True)
class _Reader:
    """Reads one value of each key at a time.

    Attributes:
        data: the bytes of all keys, and some more.
        at: shape (keys,), int64: where the next value begins.
        end: shape (keys,), int64: where each key ends.
    """

    data: Bytes
    at: Ints
    end: Ints
    _every: Ints = field(init=False)

    def __post_init__(self) -> None:
        self._every = np.arange(len(self.at))

    @classmethod
    def of(cls, keys: Sequence[bytes]) -> "_Reader":
        """Return a reader at the first byte of each key."""
        data = np.frombuffer(b"".join([*keys, bytes(_PADDING)]), np.uint8)
        lengths = np.fromiter(map(len, keys), np.int64, len(keys))
        end = np.cumsum(lengths)
        return cls(data, end - lengths, end)

    @property
    def is_at_end(self) -> bool:
        """Whether nothing of any key is left."""
        return bool((self.at == self.end).all())

    def skip(self, expected: bytes) -> None:
        """Go on after bytes that all keys have here."""
        for byte in expected:
            self._require(self.at < self.end)
            self._require(self.data[self.at] == byte)
            self.at = self.at + 1

    def tags(self) -> Bytes:
        """Return the first byte of each value."""
        self._require(self.at < self.end)
        return self.data[self.at]

    def forward(self, size: Ints | int) -> None:
        """Go on after values of so many bytes."""
        self.at = self.at + size
        self._require(self.at <= self.end)

    def numbers(self, rows: Ints, size: int, shift: int = 1) -> Ints:
        """Return the unsigned big-endian numbers of `size` bytes, `shift` bytes after the place of these keys, as bits."""
        at = self.at[rows] + shift
        self._require(at + size <= self.end[rows])
        found = np.zeros(len(rows), np.uint64)
        for byte in range(size):
            found = (found << np.uint64(8)) | self.data[at + byte]
        return found.view(np.int64)

    @staticmethod
    def _require(right: Mask | np.bool_) -> None:
        if not right.all():
            raise _UnexpectedError

    def rows(self, chosen: Mask) -> Ints:
        """Return the positions of keys under a mask."""
        return self._every if chosen.all() else np.flatnonzero(chosen)


def _column(reader: _Reader, type_: pa.DataType) -> pa.Array:
    if pat.is_integer(type_):
        return _integers(reader).cast(type_)
    if pat.is_floating(type_):
        return _floats(reader).cast(type_)
    if pat.is_boolean(type_):
        return _booleans(reader)
    if pat.is_date(type_):
        return _times(reader, _DAYS).cast(pa.int32()).cast(type_)
    if pat.is_timestamp(type_):
        return _times(reader, _LOCAL if type_.tz is None else _INSTANT).cast(type_)
    return _texts(reader, type_)


def _integers(reader: _Reader) -> pa.Array:
    tags = reader.tags()
    values = tags.view(np.int8).astype(np.int64)
    size = np.ones(len(tags), np.int64)
    plain = (tags < 0x80) | (tags >= 0xE0) | (tags == _NIL)
    for power in range(4):
        wide = 1 << power
        for signed, tag in ((False, _UNSIGNED[power]), (True, _SIGNED[power])):
            rows = reader.rows(tags == tag)
            if not len(rows):
                continue
            plain[rows] = True
            found = reader.numbers(rows, wide)
            if wide == 8 and not signed and (found < 0).any():
                raise _UnexpectedError
            values[rows] = _with_sign(found, 8 * wide) if signed else found
            size[rows] = 1 + wide
    if not plain.all():
        raise _UnexpectedError
    reader.forward(size)
    return _array(values, tags == _NIL)


def _with_sign(values: Ints, bits: int) -> Ints:
    shift = np.int64(64 - bits)
    return (values << shift) >> shift


def _floats(reader: _Reader) -> pa.Array:
    values, null = _eights(reader, bytes([_FLOAT]))
    return _array(values.view(np.float64), null)


def _times(reader: _Reader, code: int) -> pa.Array:
    values, null = _eights(reader, bytes([_EXTENSION_8, code]))
    return _array(values, null)


def _eights(reader: _Reader, head: bytes) -> tuple[Ints, Mask]:
    """Values of eight bytes after the same head, and which are null."""
    null = reader.tags() == _NIL
    values = np.zeros(len(null), np.int64)
    rows = reader.rows(~null)
    for shift, byte in enumerate(head):
        if (reader.numbers(rows, 1, shift) != byte).any():
            raise _UnexpectedError
    values[rows] = reader.numbers(rows, 8, len(head))
    reader.forward(np.where(null, 1, len(head) + 8))
    return values, null


def _booleans(reader: _Reader) -> pa.Array:
    tags = reader.tags()
    null = tags == _NIL
    if not (null | (tags == _FALSE) | (tags == _TRUE)).all():
        raise _UnexpectedError
    reader.forward(1)
    return _array(tags == _TRUE, null)


def _texts(reader: _Reader, type_: pa.DataType) -> pa.Array:
    """Text or bytes: a head with the length, then the content."""
    tags = reader.tags()
    null, head = tags == _NIL, np.ones(len(tags), np.int64)
    length, known = np.zeros(len(tags), np.int64), null.copy()
    if pat.is_string(type_):
        fixed = (tags & ~np.uint8(_FIXED_TEXT_BYTES - 1)) == _FIXED_TEXT
        length[fixed] = tags[fixed] - _FIXED_TEXT
        known |= fixed
    for power, tag in enumerate(_TEXT if pat.is_string(type_) else _BINARY):
        rows = reader.rows(tags == tag)
        if len(rows):
            length[rows], head[rows], known[rows] = reader.numbers(rows, 1 << power), 1 + (1 << power), True
    begin = reader.at + head
    reader.forward(head + length)
    if not known.all() or int(length.sum()) > np.iinfo(np.int32).max:
        raise _UnexpectedError
    offsets = np.zeros(len(length) + 1, np.int32)
    np.cumsum(length, out=offsets[1:])
    content = reader.data[rows_between(begin, length)]
    valid = pa.array(~null).buffers()[1] if null.any() else None
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(content)]
    array = pa.Array.from_buffers(type_, len(length), buffers)
    array.validate(full=True)
    return array


def _array(values: npt.NDArray[np.generic], null: Mask) -> pa.Array:
    return pa.array(values, mask=null if null.any() else None)
