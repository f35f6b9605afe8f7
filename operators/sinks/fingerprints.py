"""Numbers that tell a batch from another one which has the same query and number."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from operators.sinks.nested import inner_values, lengths
from serializers.arrays import take_rows

_BYTES = 8
_ROWS = 1 << 16
"""Rows that are read at a time."""


def fingerprint_of(text: str) -> int:
    """Return the fingerprint of a text, such as the id of a query: a number of 63 bits."""
    return _number(hashlib.blake2b(text.encode(), digest_size=_BYTES))


def fingerprint_of_rows(deletes: pa.Table, upserts: pa.Table) -> int:
    """Return the fingerprint of a batch's rows: the same for the same rows, in whatever order rows and columns come.

    Args:
        deletes: keys; all columns are the key.
        upserts: rows, no two of one key.
    """
    digest = hashlib.blake2b(digest_size=_BYTES)
    for table in (deletes, upserts):
        order = pc.sort_indices(table, [(key, "ascending") for key in sorted(deletes.column_names)])
        _add(digest, take_rows(table, order.to_numpy()))
    return _number(digest)


def _number(digest: "hashlib.blake2b") -> int:
    return int.from_bytes(digest.digest(), "big") >> 1


def _add(digest: "hashlib.blake2b", table: pa.Table) -> None:
    names = sorted(table.column_names)
    digest.update(repr((table.num_rows, names)).encode())
    for name in names:
        column = table.column(name)
        if _is_text(column.type):
            column = column.cast(pa.large_binary())  # parts of any size can be put together
        for start in range(0, table.num_rows, _ROWS):
            _add_values(digest, column.slice(start, _ROWS).combine_chunks())


def _is_text(type_: pa.DataType) -> bool:
    """Whether values of the type have a length each."""
    kinds = pat.is_string, pat.is_large_string, pat.is_binary, pat.is_large_binary
    return any(is_kind(type_) for is_kind in kinds)


def _add_values(digest: "hashlib.blake2b", column: pa.Array) -> None:
    """Add which values are null, and the others: what Arrow has in the place of a null may be anything."""
    digest.update(np.packbits(column.is_valid().to_numpy(zero_copy_only=False)).tobytes())
    values = column.drop_null()
    type_ = values.type
    if not len(values):
        return
    if pat.is_nested(type_):
        if not pat.is_struct(type_):
            digest.update(lengths(values).tobytes())
        for part in inner_values(values):
            _add_values(digest, part)
    elif _is_text(type_):
        _add_bytes(digest, values.cast(pa.large_binary()))
    elif pat.is_boolean(type_):
        digest.update(np.packbits(values.to_numpy(zero_copy_only=False)).tobytes())
    else:
        width = type_.bit_width // 8
        digest.update(
            memoryview(values.buffers()[1])[values.offset * width : (values.offset + len(values)) * width]
        )


def _add_bytes(digest: "hashlib.blake2b", values: pa.LargeBinaryArray) -> None:
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, np.int64)[values.offset : values.offset + len(values) + 1]
    digest.update(np.diff(offsets).tobytes())
    digest.update(memoryview(data or b"")[offsets[0] : offsets[-1]])
