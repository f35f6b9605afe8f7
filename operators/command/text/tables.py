"""Tables as text, in columns as wide as what is in them."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from operators.command.text.formats import json_text, moment, printable

_WIDEST = 60
_CUT = "..."


def text_table(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Return rows as lines.

    Args:
        names: the names of the columns.
        rows: a text for each column.
        right: whether a column is aligned to the right.
    """
    lines = [[_fitting(text) for text in row] for row in (names, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(_align(line, widths, right)).rstrip() for line in lines)


def arrow_table(table: pa.Table, widest: int) -> str:
    """Return the rows of an Arrow table as lines. Structs of several fields become a column for each; times are in UTC.

    A table that is wider than `widest` is written with a line for each value.
    """
    names, columns = zip(*_columns(table), strict=True)
    rows = [[_text(value) for value in row] for row in zip(*(c.to_pylist() for c in columns), strict=True)]
    right = [pa.types.is_integer(c.type) or pa.types.is_floating(c.type) for c in columns]
    lines = text_table(names, rows, right)
    return lines if len(lines.partition("\n")[0]) <= widest else _upright(names, rows)


def _upright(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    names = list(map(printable, names))
    width = max(map(len, names))
    blocks = (
        "\n".join(f"{name.ljust(width)}  {_fitting(text)}" for name, text in zip(names, row, strict=True))
        for row in rows
    )
    return "\n\n".join(blocks)


def _columns(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_struct(column.type):
            yield name, column
            continue
        parts = [column.type.field(at) for at in range(column.type.num_fields)]
        for part in parts:
            values = [None if row is None else row[part.name] for row in column.to_pylist()]
            label = name if len(parts) == 1 else f"{name}.{part.name}"
            yield label, pa.chunked_array([pa.array(values, part.type)])


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return _time(value)
    return value if isinstance(value, str) else json_text(value).removeprefix('"').removesuffix('"')


def _time(value: datetime) -> str:
    since = value.replace(tzinfo=None) - datetime(1970, 1, 1)
    return moment(since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) or str(value)


def _fitting(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _WIDEST else shown[: _WIDEST - len(_CUT)] + _CUT


def _align(line: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    for text, width, is_right in zip(line, widths, right, strict=True):
        yield text.rjust(width) if is_right else text.ljust(width)
