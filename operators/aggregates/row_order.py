"""The order in which folds get records: by time, and those of one time by their values."""

from typing import Any

from operators.columns.ranges import Ints

Row = tuple[Any, ...] | None
"""The arguments of `add` for one record; None if `where` excludes the record."""


def in_order(timed: list[list[Any]]) -> list[list[Any]]:
    """Return rows that begin with their time in order of time, those of one time in order of their values."""
    try:
        return sorted(timed, key=lambda row: (row[0], rank(tuple(row[1:]))))
    except TypeError:  # Nested values may have no order.
        return sorted(timed, key=lambda row: (row[0], repr(row)))


def sort_ties(rows: list[Row], starts: Ints, ends: Ints) -> None:
    """Put the rows of each run [start, end) in order of their values."""
    tied = ends - starts > 1
    for a, b in zip(starts[tied].tolist(), ends[tied].tolist(), strict=True):
        try:
            rows[a:b] = sorted(rows[a:b], key=rank)
        except TypeError:  # Nested values may have no order.
            rows[a:b] = sorted(rows[a:b], key=repr)


def rank(row: Row) -> list[tuple[bool, bool, Any]]:
    """Return the sort key of a row's values: null first, NaN last. Rows that `where` excludes may be anywhere."""
    return [] if row is None else [(value is not None, value != value, value) for value in row]
