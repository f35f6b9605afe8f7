"""The rows of a savepoint's file, which is not believed more than its bytes account for."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from serializers import CorruptDataError
from serializers.shapes import refusing

_FREE_BYTES, _MOST_TIMES = 64 << 20, 256
_FREE_ROWS, _MOST_ROWS = 1_000_000, 16
"""A file is refused whose columns claim to have more bytes or rows than this, and times the bytes of the file."""


def read_entries(path: Path, rows: int, columns: pa.Schema, low: int, high: int) -> pa.Table:
    """Return the rows of a local file with low <= crc < high.

    Args:
        path: of the file.
        rows: how many it has, as the header says.
        columns: that it has; the first is `crc`.
        low, high: the CRC-32s.

    Raises:
        CorruptDataError: it is no such file, or claims a size that its bytes do not account for.

    Cost: the column `crc`, and each group of rows that has some of these, as a whole.
    """
    what = f"the savepoint's file of {path.stat().st_size} bytes"
    # Not read_table with filters, nor statistics: with some forged files, these never return, or end the process.
    try:
        with refusing(what), pq.ParquetFile(path) as file:
            _check(file, path.stat().st_size, rows, columns, what)
            chosen = [n for n in range(file.num_row_groups) if _may_have(file, n, low, high)]
            found = [_between(file.read_row_group(number), low, high) for number in chosen]
    except (OSError, pa.ArrowException) as error:
        raise CorruptDataError(f"{what} cannot be read: {error}") from error
    return pa.concat_tables(found) if found else columns.empty_table()


def _check(file: pq.ParquetFile, stored: int, rows: int, columns: pa.Schema, what: str) -> None:
    found = file.metadata
    size = sum(found.row_group(number).total_byte_size for number in range(found.num_row_groups))
    if not file.schema_arrow.equals(columns) or found.num_rows != rows:
        raise CorruptDataError(f"{what} has other columns or rows than its header says")
    if size > _FREE_BYTES + _MOST_TIMES * stored or rows > _FREE_ROWS + _MOST_ROWS * stored:
        raise CorruptDataError(f"{what} claims to have {rows} rows of {size} bytes")


def _may_have(file: pq.ParquetFile, number: int, low: int, high: int) -> bool:
    """Whether a group of rows has rows of these CRC-32s, which ascend."""
    crc = file.read_row_group(number, columns=["crc"]).column("crc")
    return bool(len(crc)) and crc[0].as_py() < high and crc[-1].as_py() >= low


def _between(table: pa.Table, low: int, high: int) -> pa.Table:
    crc = table.column("crc")
    return table.filter(pc.and_(pc.greater_equal(crc, low), pc.less(crc, high)))
