"""Rows of a frame: printed as a table or as JSON, or written to a file."""

import shutil
import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq

from operators.command.inputs import FORMATS, unknown_format
from operators.command.outputs import check_out, replacing
from operators.command.progress import watched
from operators.command.text.formats import json_text, number
from operators.command.text.output import say, say_each
from operators.command.text.tables import arrow_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PRINTED = 20
_WIDTH = 160
_UNSORTED = ("map", "variant", "void")


def check_rows(args: Namespace) -> None:
    """Refuse arguments of `show_rows` that cannot be done, before Spark starts.

    Raises:
        CommandError: the format of `out` is unknown, or it cannot be written.
    """
    if args.out is not None:
        _kind(Path(args.out))
        check_out(Path(args.out))


def show_rows(frame: "DataFrame", args: Namespace, label: str) -> None:
    """Print or write the rows of a frame, as the arguments say.

    Args:
        frame: the rows.
        args: has `limit`, `json` and `out`.
        label: what the progress calls it.
    """
    with watched(frame.sparkSession, label, always=args.progress):
        if args.out is not None:
            written = write_file(frame if args.limit is None else _first(frame, args.limit), Path(args.out))
            say(f"{number(written)} rows in {args.out}")
            return
        most = args.limit or _PRINTED
        found = _first(frame, most + 1).toArrow()
    shown = found.slice(0, most)
    if args.json:
        say_each(json_text(row) for row in shown.to_pylist())
        return
    say(f"{arrow_table(shown, _width())}\n{_ending(shown.num_rows, more=found.num_rows > most)}")


def _width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size((_WIDTH, 0)).columns


def _ending(rows: int, *, more: bool) -> str:
    count = f"{number(rows)} row{'' if rows == 1 else 's'}"
    return f"the first {count}: --limit N shows more, --out FILE writes all" if more else count


def _first(frame: "DataFrame", most: int) -> "DataFrame":
    """The first rows in the order of their columns."""
    return frame.orderBy(*_order(frame)).limit(most)


def _order(frame: "DataFrame") -> "list[Column]":
    from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

    columns = [
        field.name
        for field in frame.schema.fields
        if not any(kind in field.dataType.simpleString() for kind in _UNSORTED)
    ]
    return [F.col(f"`{name.replace('`', '``')}`") for name in columns]


def write_file(frame: "DataFrame", path: Path) -> int:
    """Write rows to one file, by way of a temporary folder, and return their number. Memory: a part of the rows at a time.

    Raises:
        CommandError: the format is unknown, or the file cannot be written.
    """
    kind = _kind(path)
    with tempfile.TemporaryDirectory(prefix="windows-rows-") as folder:
        frame.write.parquet(f"{folder}/rows")
        rows = pyarrow.dataset.dataset(f"{folder}/rows", format="parquet")
        with replacing(path) as target:
            return _WRITERS[kind](rows, target)


def _kind(path: Path) -> str:
    """Return the format of a file by its name."""
    if path.suffix not in FORMATS:
        raise unknown_format(path)
    return FORMATS[path.suffix]


def _parquet(rows: pyarrow.dataset.Dataset, path: Path) -> int:
    with pq.ParquetWriter(path, rows.schema) as writer:
        return _each(rows, writer.write_batch)


def _csv(rows: pyarrow.dataset.Dataset, path: Path) -> int:
    """Structs become a column for each field, and lists and maps JSON: a CSV has neither."""
    empty = _flat(rows.schema.empty_table())
    with pyarrow.csv.CSVWriter(path, empty.schema) as writer:
        return _each(rows, lambda batch: writer.write_table(_flat(pa.Table.from_batches([batch]))))


def _json(rows: pyarrow.dataset.Dataset, path: Path) -> int:
    with path.open("w", encoding="utf-8") as file:
        return _each(rows, lambda batch: file.writelines(f"{json_text(row)}\n" for row in batch.to_pylist()))


_WRITERS = {"parquet": _parquet, "csv": _csv, "json": _json}


def _each(rows: pyarrow.dataset.Dataset, write: Callable[[pa.RecordBatch], None]) -> int:
    written = 0
    for batch in rows.to_batches():
        write(batch)
        written += batch.num_rows
    return written


def _flat(table: pa.Table) -> pa.Table:
    while any(pa.types.is_struct(column.type) for column in table.columns):
        table = table.flatten()
    columns = [_as_json(column) if pa.types.is_nested(column.type) else column for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _as_json(column: pa.ChunkedArray) -> pa.Array:
    return pa.array(
        [None if value is None else json_text(value) for value in column.to_pylist()], pa.string()
    )
