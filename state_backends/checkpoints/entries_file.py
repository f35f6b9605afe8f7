"""A savepoint's file of entries, whose size in memory its bytes account for: the writer pads it, and the reader checks it.

A reader believes no number in a file. Before a group of rows is decoded, the headers of its pages say how much that takes.
Text and objects stay as in the file, each distinct one once, until their sizes are known.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from serializers import CorruptDataError
from serializers.shapes import refusing
from state_backends.checkpoints.parquet_pages import check_footer, decoded_bytes

_FREE_BYTES, _MOST_TIMES = 64 << 20, 256
_FREE_ROWS, _MOST_ROWS = 1_000_000, 16
"""A file is refused whose columns have more bytes or rows than this, and times the bytes of the file."""
_ROW_GROUP = 65_536
_PART_ROWS, _PART_BYTES = 4 * _ROW_GROUP, 256 << 20
_CHUNK = 1 << 20


def write_file(path: Path, columns: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write a local file of rows. Zeros follow the rows if they are so much alike that a reader would refuse the file.

    Args:
        path: of the file.
        columns: that it has.
        tables: of these columns.
    """
    rows = size = 0
    with (
        pa.OSFile(str(path), "wb") as sink,
        pq.ParquetWriter(sink, columns, compression="zstd") as writer,
    ):
        for table in tables:
            if table.num_rows:
                writer.write_table(table, row_group_size=_ROW_GROUP)
                rows, size = rows + table.num_rows, size + table.nbytes
        missing = _fewest_bytes(rows, size) - sink.tell()
        for at in range(0, missing, _CHUNK):
            sink.write(bytes(min(_CHUNK, missing - at)))


def _fewest_bytes(rows: int, size: int) -> int:
    """How long a file of so many rows and bytes in memory is at least. A reader that counts twice as much accepts it."""
    return max(-(-(rows - _FREE_ROWS) // _MOST_ROWS), -(-(2 * size - _FREE_BYTES) // _MOST_TIMES))


def read_entries(path: Path, rows: int, columns: pa.Schema, low: int, high: int) -> Iterator[pa.Table]:
    """Yield the rows of a local file with low <= crc < high in parts, each with all rows of its keys.

    Binary columns are dictionaries.

    Args:
        path: of the file.
        rows: how many it has, as the header says.
        columns: that it has; the first is `crc`, which ascends.
        low, high: the CRC-32s.

    Raises:
        CorruptDataError: it is no such file, or has a size in memory that its bytes do not account for.

    Cost: the column `crc`, and each group of rows that has some of these, as a whole.
    """
    stored = path.stat().st_size
    what = f"the savepoint's file of {stored} bytes"
    binary = [field.name for field in columns if pa.types.is_binary(field.type)]
    # Not read_table with filters, nor statistics: with some forged files, these never return, or end the process.
    try:
        with refusing(what), pq.ParquetFile(path) as file:
            _check(file, stored, rows, columns, what)
            with path.open("rb") as source:
                check_footer(source, file.schema)
        with refusing(what), pq.ParquetFile(path, read_dictionary=binary) as file:
            yield from _parts(_groups(file, path, low, high, what))
    except (OSError, pa.ArrowException) as error:
        raise CorruptDataError(f"{what} cannot be read: {error}") from error


def _check(file: pq.ParquetFile, stored: int, rows: int, columns: pa.Schema, what: str) -> None:
    if not file.schema_arrow.equals(columns) or file.metadata.num_rows != rows:
        raise CorruptDataError(f"{what} has other columns or rows than its header says")
    if rows > _FREE_ROWS + _MOST_ROWS * stored:
        raise CorruptDataError(f"{what} claims to have {rows} rows")


def _groups(file: pq.ParquetFile, path: Path, low: int, high: int, what: str) -> Iterator[pa.Table]:
    """The rows with low <= crc < high of each group of rows that has some."""
    limit = _FREE_BYTES + _MOST_TIMES * path.stat().st_size
    in_pages = in_memory = last = 0
    with path.open("rb") as source:
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            in_pages += decoded_bytes(source, group.column(0))
            _check_size(in_pages, limit, what)
            crc = _ascending(file.read_row_group(number, columns=["crc"]).column("crc"), last, what)
            begin, end = np.searchsorted(crc, [low, high]).tolist()
            last = int(crc[-1]) if len(crc) else last
            if begin == end:
                continue
            in_pages += sum(decoded_bytes(source, group.column(n)) for n in range(1, group.num_columns))
            _check_size(in_pages, limit, what)
            table = file.read_row_group(number).slice(begin, end - begin)
            in_memory += _size(table)
            _check_size(in_memory, limit, what)
            yield table


def _check_size(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise CorruptDataError(f"{what} claims to have {size} bytes, and may have {limit}")


def _ascending(column: pa.ChunkedArray, last: int, what: str) -> npt.NDArray[np.int64]:
    crc: npt.NDArray[np.int64] = column.to_numpy()
    if column.null_count or (np.diff(crc, prepend=last) < 0).any():
        raise CorruptDataError(f"{what} has rows that are not in the order of their keys")
    return crc


def _size(table: pa.Table) -> int:
    """Bytes of a table, if each row had its own value."""
    size = 0
    for column in table.columns:
        for chunk in column.chunks:
            if isinstance(chunk, pa.DictionaryArray):
                lengths = pc.binary_length(chunk.dictionary).to_numpy(zero_copy_only=False)
                used = chunk.indices.drop_null().to_numpy(zero_copy_only=False)
                size += 4 * len(chunk) + int(lengths.astype(np.int64)[used].sum())
            else:
                size += chunk.nbytes
    return size


def _parts(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of tables in parts of some MiB, each with all rows of its CRC-32s."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows, size = rows + table.num_rows, size + _size(table)
        if rows < _PART_ROWS and size < _PART_BYTES:
            continue
        whole = pa.concat_tables(held)
        crc = whole.column("crc").to_numpy()
        edge = int(np.searchsorted(crc, crc[-1]))
        if edge:
            yield whole.slice(0, edge)
            held = [whole.slice(edge)]
            rows, size = held[0].num_rows, _size(held[0])
    if held:
        yield pa.concat_tables(held)
