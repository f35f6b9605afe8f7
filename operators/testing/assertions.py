"""Comparison of the rows of an operator with the expected rows, with a readable message."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa

from operators.errors import DefinitionError
from operators.testing.evaluator import Definition, Step
from operators.testing.scene import column_type, read_rows, scene
from operators.testing.timelines import draw
from operators.testing.times import DEFAULT_TICK_US, iso, tick_of
from operators.testing.values import identity, plain

Rows: TypeAlias = "pa.Table | Sequence[Mapping[str, Any]]"
Row = dict[str, Any]
_MOST_SHOWN = 10


def assert_rows(
    actual: Rows,
    expected: Rows,
    *,
    keys: Sequence[str] | None = None,
    tolerance: float = 0.0,
    windows: Definition | None = None,
    records: pa.Table | Sequence[Step] | None = None,
    event_time: str | None = None,
) -> None:
    """Assert that an operator emitted the expected rows, in any order.

    Rows are identified by their keys, and by their window if they have one. Without both, rows are compared as a whole. Values
    are compared by value, not by type: 1 equals 1.0 and `numpy.int64(1)`, NaN equals NaN. Times are compared by instant, in any
    time zone; naive datetimes are in UTC. A whole number that is compared with a datetime is a number of ticks.

    Args:
        actual: the emitted rows, as a table or dictionaries.
        expected: the expected rows, as a table or dictionaries. `window` is {"start": ..., "end": ...} or (start, end).
        keys: the key columns; by default those before `window`.
        tolerance: maximum absolute or relative difference of fractions, also inside lists and structs.
        windows: the window definition, which sets the length of a tick; by default 1 ms.
        records: the input, as for `timeline`: given together with `event_time`, the key of the first difference is drawn.
        event_time: the event-time column of the records.

    Raises:
        AssertionError: rows are missing, unexpected, or different; the message lists up to 10 of each.
        DefinitionError: a key is not a column, or only one of records and event_time is given, or rows have no windows to draw.
    """
    if (records is None) != (event_time is None):
        raise DefinitionError(
            "records and event_time must be given together: both are needed for the timeline"
        )
    tick_us = windows.tick_us if windows else DEFAULT_TICK_US
    found, required = _read(actual, tick_us), _read(expected, tick_us)
    _check_columns(found, required)
    keys = _keys(found or required, keys)
    comparison = _Comparison(keys, tick_us, tolerance, numbers=_in_ticks(expected, records, event_time))
    comparison.compare(found, required)
    if not comparison.found:
        return
    message = comparison.message(len(found), len(required))
    if records is not None and event_time is not None:
        message += "\n\n" + comparison.drawing(records, windows, event_time, found)
    raise AssertionError(message)


def _read(rows: Rows, tick_us: int) -> list[Row]:
    """Rows with the bounds of their windows, if any, as (start, end) in ticks."""
    if isinstance(rows, pa.Table):
        return read_rows(rows, tick_us)[1] if "window" in rows.column_names else rows.to_pylist()
    read = []
    for row in rows:
        bounds = {}
        if "window" in row:
            window = row["window"]
            pair = (window["start"], window["end"]) if isinstance(window, Mapping) else window
            bounds["window"] = tuple(tick_of(plain(bound), tick_us) for bound in pair)
        read.append({**row, **bounds})
    return read


def _keys(rows: Sequence[Row], keys: Sequence[str] | None) -> list[str]:
    """The given key columns, or those before `window`; empty without a window."""
    names = list(rows[0]) if rows else []
    if keys is not None:
        missing = [name for name in keys if rows and name not in names]
        if missing:
            raise DefinitionError(
                f"key columns {', '.join(missing)} do not exist; the rows have the columns {', '.join(names)}"
            )
        return list(keys)
    return names[: names.index("window")] if "window" in names else []


def _in_ticks(rows: Rows, records: pa.Table | Sequence[Step] | None, event_time: str | None) -> bool:
    """Whether bounds, or the event times of the records, are given as ticks."""
    if records is not None and column_type(records, event_time) == pa.int64():
        return True
    if isinstance(rows, pa.Table) or not rows or "window" not in rows[0]:
        return False
    window = rows[0]["window"]
    return isinstance(window["start"] if isinstance(window, Mapping) else window[0], int)


def _check_columns(actual: Iterable[Row], expected: Iterable[Row]) -> None:
    """Fail if rows differ in their columns."""
    shapes = [{tuple(sorted(row)) for row in rows} for rows in (actual, expected)]
    if all(shapes) and shapes[0] != shapes[1]:
        here, there = (set().union(*columns) for columns in shapes)
        uneven = "" if here ^ there else "; not all rows have the same columns"
        raise AssertionError(
            f"columns differ: only in actual {sorted(here - there)}, only in expected {sorted(there - here)}{uneven}"
        )


class _Comparison:
    """The missing, unexpected and different rows of a comparison.

    Args:
        keys: key columns.
        tick_us: length of a tick in microseconds.
        tolerance: maximum difference of numbers that are not whole.
        numbers: whether bounds are shown as ticks.
    """

    def __init__(self, keys: Sequence[str], tick_us: int, tolerance: float, *, numbers: bool) -> None:
        self._keys, self._tick_us = keys, tick_us
        self._tolerance, self._numbers = tolerance, numbers
        self.missing: list[Row] = []
        self.extra: list[Row] = []
        self.different: list[tuple[Row, Row]] = []

    @property
    def found(self) -> int:
        """Number of differences."""
        return len(self.missing) + len(self.extra) + len(self.different)

    def compare(self, actual: Sequence[Row], expected: Sequence[Row]) -> None:
        """Match rows by identity, equal ones first: a window may be emitted once in each batch."""
        left: dict[Any, list[Row]] = {}
        for row in actual:
            left.setdefault(self._identity(row), []).append(row)
        unmatched = []
        for row in expected:
            candidates = left.get(self._identity(row), [])
            equal = next((n for n, other in enumerate(candidates) if not self._differing(other, row)), None)
            if equal is None:
                unmatched.append(row)
            else:
                del candidates[equal]
        for row in unmatched:
            identity = self._identity(row)
            candidates = left.get(identity, [])
            if candidates and identity:
                self.different.append((candidates.pop(0), row))
            else:
                self.missing.append(row)
        self.extra = [row for rows in left.values() for row in rows]

    def _identity(self, row: Row) -> tuple[Any, ...]:
        keys = (identity(row[name], self._tick_us) for name in self._keys)
        return (*keys, *([row["window"]] if "window" in row else []))

    def _differing(self, actual: Row, expected: Row) -> list[str]:
        return [name for name in expected if not self._equal(actual[name], expected[name])]

    def _equal(self, a: Any, b: Any) -> bool:
        a, b = plain(a), plain(b)
        if _is_number(a) and _is_number(b) and (isinstance(a, float) or isinstance(b, float)):
            return _close(a, b, self._tolerance)
        if isinstance(a, list | tuple) and isinstance(b, list | tuple):
            return len(a) == len(b) and all(map(self._equal, a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(self._equal(a[name], b[name]) for name in a)
        return identity(a, self._tick_us) == identity(b, self._tick_us)

    def message(self, actual: int, expected: int) -> str:
        """Return the differences as text."""
        counts = {
            "missing": len(self.missing),
            "unexpected": len(self.extra),
            "different": len(self.different),
        }
        differences = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        lines = [f"rows differ: {differences}; got {actual} rows, expected {expected}"]
        lines += self._section("missing:", self.missing, self._whole)
        lines += self._section("unexpected:", self.extra, self._whole)
        lines += self._section("different:", self.different, self._both)
        return "\n".join(lines)

    def _section(self, title: str, rows: Sequence[Any], text: Callable[[Any], str]) -> list[str]:
        if not rows:
            return []
        more = [f"  ... and {len(rows) - _MOST_SHOWN} more"] if len(rows) > _MOST_SHOWN else []
        return ["", title, *(f"  {text(row)}" for row in rows[:_MOST_SHOWN]), *more]

    def _name(self, row: Row) -> str:
        named = [f"{name}={row[name]!r}" for name in self._keys]
        if "window" in row:
            bounds = [str(t) if self._numbers else iso(t, self._tick_us) for t in row["window"]]
            named.append(f"window=({', '.join(bounds)})")
        return " ".join(named)

    def _whole(self, row: Row) -> str:
        rest = [f"{n}={value!r}" for n, value in row.items() if n not in {*self._keys, "window"}]
        return " ".join([self._name(row), *rest]).lstrip()

    def _both(self, pair: tuple[Row, Row]) -> str:
        actual, expected = pair
        columns = [
            f"\n    {name} is {actual[name]!r}, expected {expected[name]!r}"
            for name in self._differing(actual, expected)
        ]
        return self._name(actual) + "".join(columns)

    def drawing(
        self,
        records: pa.Table | Sequence[Step],
        windows: Definition | None,
        event_time: str,
        actual: Sequence[Row],
    ) -> str:
        """Return the timeline of the first difference's key, also with missing windows; differences are marked."""
        if not all("window" in row for row in (*actual, *self.missing)):
            raise DefinitionError("rows without windows have no timeline: omit records and event_time")
        wrong = [*self.missing, *self.extra, *(row for row, _ in self.different)]
        key = tuple(wrong[0][name] for name in self._keys) or None
        rows = [*actual, *self.missing]
        marks = {id(row): "different" for row, _ in self.different}
        marks |= {
            id(row): mark
            for mark, marked in (("missing", self.missing), ("unexpected", self.extra))
            for row in marked
        }
        drawn = scene(records, [{**row, "window": _bounds(row)} for row in rows], windows, event_time, key)
        bars = [
            replace(bar, text=f"{bar.text}  <- {marks[id(rows[bar.row])]}")
            if id(rows[bar.row]) in marks
            else bar
            for bar in drawn.bars
        ]
        return draw(replace(drawn, bars=tuple(bars)))


def _bounds(row: Row) -> dict[str, int]:
    return dict(zip(("start", "end"), row["window"], strict=True))


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _close(a: float, b: float, tolerance: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
