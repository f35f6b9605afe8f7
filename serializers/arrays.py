"""Arrays of any content and any size. An array of text or bytes holds 2 GiB, so what is larger is computed in pieces."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

Ints = npt.NDArray[np.int64]
PIECE_BYTES = 1 << 30
"""What an array is made of at once at most, in bytes; a row that is larger is a piece of its own."""


def joined_words(
    stored: Sequence[bytes],
) -> tuple[npt.NDArray[np.uint32], Ints, Ints]:
    """Return the words of 32 bits of all sketches one after another, where each begins, and how many it has.

    Raises:
        ValueError: a sketch does not consist of words.
    """
    size = np.fromiter(map(len, stored), np.int64, len(stored))
    if (size % 4).any():
        raise ValueError("a sketch of a length that is not divisible by 4")
    size //= 4
    return np.frombuffer(b"".join(stored), "<u4"), np.cumsum(size) - size, size


def fill(values: Sequence[object]) -> npt.NDArray[np.object_]:
    """Return a one-dimensional object array of the values, lists among them left whole. O(n)."""
    return np.fromiter(values, object, len(values))


def rows_between(begins: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rows of runs, one after another: `counts` rows from each of `begins` on. O(rows)."""
    shift = begins - (np.cumsum(counts) - counts)
    return np.arange(int(counts.sum())) + np.repeat(shift, counts)


def cut_rows(sizes: Ints, most_bytes: int, most_rows: int | None = None) -> list[tuple[int, int]]:
    """Return ranges [first, last) of rows, each of so many bytes at most, or of one row.

    Args:
        sizes: shape (n,), int64: bytes of each row.
        most_bytes, most_rows: the greatest size of a range, in bytes and in rows.
    """
    ends = np.cumsum(sizes)
    ranges, first = [], 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most_bytes, "right")))
        last = last if most_rows is None else min(last, first + most_rows)
        ranges.append((first, last))
        first = last
    return ranges


def row_bytes(table: pa.Table) -> Ints:
    """Return about how many bytes each row has. O(rows) array work."""
    sizes = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        if column.num_chunks:
            sizes += np.concatenate([_sizes(chunk) for chunk in column.chunks])
    return sizes


def _sizes(array: pa.Array) -> Ints:
    type_ = array.type
    if any(of(type_) for of in (pat.is_string, pat.is_large_string, pat.is_binary, pat.is_large_binary)):
        return pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    if pat.is_struct(type_):
        return sum((_sizes(child) for child in array.flatten()), np.zeros(len(array), np.int64))
    if pat.is_list(type_) or pat.is_large_list(type_) or pat.is_map(type_):
        values = (array.keys, array.items) if pat.is_map(type_) else (array.values,)
        total = sum((_sizes(one) for one in values), np.zeros(len(values[0]), np.int64))
        edges = np.concatenate([[0], np.cumsum(total, dtype=np.int64)])[array.offsets.to_numpy()]
        return np.diff(edges)
    try:
        width = int(type_.bit_width) // 8
    except ValueError:
        width = 0
    return np.full(len(array), width)


def take_rows(table: pa.Table, rows: Ints, *, repeats: bool = False) -> pa.Table:
    """Return the rows at these positions, in several chunks where they are too large for one.

    Args:
        table: a table of any size.
        rows: shape (n,), int64.
        repeats: whether a position may occur several times.

    Cost: that of Arrow's `take`, for large tables about twice that.
    """
    whole = table.nbytes <= PIECE_BYTES and not repeats
    if whole or all(map(_is_fixed, table.schema.types)):
        return table.take(pa.array(rows))
    sizes = row_bytes(table)[rows]
    ranges = cut_rows(sizes, PIECE_BYTES)
    if len(ranges) < 2 and table.nbytes <= PIECE_BYTES:
        return table.take(pa.array(rows))
    chunks = Chunks(table)
    pieces = [chunks.take(rows[first:last]) for first, last in ranges]
    return pa.concat_tables(pieces) if pieces else table.slice(0, 0)


class Chunks:
    """A table of any size and of many chunks, of which some rows are taken at a time.

    Arrow's own `take` joins all chunks first. This reads only those that have any of the rows.
    """

    def __init__(self, table: pa.Table) -> None:
        self._schema = table.schema
        self._batches = table.to_batches()
        self._edges = np.cumsum([0, *(batch.num_rows for batch in self._batches)])

    def take(self, rows: Ints) -> pa.Table:
        """Return the rows at these positions, which fit into one chunk: shape (n,), int64."""
        return (
            _gather(self._schema, self._batches, self._edges, rows)
            if len(rows)
            else self._schema.empty_table()
        )


def _gather(schema: pa.Schema, batches: list[pa.RecordBatch], edges: Ints, rows: Ints) -> pa.Table:
    """Rows that fit into one chunk."""
    batch = np.searchsorted(edges, rows, "right") - 1
    order = np.argsort(batch, kind="stable")
    used, starts = np.unique(batch[order], return_index=True)
    parts = [
        batches[number].take(pa.array(rows[chosen] - edges[number]))
        for number, chosen in zip(used.tolist(), np.split(order, starts[1:]), strict=True)
    ]
    back = np.empty(len(rows), np.int64)
    back[order] = np.arange(len(rows))
    return pa.Table.from_batches(parts, schema).combine_chunks().take(pa.array(back))


def _is_fixed(type_: pa.DataType) -> bool:
    """Whether all values have so many bytes: their array needs no offsets."""
    return pat.is_primitive(type_) or pat.is_decimal(type_) or pat.is_null(type_)


def take_values(column: pa.Array | pa.ChunkedArray, rows: Ints) -> pa.Array | pa.ChunkedArray:
    """Return the values at these positions, any of which may occur several times; in chunks if they are too large for one."""
    taken = take_rows(pa.table([column], ["c"]), rows, repeats=True).column(0)
    return taken.chunk(0) if taken.num_chunks == 1 else taken


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; text or bytes of a type with wider offsets, if there are too many for their own."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.nbytes > PIECE_BYTES:
        if pat.is_string(column.type):
            column = column.cast(pa.large_string())
        elif pat.is_binary(column.type):
            column = column.cast(pa.large_binary())
    return column.combine_chunks()
