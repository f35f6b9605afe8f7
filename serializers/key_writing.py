"""Keys of common types written as columns: the msgpack bytes of all keys at once, column by column.

The bytes are those of the writer of single keys, so that a key is the same whatever wrote it (see `keys`).
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_BYTES = pa.large_binary()
_MOST_COLUMNS = 15
_LIST, _NIL, _FALSE, _FLOAT, _EXTENSION_8 = 0x90, 0xC0, 0xC2, 0xCB, 0xD7
_DAYS, _INSTANT, _LOCAL = 1, 2, 3
_UNSIGNED, _SIGNED = (0xCC, 0xCD, 0xCE, 0xCF), (0xD0, 0xD1, 0xD2, 0xD3)
_WITHIN = ((-32, 127), (-(2**7), 2**8 - 1), (-(2**15), 2**16 - 1), (-(2**31), 2**32 - 1))
"""The least and the greatest number that needs fewer than 1, 2, 4 and 8 bytes after its tag."""
_TEXT, _BINARY = (0xD9, 0xDA, 0xDB), (0xC4, 0xC5, 0xC6)
_FIXED_TEXT, _FIXED_TEXT_BYTES = 0xA0, 32


def write_columns(columns: Sequence[pa.Array], version: int) -> list[bytes] | None:
    """Return one key per row; None if a type is not among those written here.

    Args:
        columns: key columns of one length, at least one; timestamps in microseconds.
        version: the first byte of each key.

    Cost: O(bytes) array work, about 0.1 us for each key.
    """
    writers = [_writer(column.type) for column in columns]
    if not columns or len(columns) > _MOST_COLUMNS or None in writers:
        return None
    head = pa.scalar(bytes([version, _LIST | len(columns)]), _BYTES)
    parts = [write(column) for write, column in zip(writers, columns, strict=True) if write is not None]
    return pc.binary_join_element_wise(head, *parts, pa.scalar(b"", _BYTES)).to_pylist()


def _writer(type_: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    if pat.is_integer(type_) and not pat.is_uint64(type_):
        return _integers
    if pat.is_float32(type_) or pat.is_float64(type_):
        return _floats
    if pat.is_string(type_) or pat.is_binary(type_):
        return _texts
    if pat.is_boolean(type_):
        return _booleans
    if pat.is_date32(type_) or (pat.is_timestamp(type_) and type_.unit == "us"):
        return _times
    return None


def _plain(column: pa.Array, type_: pa.DataType, zero: object) -> tuple[npt.NDArray[np.generic], Mask]:
    """The values, and which of them are null; null is any value."""
    null = column.is_null().to_numpy(zero_copy_only=False)
    filled = column.cast(type_)
    return (filled.fill_null(zero) if column.null_count else filled).to_numpy(zero_copy_only=False), null


def _integers(column: pa.Array) -> pa.Array:
    plain, null = _plain(column, pa.int64(), 0)
    values = plain.view(np.int64)
    tags = values.astype(np.uint8)
    width = np.zeros(len(values), np.int64)
    for power, (least, most) in enumerate(_WITHIN):
        above, beneath = values > most, values < least
        tags[above], tags[beneath] = _UNSIGNED[power], _SIGNED[power]
        width[above | beneath] = 1 << power
    tags[null], width[null] = _NIL, 0
    return _tag(tags[:, None], values, width)


def _tag(heads: npt.NDArray[np.uint8], values: Ints, width: Ints) -> pa.Array:
    """Bytes of values: a head of some bytes, then the last `width` bytes of the big-endian number."""
    size = heads.shape[1]
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(width + size, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    begin = offsets[:-1]
    for byte in range(size):
        data[begin + byte] = heads[:, byte]
    for wide in (1, 2, 4, 8):
        rows = np.flatnonzero(width == wide)
        at, chosen = begin[rows] + size, values[rows].view(np.uint64)
        for byte in range(wide if len(rows) else 0):
            data[at + byte] = (chosen >> np.uint64(8 * (wide - 1 - byte))).astype(np.uint8)
    return pa.Array.from_buffers(_BYTES, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _floats(column: pa.Array) -> pa.Array:
    plain, null = _plain(column, pa.float64(), 0.0)
    values = plain.view(np.float64) + 0.0
    values[np.isnan(values)] = np.nan
    return _eights(values.view(np.int64), null, bytes([_FLOAT]))


def _times(column: pa.Array) -> pa.Array:
    if pat.is_date32(column.type):
        plain, null = _plain(column.cast(pa.int32()), pa.int64(), 0)
        return _eights(plain.view(np.int64), null, bytes([_EXTENSION_8, _DAYS]))
    plain, null = _plain(column, pa.int64(), 0)
    code = _LOCAL if column.type.tz is None else _INSTANT
    return _eights(plain.view(np.int64), null, bytes([_EXTENSION_8, code]))


def _eights(values: Ints, null: Mask, head: bytes) -> pa.Array:
    """Bytes of values of eight bytes after the same head; null has no more than its own byte."""
    heads = np.tile(np.frombuffer(head, np.uint8), (len(values), 1))
    found = _tag(heads, values, np.full(len(values), 8))
    return pc.if_else(pa.array(null), pa.scalar(bytes([_NIL]), _BYTES), found) if null.any() else found


def _booleans(column: pa.Array) -> pa.Array:
    plain, null = _plain(column, pa.bool_(), False)
    tags = plain.astype(np.uint8) + np.uint8(_FALSE)
    tags[null] = _NIL
    return _tag(tags[:, None], np.zeros(len(tags), np.int64), np.zeros(len(tags), np.int64))


def _texts(column: pa.Array) -> pa.Array:
    """Text or bytes: a head with the length, then the content."""
    lengths = pc.binary_length(column).dictionary_encode(null_encoding="encode")
    head = _text_head if pat.is_string(column.type) else _binary_head
    heads = pa.array([head(length) for length in lengths.dictionary.to_pylist()], _BYTES)
    content = column.cast(pa.binary()).cast(_BYTES)
    return pc.binary_join_element_wise(
        heads.take(lengths.indices), content.fill_null(b""), pa.scalar(b"", _BYTES)
    )


def _text_head(length: int | None) -> bytes:
    if length is not None and length < _FIXED_TEXT_BYTES:
        return bytes([_FIXED_TEXT | length])
    return _head(length, _TEXT)


def _binary_head(length: int | None) -> bytes:
    return _head(length, _BINARY)


def _head(length: int | None, tags: Sequence[int]) -> bytes:
    """The tag for a length and the length, or that of null."""
    if length is None:
        return bytes([_NIL])
    power = 0 if length < 1 << 8 else 1 if length < 1 << 16 else 2
    return bytes([tags[power]]) + length.to_bytes(1 << power, "big")
