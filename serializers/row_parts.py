"""The buffers of Arrow arrays by row: what each row has of them, and arrays from what rows have.

A buffer of fixed width gives each row so many bytes; any other gives each row bytes of its own length. A column has a byte for
each row that says whether its value is valid; then its values; a struct has the buffers of its fields; and a list the number
of its elements and, of each buffer that the elements have, the part of the row.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

COUNT = 4
"""Bytes of a length."""
MOST_BYTES = 2**31 - 1
Bytes = npt.NDArray[np.uint8]
Part: TypeAlias = Bytes | pa.LargeBinaryArray
"""One buffer of a column by row: bytes of one width, of shape (rows, width), or of any length."""


def unstorable(type_: pa.DataType) -> str | None:
    """Return what has no stored form in a type, or None."""
    if pat.is_struct(type_):
        inner = (unstorable(field.type) for field in type_)
        return (
            next(filter(None, inner), None)
            if type_.num_fields
            else "a struct without fields, or a type that Arrow lacks,"
        )
    if pat.is_map(type_):
        return unstorable(type_.key_type) or unstorable(type_.item_type)
    if pat.is_list(type_):
        return unstorable(type_.value_type)
    fixed = (
        pat.is_null(type_)
        or _is_text(type_)
        or pat.is_fixed_size_binary(type_)
        or _fixed_width(type_) is not None
    )
    return None if fixed else str(type_)


def _is_text(type_: pa.DataType) -> bool:
    return any(of(type_) for of in (pat.is_string, pat.is_large_string, pat.is_binary, pat.is_large_binary))


def _fixed_width(type_: pa.DataType) -> int | None:
    """Bytes of a value, or None if values have no fixed width."""
    if pat.is_boolean(type_):
        return 1
    if pat.is_nested(type_) or pat.is_dictionary(type_) or isinstance(type_, pa.BaseExtensionType):
        return None
    try:
        return int(type_.bit_width) // 8
    except ValueError:
        return None


def _elements(type_: pa.DataType) -> pa.DataType:
    """The type of the elements of a list; those of a map are its pairs."""
    return pa.struct([type_.key_field, type_.item_field]) if pat.is_map(type_) else type_.value_type


def widths_of(type_: pa.DataType) -> list[int | None]:
    """Return the width of each buffer of a type by row, None where rows differ."""
    if pat.is_null(type_):
        return []
    if _is_text(type_):
        return [1, None]
    if pat.is_struct(type_):
        return [1, *(width for field in type_ for width in widths_of(field.type))]
    if pat.is_list(type_) or pat.is_map(type_):
        inner = widths_of(_elements(type_))
        return [1, COUNT, *(None for width in inner for _ in range(1 if width is not None else 2))]
    return [1, _fixed_width(type_)]


def parts_of(array: pa.Array, type_: pa.DataType) -> Iterator[Part]:
    """Yield the buffers of an array by row, as `widths_of` lists them."""
    if pat.is_null(type_):
        return
    valid = np.ones(len(array), np.uint8) if not array.null_count else _numpy(array.is_valid()).view(np.uint8)
    yield valid.reshape(-1, 1)
    if _is_text(type_):
        yield _binary(array)
    elif pat.is_struct(type_):
        for child, field in zip(array.flatten(), type_, strict=True):
            yield from parts_of(child, field.type)
    elif pat.is_list(type_) or pat.is_map(type_):
        yield from _list_parts(array, _elements(type_))
    else:
        yield _fixed(array, type_)


def _list_parts(array: pa.Array, elements: pa.DataType) -> Iterator[Part]:
    offsets = _numpy(array.offsets).astype(np.int64)
    counts = np.diff(offsets)
    if array.null_count and counts[_numpy(array.is_null())].any():
        # What lies behind a null is not of the row.
        array = array.take(pa.array(np.arange(len(array))))
        offsets = _numpy(array.offsets).astype(np.int64)
        counts = np.diff(offsets)
    yield bytes_of(counts.astype("<u4"), COUNT)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    values = (array.values if not pat.is_map(array.type) else _pairs(array, elements)).slice(
        first, last - first
    )
    offsets = offsets - first
    for part in parts_of(values, elements):
        if isinstance(part, np.ndarray):
            yield _cut(np.ascontiguousarray(part), offsets * part.shape[1])
        else:
            inner = offsets_of(part)
            lengths = np.diff(inner).astype("<u4")
            yield _cut(lengths, offsets * COUNT)
            data = np.frombuffer(part.buffers()[2] or b"", np.uint8)
            yield _cut(data, inner[offsets])


def _pairs(array: pa.MapArray, elements: pa.DataType) -> pa.StructArray:
    """The keys and values of all maps as structs, at the positions that the offsets count, whatever slice this is."""
    return pa.StructArray.from_arrays([array.keys, array.items], fields=list(elements))


def _numpy(array: pa.Array) -> npt.NDArray[Any]:
    return array.to_numpy(zero_copy_only=False)


def bytes_of(values: npt.NDArray[Any], width: int) -> Bytes:
    """Return values as bytes, so many for each row."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1, width)


def _fixed(array: pa.Array, type_: pa.DataType) -> Bytes:
    """The values of an array as bytes; those of null are of no meaning."""
    if pat.is_boolean(type_):
        return _numpy(array.fill_null(False)).astype(np.uint8).reshape(-1, 1)
    width, data = _fixed_width(type_) or 0, array.buffers()[1]
    if data is None or not width:
        return np.zeros((len(array), width), np.uint8)
    whole = np.frombuffer(data, np.uint8)
    return whole[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)


