"""Rows of a table as bytes: Arrow's buffers cut by row, so that rows of many keys are packed and read all at once.

    blob     version byte, number of rows as 4 bytes, then the rows' fixed parts, then their variable parts
    fixed    for each row: of each column a byte that says whether it is valid, and its value if that has a fixed width; then
             the length of each variable part, 4 bytes each
    variable for each row: text and bytes, and of lists and maps one part for each buffer of their elements

All numbers are little-endian. Structs are their fields one after another; a list is its number of elements and, for each
buffer that its elements have, the part of the row. A blob does not say what its columns are: that stands with the state.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from serializers import arrays
from serializers.errors import CorruptDataError, NewerFormatError, SerializationError
from serializers.row_parts import (
    COUNT,
    MOST_BYTES,
    Bytes,
    Part,
    array_of,
    bytes_of,
    cells_of,
    join,
    offsets_of,
    parts_of,
    unstorable,
    widths_of,
)

_VERSION = 1
_HEADER = struct.Struct("<BI")
Rest = tuple[memoryview | bytes | None, npt.NDArray[np.int64]]
"""Variable parts one row after another, None if there are none, and where each row's begins and the last one ends."""


class RowCodec:
    """Packs rows of a schema.

    Args:
        schema: names and types of the columns.

    Raises:
        SerializationError: a type has no stored form; names the column.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        for field in schema:
            if (unknown := unstorable(field.type)) is not None:
                raise SerializationError(
                    f"column {field.name!r} is of type {field.type}: {unknown} cannot be stored"
                )

    @cached_property
    def _widths(self) -> list[int | None]:
        return [width for type_ in self.schema.types for width in widths_of(type_)]

    @cached_property
    def _row_bytes(self) -> int:
        """Bytes of the fixed part of a row."""
        return sum(COUNT if width is None else width for width in self._widths)

    def encode(self, table: pa.Table, starts: npt.NDArray[np.int64]) -> list[bytes]:
        """Return one blob for each run of rows.

        Args:
            table: the rows, in columns of the schema.
            starts: ascending row numbers at which the runs begin, the first of them 0.

        Raises:
            SerializationError: a row has more than 2 GiB in one column.

        Cost: O(bytes) array work, and two slices for each run.
        """
        rows = table.num_rows
        fixed = np.empty((rows, self._row_bytes), np.uint8)
        parts = [self._rest(table.slice(a, b - a), fixed[a:b]) for a, b in self._pieces(table)]
        ends = np.append(starts[1:], rows)[: len(starts)]
        rest, edges = _one_after_another(parts)
        flat, width, runs = (
            fixed.reshape(-1).data,
            self._row_bytes,
            zip(starts.tolist(), ends.tolist(), strict=True),
        )
        if rest is None:
            return [_HEADER.pack(_VERSION, b - a) + flat[a * width : b * width] for a, b in runs]
        cuts = zip(edges[starts].tolist(), edges[ends].tolist(), strict=True)
        return [
            b"".join((_HEADER.pack(_VERSION, b - a), flat[a * width : b * width], rest[c:d]))
            for (a, b), (c, d) in zip(runs, cuts, strict=True)
        ]

    @staticmethod
    def _pieces(table: pa.Table) -> list[tuple[int, int]]:
        """Ranges of rows that are worked on at once."""
        if table.nbytes <= arrays.PIECE_BYTES:
            return [(0, table.num_rows)]
        return arrays.cut_rows(arrays.row_bytes(table), arrays.PIECE_BYTES)

    def _rest(self, table: pa.Table, fixed: Bytes) -> Rest:
        """Write the fixed parts of rows; return their variable parts, and where each row's begins and the last one ends."""
        at, variable = 0, []
        for part in self._parts(table):
            if isinstance(part, np.ndarray):
                fixed[:, at : at + part.shape[1]] = part
                at += part.shape[1]
            else:
                variable.append(part)
        for part in variable:
            fixed[:, at : at + COUNT] = self._lengths(part)
            at += COUNT
        return join(variable, table.num_rows)

    def _parts(self, table: pa.Table) -> Iterator[Part]:
        for number, type_ in enumerate(self.schema.types):
            yield from parts_of(table.column(number).combine_chunks(), type_)

    @staticmethod
    def _lengths(part: pa.LargeBinaryArray) -> Bytes:
        lengths = np.diff(offsets_of(part))
        if len(lengths) and int(lengths.max()) > MOST_BYTES:
            raise SerializationError(f"a row of {int(lengths.max())} bytes in one column cannot be stored")
        return bytes_of(lengths.astype("<u4"), COUNT)

    def decode(self, blobs: Sequence[bytes]) -> pa.Table:
        """Return the rows of all blobs, one after another.

        Raises:
            CorruptDataError: a blob is truncated, altered, or of other columns.
            NewerFormatError: a newer version wrote it.

        Cost: O(bytes) array work, and two slices for each blob.
        """
        width, fixed, rest, counts = self._row_bytes, [], [], []
        for blob in blobs:
            if len(blob) < _HEADER.size:
                raise self._damaged(blob)
            version, count = _HEADER.unpack_from(blob)
            if version != _VERSION:
                raise NewerFormatError("a stored row", version, _VERSION)
            end = _HEADER.size + count * width
            if end > len(blob) or not count:
                raise self._damaged(blob)
            counts.append(count)
            view = memoryview(blob)
            fixed.append(view[_HEADER.size : end])
            rest.append(view[end:])
        rows = sum(counts)
        matrix = np.frombuffer(b"".join(fixed), np.uint8).reshape(rows, width)
        texts = self._widths.count(None)
        lengths = np.ascontiguousarray(matrix[:, width - COUNT * texts :]).view("<u4").reshape(rows, texts)
        sizes = (
            lengths.sum(axis=1, dtype=np.int64) if texts else None
        )  # Rows without bytes may be any number.
        if rows:
            starts = np.cumsum(counts) - counts
            found = np.zeros(len(starts), np.int64) if sizes is None else np.add.reduceat(sizes, starts)
            wrong = found != np.fromiter(map(len, rest), np.int64, len(rest))
            if wrong.any():
                raise self._damaged(blobs[int(np.argmax(wrong))])
        data = memoryview(b"".join(rest))
        if sizes is None or len(data) <= arrays.PIECE_BYTES:
            ranges = [(0, rows, 0, len(data))]
        else:
            edges = np.concatenate([[0], np.cumsum(sizes)])
            ranges = [(a, b, edges[a], edges[b]) for a, b in arrays.cut_rows(sizes, arrays.PIECE_BYTES)]
        try:
            tables = [self._table(matrix[a:b], data[c:d], lengths[a:b]) for a, b, c, d in ranges]
        except (pa.ArrowException, ValueError) as error:
            raise CorruptDataError(f"stored rows of {self.schema.names} cannot be read: {error}") from error
        return pa.concat_tables(tables)

    def _table(self, fixed: Bytes, data: memoryview, lengths: npt.NDArray[np.uint32]) -> pa.Table:
        """Rows of their fixed parts, all their variable parts, and the lengths of these."""
        parts = self._split(fixed, cells_of(data, lengths))
        columns = [array_of(type_, len(fixed), parts) for type_ in self.schema.types]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _split(self, fixed: Bytes, texts: Iterator[pa.LargeBinaryArray]) -> Iterator[Part]:
        at = 0
        for width in self._widths:
            if width is None:
                yield next(texts)
            else:
                yield fixed[:, at : at + width]
                at += width

    @staticmethod
    def _damaged(blob: bytes) -> CorruptDataError:
        return CorruptDataError(
            f"stored rows of {len(blob)} bytes are truncated, altered or of other columns: go back to an earlier checkpoint"
        )


def _one_after_another(parts: Sequence[Rest]) -> Rest:
    """The variable parts of several pieces as those of one."""
    if len(parts) == 1:
        return parts[0]
    found = [rest[edges[0] : edges[-1]] for rest, edges in parts if rest is not None]
    edges = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(edges) for _, edges in parts]))])
    return b"".join(found) if found else None, edges
