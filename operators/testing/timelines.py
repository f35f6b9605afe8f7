"""Timelines of the records and windows of one key, as text."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from operators.definitions.rolling import RollingWindows
from operators.testing.evaluator import Definition, Step
from operators.testing.scene import Bar, Mark, Scene, scene

_LEAST_AXIS = 24
_MOST_PER_TICK = 3
_MOST_BARS = 40


def timeline(
    records: pa.Table | Sequence[Step],
    rows: pa.Table | Sequence[Mapping[str, Any]],
    windows: Definition | RollingWindows | None,
    event_time: str,
    *,
    key: Any = None,
    label: str | None = None,
    width: int = 100,
) -> str:
    """Return a text drawing of the records of one key and, below them, of each window with its bounds and results.

    A window is drawn from a bracket before its first tick to a bracket after its last tick: `[--a]` contains a record at its
    end, `[--)a` does not. A window shows the records that it contains; late records are on a separate line. If several records
    are in the same column, their number is shown. The first 40 windows are drawn.

    Args:
        records: the input, as one table or as batches: tables, or pairs of a table and the stream time after it. With batches,
            late records are found by brute force.
        rows: the emitted rows, as a table, or as dictionaries with bounds in ticks.
        windows: the window definition; None for windows of a custom operator, whose bounds are both inclusive.
        event_time: column of the records with timestamps, or with int64 ticks.
        key: value of the key column, or a tuple of values of several; optional if there is only one key. For rolling windows,
            values by name, such as {"card": "gold"}, if they have keys.
        label: column of the records; the first character of its value marks a record. By default each is a `*`.
        width: number of characters per line, if bounds and results leave enough for the axis.

    Raises:
        DefinitionError: a column is missing, or the key is ambiguous.
    """
    return draw(scene(records, rows, windows, event_time, key, label), width)


def draw(drawn: Scene, width: int = 100) -> str:
    """Return a scene as text, without trailing blanks."""
    windows, drawn = len(drawn.bars), drawn.cut(_MOST_BARS)
    bars = drawn.bars
    names = [drawn.bounds(bar) for bar in bars]
    notes = [_note(bar, any(bar.side for bar in bars)) for bar in bars]
    margin = max(map(len, ["records", *names])) + 1
    axis = _Axis(drawn, max(_LEAST_AXIS, width - margin - max(map(len, ["", *notes])) - 4))
    head = " ".join(filter(None, [drawn.key, drawn.clock.day]))
    lines = [(head, "", "")] if head else []
    lines += [("", axis.labels(), ""), ("", axis.ticks(), "")]
    lines.append(("records", axis.row([mark for mark in drawn.marks if not mark.late]), ""))
    if any(mark.late for mark in drawn.marks):
        lines.append(("late", axis.row([mark for mark in drawn.marks if mark.late]), ""))
    lines += [
        (name, axis.bar(bar, drawn.holds(bar), drawn.half_open), note)
        for name, bar, note in zip(names, bars, notes, strict=True)
    ]
    text = [
        name if not (row or note) else f"{name:<{margin}}{row:<{axis.length + 3}} {note}"
        for name, row, note in lines
    ]
    if windows > len(bars):
        text.append(f"... and {windows - len(bars)} more windows")
    return "\n".join(line.rstrip() for line in text)


def _note(bar: Bar, sided: bool) -> str:
    return f"{bar.side:<6}{bar.text}" if sided else bar.text


class _Axis:
    """Ticks as columns of text, with room for a bracket on the left, and for two on the right."""

    def __init__(self, drawn: Scene, most: int) -> None:
        self._first, self._clock = drawn.first, drawn.clock
        self._span = max(1, drawn.last - drawn.first)
        per_tick = min(_MOST_PER_TICK, (most - 1) // self._span)
        self.length = self._span * per_tick + 1 if per_tick else most

    def column(self, tick: int) -> int:
        """Return the column of a tick, the nearest one if there are more ticks than columns."""
        return 1 + (2 * (tick - self._first) * (self.length - 1) + self._span) // (2 * self._span)

    def row(self, marks: Sequence[Mark], under: str = "") -> str:
        """Return a line with marks in their columns, drawn over the line `under`."""
        line = list(under.ljust(self.length + 3))
        places: dict[int, list[Mark]] = {}
        for mark in marks:
            places.setdefault(self.column(mark.time), []).append(mark)
        for column, together in places.items():
            count = len(together)
            line[column] = (together[0].label[:1] or "*") if count == 1 else str(count) if count < 10 else "+"
        return "".join(line)

    def bar(self, bar: Bar, marks: Sequence[Mark], half_open: bool) -> str:
        """Return a window as a line with brackets and records."""
        start, end = self.column(bar.start), self.column(bar.end)
        # The closing bracket is after the last tick of the window, and never on a record.
        after = max([end, *(self.column(mark.time) + 1 for mark in marks)]) if half_open else end + 1
        line = " " * (start - 1) + "[" + "-" * (after - start) + (")" if half_open else "]")
        return self.row(marks, line)

    def _marked(self) -> list[tuple[int, str]]:
        """Columns and labels at the shortest round distance at which labels do not overlap."""
        first, last = self._first, self._first + self._span
        for distance in self._clock.distances():
            if self._span // distance > self.length:
                continue
            ticks = range(-(-first // distance) * distance, last + 1, distance)
            marked = [(self.column(tick), self._clock.text(tick)) for tick in ticks]
            room = max((len(text) for _, text in marked), default=0) + 3
            if all(b[0] - a[0] >= room for a, b in pairwise(marked)):
                return marked
        return [(self.column(first), self._clock.text(first))]

    def labels(self) -> str:
        """Return the line of the times."""
        line = ""
        for column, text in self._marked():
            line = line.ljust(column) + text
        return line

    def ticks(self) -> str:
        """Return the line of marks below the times."""
        columns = {column for column, _ in self._marked()}
        return "".join("|" if n in columns else " " for n in range(self.length + 1))