def _binary(array: pa.Array) -> pa.LargeBinaryArray:
    """Text or bytes as bytes of any length, empty for null."""
    wide = (
        pa.large_string()
        if pat.is_string(array.type) or pat.is_large_string(array.type)
        else pa.large_binary()
    )
    large = array.cast(wide)
    if large.null_count:
        large = pc.fill_null(large, b"" if wide == pa.large_binary() else "")
    return large.cast(pa.large_binary())


def offsets_of(array: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """Return where each value begins in the array's bytes, and where the last one ends."""
    if not len(array):
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]


def _cut(data: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> pa.LargeBinaryArray:
    """Bytes cut at offsets."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def join(parts: Sequence[pa.LargeBinaryArray], rows: int) -> tuple[memoryview | None, npt.NDArray[np.int64]]:
    """Return the variable parts row by row, and where each row begins and the last one ends; None if there are none."""
    if not parts:
        return None, np.zeros(rows + 1, np.int64)
    whole = (
        parts[0]
        if len(parts) == 1
        else pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))
    )
    return memoryview(whole.buffers()[2] or b""), offsets_of(whole)


def cells_of(data: memoryview, lengths: npt.NDArray[np.uint32]) -> Iterator[pa.LargeBinaryArray]:
    """Yield the variable parts of rows, given one row after another."""
    rows, parts = lengths.shape
    if not parts:
        return
    offsets = np.zeros(rows * parts + 1, np.int64)
    np.cumsum(lengths.reshape(-1), out=offsets[1:])
    cells = _cut(np.frombuffer(data, np.uint8), offsets)
    for part in range(parts):
        yield cells if parts == 1 else cells.take(pa.array(np.arange(rows) * parts + part))


def array_of(type_: pa.DataType, rows: int, parts: Iterator[Part]) -> pa.Array:
    """Return the array of so many rows that `parts_of` gave these buffers of."""
    if pat.is_null(type_):
        # Not pa.nulls, which reserves a bit for each: any number of these rows has no bytes.
        return pa.Array.from_buffers(type_, rows, [None])
    flags = _next_fixed(parts)
    valid = None if flags.all() else pa.py_buffer(np.packbits(flags.reshape(-1), bitorder="little"))
    if _is_text(type_):
        return _text(type_, rows, valid, _next_variable(parts))
    if pat.is_struct(type_):
        children = [array_of(field.type, rows, parts) for field in type_]
        return pa.Array.from_buffers(type_, rows, [valid], children=children)
    if pat.is_list(type_) or pat.is_map(type_):
        return _list(type_, rows, valid, parts)
    values = _next_fixed(parts)
    bits = pat.is_boolean(type_)
    data = np.packbits(values.reshape(-1), bitorder="little") if bits else np.ascontiguousarray(values)
    return pa.Array.from_buffers(type_, rows, [valid, pa.py_buffer(data)])


def _next_fixed(parts: Iterator[Part]) -> Bytes:
    part = next(parts)
    assert isinstance(part, np.ndarray)  # noqa: S101 - the widths say so
    return part


def _next_variable(parts: Iterator[Part]) -> pa.LargeBinaryArray:
    part = next(parts)
    assert not isinstance(part, np.ndarray)  # noqa: S101 - the widths say so
    return part


def _text(type_: pa.DataType, rows: int, valid: pa.Buffer | None, cells: pa.LargeBinaryArray) -> pa.Array:
    offsets = offsets_of(cells)
    if not (pat.is_large_string(type_) or pat.is_large_binary(type_)):
        if int(offsets[-1]) > MOST_BYTES:
            raise ValueError(f"{int(offsets[-1])} bytes at once are more than a column of {type_} can hold")
        offsets = offsets.astype(np.int32)
    array = pa.Array.from_buffers(
        type_,
        rows,
        [valid, pa.py_buffer(np.ascontiguousarray(offsets)), cells.buffers()[2] or pa.py_buffer(b"")],
    )
    array.validate(full=True)
    return array


def _list(type_: pa.DataType, rows: int, valid: pa.Buffer | None, parts: Iterator[Part]) -> pa.Array:
    counts = np.ascontiguousarray(_next_fixed(parts)).view("<u4").reshape(-1).astype(np.int64)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    elements, total = _elements(type_), int(offsets[-1])
    if total > MOST_BYTES:
        raise ValueError(f"{total} elements at once are more than a column of {type_} can hold")
    child = array_of(elements, total, _element_parts(widths_of(elements), total, parts))
    if pat.is_map(type_) and (child.null_count or child.field(0).null_count):
        raise ValueError(f"a key of {type_} is null")
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(type_, rows, buffers, children=[child])


def _element_parts(widths: Sequence[int | None], elements: int, parts: Iterator[Part]) -> Iterator[Part]:
    """The buffers of all elements of lists from those by row."""
    for width in widths:
        if width is not None:
            yield _whole(_next_variable(parts), elements * width).reshape(elements, width)
            continue
        lengths = _whole(_next_variable(parts), elements * COUNT).view("<u4").astype(np.int64)
        offsets = np.zeros(elements + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        yield _cut(_whole(_next_variable(parts), int(offsets[-1])), offsets)


def _whole(cells: pa.LargeBinaryArray, size: int) -> Bytes:
    """All bytes of cells one after another, so many as there must be."""
    offsets = offsets_of(cells)
    first, last = int(offsets[0]), int(offsets[-1])
    if last - first != size:
        raise ValueError(f"{last - first} bytes of elements, where {size} belong")
    data = cells.buffers()[2]
    return np.frombuffer(data, np.uint8)[first:last] if size and data is not None else np.empty(0, np.uint8)
