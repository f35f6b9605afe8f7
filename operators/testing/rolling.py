"""Rolling windows by brute force over raw records, to compare operators with. No code of the operators is used."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from operators.definitions.lookbacks import lookbacks_by_name, unit_to_date
from operators.definitions.rolling import RollingWindows
from operators.testing.calendars import Periods
from operators.testing.oracles import Batch, Record
from operators.testing.times import tick_of

Begin = Callable[[int], int]
"""Returns the begin of the window that ends at a time, in ticks."""
Aggregates = Mapping[str, Callable[[list[dict[str, Any]]], Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """A row that comes out.

    Attributes:
        record: key, event time in ticks, value.
        contents: the values of the records in each lookback's window, in order of event time.
    """

    record: Record
    contents: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """The rows that a batch emits, and the positions of its late records."""

    rows: list[Row]
    late: list[int]


@dataclass(slots=True)
class RollingOracle:
    """Rolling windows by brute force: each row reads all records of its key.

    Args:
        windows: the definition; only its lookbacks, and which ends belong to them, are read.
        emit: "on_close" or "on_arrival".
    """

    windows: RollingWindows
    emit: str
    _records: list[Record] = field(default_factory=list)
    _waiting: list[Record] = field(default_factory=list)
    _begins: list[Begin | None] = field(init=False)

    def __post_init__(self) -> None:
        self._begins = begins_of(self.windows)

    def step(self, batch: Batch) -> ExpectedRows:
        """Process a batch."""
        before = self._closed(batch.close_time_start)
        forgets, since = self.windows.forget_ticks is not None, batch.close_time_start
        if forgets and since > -math.inf:
            starts = [begin(int(since)) for begin in self._begins if begin is not None]
            since = min([since, *starts])
        self._records += [record for record in batch.records if not forgets or record[1] >= since]
        accepted = [record for record in batch.records if record[1] >= batch.close_time_start]
        late = [n for n, record in enumerate(batch.records) if record[1] < batch.close_time_start]
        if self.emit == "on_arrival":
            return ExpectedRows([self._row(record) for record in accepted], late)
        self._waiting += accepted
        return ExpectedRows([*before, *self._closed(batch.close_time_end)], late)

    def _closed(self, close_time: float) -> list[Row]:
        closed = [record for record in self._waiting if record[1] < close_time]
        self._waiting = [record for record in self._waiting if record[1] >= close_time]
        return [self._row(record) for record in closed]

    def _row(self, record: Record) -> Row:
        return Row(record, tuple(tuple(self._content(record, number)) for number in range(len(self._begins))))

    def _content(self, record: Record, number: int) -> Iterator[Any]:
        (key, end, _), begin = record, self._begins[number]
        start = self._lifetime(key, end) if begin is None else begin(end)
        first, last = self.windows.closed in ("both", "left"), self.windows.closed in ("both", "right")
        first = first or unit_to_date(_lengths(self.windows)[number]) is not None
        for other, time, value in sorted(self._records, key=lambda each: each[1]):
            after = time > start or (first and time == start)
            until = time < end or (last and time == end)
            if other == key and after and until:
                yield value

    def _lifetime(self, key: Any, end: float) -> float:
        """Where the lifetime of a record begins, or a tick earlier: no pause before it is too long."""
        pause = self.windows.forget_ticks
        if pause is None:
            return -math.inf
        start = end
        inclusive = self.windows.closed in ("both", "right")
        for time in sorted((t for other, t, _ in self._records if other == key), reverse=True):
            if time > end or (time == end and not inclusive):
                continue
            if start - time > pause:
                break
            start = time
        return start - 1


def begins_of(windows: RollingWindows) -> list[Begin | None]:
    """Return where the windows of each lookback begin; None is for lifetimes."""
    return [_begin(windows, number) for number in range(len(windows.names))]


def _lengths(windows: RollingWindows) -> list[Any]:
    return list(lookbacks_by_name(windows.lookbacks).values())


def _begin(windows: RollingWindows, number: int) -> Begin | None:
    unit, ticks = unit_to_date(_lengths(windows)[number]), windows.lookback_ticks[number]
    if unit is None:
        return None if ticks is None else lambda time: time - int(ticks)  # type: ignore[arg-type]
    offset = windows.offset
    if isinstance(offset, Mapping):
        offset = offset.get(windows.names[number], 0)
    period = f"1 {unit}"
    periods = Periods(str(windows.zone), period, period, offset, 1_000_000 // windows.tick_us)
    return lambda time: periods.windows(time)[0][0]


def rolling_rows(
    windows: RollingWindows, rows: Iterable[Row], aggregates: Aggregates
) -> list[dict[str, Any]]:
    """Return rows as dictionaries: the columns of the record, then each aggregate of each lookback.

    Args:
        windows: the window definition.
        rows: whose values are dictionaries of the columns.
        aggregates: functions by name of the result, called with the rows of a window, of which there may be none.
    """
    return [
        {
            **row.record[2],
            **{
                f"{name}{suffix}": finish(list(content))
                for suffix, content in zip(windows.suffixes, row.contents, strict=True)
                for name, finish in aggregates.items()
            },
        }
        for row in rows
    ]


def window_rows(
    rows: pa.Table | Iterable[Mapping[str, Any]],
    windows: RollingWindows,
    event_time: str,
    keys: Sequence[str],
    columns: Collection[str],
) -> list[dict[str, Any]]:
    """Return a row for each window of rolling rows: keys, `window` with its bounds in ticks, and the results of its lookback.

    The window of a lifetime begins at the earliest of the rows.

    Args:
        rows: what came out, as a table or dictionaries.
        windows: the window definition.
        event_time: the event-time column of the rows.
        keys: key columns.
        columns: those of the records, which are no results.
    """
    listed = rows.to_pylist() if isinstance(rows, pa.Table) else list(rows)
    times = [tick_of(row[event_time], windows.tick_us) for row in listed]
    begins, found = begins_of(windows), []
    for time, row in zip(times, listed, strict=True):
        for begin, suffix in zip(begins, windows.suffixes, strict=True):
            start = min(times) if begin is None else begin(time)
            results = {
                name.removesuffix(suffix): value
                for name, value in row.items()
                if name not in columns and name.endswith(suffix)
            }
            found.append(
                {**{key: row[key] for key in keys}, "window": {"start": start, "end": time}, **results}
            )
    return found
