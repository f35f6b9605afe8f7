"""The records and windows of one key, prepared for drawing: in ticks, with texts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from operators.definitions.rolling import RollingWindows
from operators.definitions.windows import HoppingWindows, SlidingWindows
from operators.errors import DefinitionError
from operators.testing.evaluator import Definition, Step, late_rows
from operators.testing.rolling import window_rows
from operators.testing.times import DEFAULT_TICK_US, Clock, column_ticks
from operators.testing.values import identity

Key: TypeAlias = list[tuple[str, Any]]
"""The key columns and their values."""
LEFT, RIGHT = "left", "right"
_MOST_TEXT = 28


@dataclass(frozen=True, slots=True)
class Mark:
    """A record: its time in ticks, its label or "", and whether it was late."""

    time: int
    label: str
    late: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A window.

    Attributes:
        row: number of the row.
        start, end: bounds in ticks, as emitted.
        text: the results, such as "n=2 total=7".
        side: "left" or "right" of a record for sliding windows, otherwise "".
        retracted: whether the row retracts the window.
    """

    row: int
    start: int
    end: int
    text: str
    side: str = ""
    retracted: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """The contents of a drawing.

    Attributes:
        key: the key as text, such as "shop=a"; "" without keys.
        marks: records, sorted by time.
        bars: windows, sorted by bounds.
        half_open: whether the ends of windows are exclusive.
        clock: how times are shown.
    """

    key: str
    marks: tuple[Mark, ...]
    bars: tuple[Bar, ...]
    half_open: bool
    clock: Clock

    @property
    def first(self) -> int:
        """The earliest tick of all."""
        return min([mark.time for mark in self.marks] + [bar.start for bar in self.bars], default=0)

    @property
    def last(self) -> int:
        """The latest tick of all."""
        return max([mark.time for mark in self.marks] + [bar.end for bar in self.bars], default=0)

    def cut(self, most: int) -> "Scene":
        """Return the scene with at most `most` windows, the first ones, and the records up to their end."""
        if len(self.bars) <= most:
            return self
        last = max(bar.end for bar in self.bars[:most])
        marks = tuple(mark for mark in self.marks if mark.time <= last)
        return replace(self, marks=marks, bars=self.bars[:most])

    def bounds(self, bar: Bar) -> str:
        """Return the bounds of a window as text: [start, end], or [start, end) if the end is exclusive."""
        closing = ")" if self.half_open else "]"
        return f"[{self.clock.text(bar.start)}, {self.clock.text(bar.end)}{closing}"

    def holds(self, bar: Bar) -> list[Mark]:
        """Return the records in a window, without late ones."""
        last = bar.end - 1 if self.half_open else bar.end
        return [mark for mark in self.marks if not mark.late and bar.start <= mark.time <= last]


def scene(
    records: pa.Table | Sequence[Step],
    rows: pa.Table | Sequence[Mapping[str, Any]],
    windows: Definition | RollingWindows | None,
    event_time: str,
    key: Any = None,
    label: str | None = None,
) -> Scene:
    """Return one key's records and windows.

    Args:
        records: one table, or batches: tables, or pairs of a table and the stream time after it. With batches, late records are
            found by brute force.
        rows: the emitted rows, as a table, or as dictionaries with bounds in ticks.
        windows: the window definition; None for windows of a custom operator, whose bounds are both inclusive.
        event_time: column of the records with timestamps, or with int64 ticks.
        key: value of the key column, or a tuple of values of several; None if there is only one key. For rolling windows, whose
            rows do not say what their keys are, values by name, such as {"card": "gold"}; None if they have no keys.
        label: column of the records with their labels.

    Raises:
        DefinitionError: a column is missing, or the key is ambiguous.
    """
    batches = _tables(records)
    tick_us = windows.tick_us if windows else DEFAULT_TICK_US
    joined = pa.concat_tables(batches)
    if isinstance(windows, RollingWindows):
        names, key = _named_key(key)
        rows = window_rows(rows, windows, event_time, names, joined.column_names)
    keys, found = read_rows(rows, tick_us)
    _check_columns(joined, [event_time, *keys, *([label] if label else [])])
    late = (
        set() if windows is None or len(batches) == 1 else set(late_rows(windows, records, event_time, keys))
    )
    chosen = _chosen(key, keys, joined)
    marks = _marks(joined, event_time, label, chosen, late, tick_us)
    times = {mark.time for mark in marks if not mark.late}
    sliding = isinstance(windows, SlidingWindows)
    bars = [
        _bar(number, row, keys, times if sliding else None)
        for number, row in enumerate(found)
        if _has_key(row, chosen, tick_us)
    ]
    moments = [mark.time for mark in marks] + [tick for bar in bars for tick in (bar.start, bar.end)]
    numbers = not pat.is_timestamp(column_type(records, event_time))
    return Scene(
        " ".join(f"{name}={value}" for name, value in chosen),
        tuple(marks),
        tuple(sorted(bars, key=lambda bar: (bar.start, bar.end))),
        isinstance(windows, HoppingWindows)
        or (isinstance(windows, RollingWindows) and windows.closed in ("left", "none")),
        Clock.over(moments, tick_us, numbers=numbers),
    )


