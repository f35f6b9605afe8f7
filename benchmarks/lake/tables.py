"""The figures as tables of a page in Markdown, between two comments."""

import re
from typing import Any

_PLACE = re.compile(r"(<!-- figures: lake -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_WORDS = "Seconds of a batch by its changed rows, and rows/s of the largest one:"
_LEFT = "What {} batches of 500 rows leave, each in the windows of one day:"


def with_tables(text: str, figures: dict[str, Any]) -> str:
    """Return a page with the tables of a run."""
    parts = [_WORDS, _batches(figures["batches"])]
    if left := figures["left"]:
        parts += [_LEFT.format(f"{left[0]['batches']:,}"), _leavings(left)]
    tables = "\n\n".join(parts)
    return _PLACE.sub(lambda found: f"{found[1]}\n{tables}\n\n{found[2]}", text)


def _batches(rows: list[dict[str, Any]]) -> str:
    """Return a line for each table, and a column for each size of a batch."""
    sizes = sorted({row["changed"] for row in rows})
    seconds = {(row["rows"], row["writer"], row["changed"]): row["seconds"] for row in rows}
    lines = [["", *(f"{size:,}" for size in sizes)]]
    for table, writer in dict.fromkeys((row["rows"], row["writer"]) for row in rows):
        cells = [_cell(seconds.get((table, writer, size)), size, sizes[-1]) for size in sizes]
        lines.append([f"{writer}, table of {table:,} rows", *cells])
    return _table(lines)


def _cell(seconds: float | None, size: int, largest: int) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" + (f", {size / seconds:,.0f}/s" if size == largest else "")


def _leavings(left: list[dict[str, Any]]) -> str:
    """Return a column for each format."""
    lines = [["", *(one["format"].capitalize() for one in left)]]
    for title, name in (
        ("files of data and of metadata", "files"),
        ("the same after maintenance", "files after maintenance"),
    ):
        lines.append([title, *(f"{one[name]['data']:,}, {one[name]['metadata']:,}" for one in left)])
    lines.append(["maintenance", *(f"{one['seconds of maintenance']:.1f} s" for one in left)])
    names = "first merges", "last merges", "merges after maintenance"
    merges = ([f"{one[name]:.1f} s" for name in names] for one in left)
    lines.append(["a merge at the beginning, at the end, after maintenance", *map(", ".join, merges)])
    return _table(lines)


def _table(lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (lines[0], ["---"] * len(lines[0]), *lines[1:]))
