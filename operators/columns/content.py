"""An order of rows that follows from what they hold, for rows that arrive in any order."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from operators.columns.arrow import plain_array
from serializers.arrays import Ints, take_values

_WORD_BYTES = 8


def content_order(table: pa.Table, first: Sequence[str]) -> Ints:
    """Return the positions of rows in an order that is the same for the same set of rows.

    Rows are compared bit by bit, so that the order of those that it leaves as they came shows nowhere.

    Args:
        table: the rows.
        first: columns by which rows are sorted before the others, such as the event time. The order of a column's values is
            that of numbers and text where these are all that a column holds, otherwise any.

    Cost: a sort by the first column, and one by each other column of the rows that are equal in those before it.
    """
    order = np.arange(table.num_rows)
    run = np.zeros(table.num_rows, np.int64)
    for name in dict.fromkeys([*first, *table.column_names]):
        tied = _in_runs(run)
        if not len(tied):
            break
        rows = order[tied]
        keys = _sort_keys(plain_array(take_values(table.column(name), rows)))
        within = _order_by(run[tied], keys)
        order[tied] = rows[within]
        run[tied] = _starts(tied, run[tied], [key[within] for key in keys])
    return order


def _order_by(run: Ints, keys: list[npt.NDArray[np.int64]]) -> Ints:
    """The order of rows by run and keys; that of equal ones does not matter."""
    by = keys if keys and run[0] == run[-1] else [run, *keys]
    return np.argsort(by[0]) if len(by) == 1 else np.lexsort(by[::-1])


def _in_runs(run: Ints) -> Ints:
    """The positions that share their run with another one."""
    same = run[1:] == run[:-1]
    return np.flatnonzero(np.append(same, False) | np.append(False, same))


def _starts(at: Ints, run: Ints, keys: list[npt.NDArray[np.int64]]) -> Ints:
    """The run of each of these positions, named by where it begins: equal keys of what was one run."""
    new = np.ones(len(at), bool)
    new[1:] = run[1:] != run[:-1]
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return at[np.flatnonzero(new)][np.cumsum(new) - 1]


def _sort_keys(array: pa.Array) -> list[npt.NDArray[np.int64]]:
    """Whole numbers that are equal for values of equal bits only, those that count most first."""
    keys = []
    if array.null_count:
        keys.append(array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64))
    if pat.is_null(array.type):
        return keys
    if pat.is_struct(array.type):
        for child in array.flatten():
            keys += _sort_keys(plain_array(child))
        return keys
    if pat.is_map(array.type):
        entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "item"])
        return [*keys, _ranks(_as_bytes(array, entries))]
    if pat.is_list(array.type) or pat.is_large_list(array.type):
        return [*keys, _ranks(_as_bytes(array, array.values))]
    if pat.is_boolean(array.type):
        array = array.cast(pa.int8())
    if pat.is_primitive(array.type) or pat.is_decimal(array.type) or pat.is_fixed_size_binary(array.type):
        return [*keys, *_words(array)]
    return [*keys, _ranks(array)]


def _words(array: pa.Array) -> list[npt.NDArray[np.int64]]:
    """Values of a fixed width as numbers of 8 bytes or less."""
    width = array.type.bit_width // 8
    data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width :][: len(array) * width]
    if width in (1, 2, 4, _WORD_BYTES):
        words = [data.view(f"i{width}").astype(np.int64)]
    else:
        padded = np.zeros((len(array), -(-width // _WORD_BYTES) * _WORD_BYTES), np.uint8)
        padded[:, :width] = data.reshape(len(array), width)
        words = list(padded.view(np.int64).T)
    if not array.null_count:
        return words
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return [np.where(valid, word, 0) for word in words]


def _ranks(array: pa.Array) -> npt.NDArray[np.int64]:
    """The place of each value among all of them; 0 for null."""
    coded = array.dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    if not len(order):
        return np.zeros(len(array), np.int64)
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), rank[codes], 0)


def _as_bytes(array: pa.Array, values: pa.Array) -> pa.Array:
    """Lists as bytes: the sort keys of their values, one after another."""
    # One key at least, so that lists of nulls only differ by their length.
    keys = [np.ones(len(values), np.int64), *_sort_keys(plain_array(values))]
    data = np.ascontiguousarray(np.stack(keys, axis=1))
    width = data.shape[1] * _WORD_BYTES
    offsets = array.offsets.to_numpy().astype(np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    whole = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(array), buffers)
    if not array.null_count:
        return whole
    return pc.if_else(array.is_valid(), whole, pa.scalar(None, pa.large_binary()))