def _named_key(key: Any) -> tuple[list[str], Any]:
    """Names and values of the key of rolling windows."""
    if key is None:
        return [], None
    if not isinstance(key, Mapping):
        raise DefinitionError(
            f"key must be given by name for rolling windows, such as {{'card': 'gold'}}, got {key!r}"
        )
    return list(key), tuple(key.values())


def column_type(records: pa.Table | Sequence[Step], name: str | None) -> pa.DataType | None:
    """Return the type of a column of the records, or None if it does not exist."""
    schema = _tables(records)[0].schema
    return schema.field(name).type if name in schema.names else None


def _tables(records: pa.Table | Sequence[Step]) -> list[pa.Table]:
    steps = [records] if isinstance(records, pa.Table) else records
    if not steps:
        raise DefinitionError("records is empty: give at least one table, which may be empty")
    return [step[0] if isinstance(step, tuple) else step for step in steps]


def read_rows(
    rows: pa.Table | Sequence[Mapping[str, Any]], tick_us: int
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names of the key columns, and the rows with a window's bounds in ticks as (start, end).

    Raises:
        DefinitionError: column `window` does not exist.
    """
    names = rows.column_names if isinstance(rows, pa.Table) else list(rows[0]) if rows else ["window"]
    if "window" not in names:
        raise DefinitionError(f"column 'window' does not exist; the rows have the columns {', '.join(names)}")
    if isinstance(rows, pa.Table):
        window = rows.column("window").combine_chunks()
        bounds = zip(*(column_ticks(window.field(name), tick_us) for name in ("start", "end")), strict=True)
        plain = rows.set_column(names.index("window"), "window", pa.nulls(rows.num_rows)).to_pylist()
        return names[: names.index("window")], [
            {**row, "window": pair} for row, pair in zip(plain, bounds, strict=True)
        ]
    return names[: names.index("window")], [
        {**row, "window": (row["window"]["start"], row["window"]["end"])} for row in rows
    ]


def _results_text(row: Mapping[str, Any], keys: Collection[str]) -> str:
    """The results of a row, such as "n=2 mean=2.5"; long values are shortened."""
    results = {
        name: value for name, value in row.items() if name not in {*keys, "window", "change", "sequence"}
    }
    if row.get("change") == "retract":
        return "retracted"
    return " ".join(f"{name}={_value_text(value)}" for name, value in results.items())


def _value_text(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."


def _check_columns(records: pa.Table, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in records.column_names]
    if missing:
        raise DefinitionError(
            f"the records lack the columns {', '.join(missing)}; they have {', '.join(records.column_names)}"
        )


def _chosen(key: Any, keys: Sequence[str], records: pa.Table) -> Key:
    """The key columns and their values."""
    if key is None and keys:
        distinct = {tuple(row.values()): row for row in records.select(keys).to_pylist()}
        if len(distinct) != 1:
            examples = ", ".join(map(repr, list(distinct)[:5]))
            raise DefinitionError(
                f"the records have {len(distinct)} keys, such as {examples}: choose one by key="
            )
        key = next(iter(distinct))
    values = key if isinstance(key, tuple) else (key,) if keys else ()
    if len(values) != len(keys):
        raise DefinitionError(
            f"key must have a value for each of {', '.join(keys) or 'no columns'}, got {key!r}"
        )
    return list(zip(keys, values, strict=True))


def _has_key(row: Mapping[str, Any], key: Key, tick_us: int) -> bool:
    return all(identity(row[name], tick_us) == identity(value, tick_us) for name, value in key)


def _marks(
    records: pa.Table, event_time: str, label: str | None, key: Key, late: set[int], tick_us: int
) -> list[Mark]:
    found = []
    times = column_ticks(records.column(event_time), tick_us)
    for number, (time, row) in enumerate(zip(times, records.to_pylist(), strict=True)):
        if time is not None and _has_key(row, key, tick_us):
            text = "" if label is None or row[label] is None else str(row[label])
            found.append(Mark(time, text, number in late))
    return sorted(found, key=lambda mark: mark.time)


def _bar(number: int, row: Mapping[str, Any], keys: Sequence[str], times: set[int] | None) -> Bar:
    start, end = row["window"]
    side = "" if times is None else LEFT if end in times else RIGHT if start - 1 in times else ""
    return Bar(number, start, end, _results_text(row, keys), side, row.get("change") == "retract")
