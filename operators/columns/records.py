"""One batch of records as columns: keys numbered, times in ticks, values by column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from operators.columns.arrow import ColumnData, canonical_floats, column_data, plain_array
from operators.columns.python_values import python_values
from operators.columns.record_text import record_text
from serializers.keys import NO_COLUMNS, decode_keys, encode_keys

Ints = npt.NDArray[np.int64]
FAR_PAST, FAR_FUTURE = -(2**61), 2**61
"""Close times before every event and after every event, in ticks."""
NEVER = 2**62
"""The time of what is never due."""
_MOST_TICKS = 2**60
_INT64_MAX = 2**63 - 1
_MOST_GAP = 2**59
_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True, slots=True)
class Records:
    """Records of a batch in the order of arrival.

    Attributes:
        keys: the distinct keys, encoded.
        key: shape (n,), int64: position of each record's key in `keys`.
        time: shape (n,), int64: event time in ticks.
        values: input columns by name, each of length n.
        bad: records left out because their event time is null or out of range (`most_ticks`), or their gap is no gap.
        gap: shape (n,), int64: ticks for which each record's session waits for the next one; None if it is the same for all.
        rows: the rows that the records were read from, for operators that emit them.
        row: shape (n,), int64: position of each record in `rows`.
        columns: what the records were read from, for errors.
    """

    keys: list[bytes]
    key: Ints
    time: Ints
    values: dict[str, ColumnData]
    bad: int
    gap: Ints | None = None
    rows: pa.Table | None = None
    row: Ints | None = None
    columns: "RecordColumns | None" = None

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: Ints) -> "Records":
        """Return the records at these positions, with the keys unchanged."""
        values = {name: data.take(rows) for name, data in self.values.items()}
        gap = None if self.gap is None else self.gap[rows]
        row = None if self.row is None else self.row[rows]
        return replace(self, key=self.key[rows], time=self.time[rows], values=values, gap=gap, row=row)

    def text_of(self, number: int, values: Mapping[str, Any]) -> str:
        """Return which record this is, for the end of an error, with the values that a function got."""
        columns = self.columns
        if columns is None:
            return ""
        types = [dict(columns.types).get(name, pa.string()) for name in columns.group_by]
        key = [python_values(column)[0] for column in decode_keys([self.keys[self.key[number]]], types)]
        time_us = int(self.time[number]) * columns.tick_us
        return record_text(dict(zip(columns.group_by, key, strict=True)), time_us, values)


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Which columns of a table make its records.

    Attributes:
        event_time: timestamps, or int64 ticks.
        group_by: the key columns.
        values: the columns that aggregates read.
        tick_us: length of a tick in microseconds.
        gap: each record's session gap: durations, or whole milliseconds; None if there is none.
        reach: ticks from an event time to the bounds of its windows at most.
        rows: the columns of the rows that operators emit; none if they emit windows only.
        types: as which columns are read, by name; others are read as they are.
        given_time: event times as they came, if those that are too far ahead of the clock are null in `event_time`.
    """

    event_time: str
    group_by: tuple[str, ...]
    values: tuple[str, ...]
    tick_us: int
    gap: str | None = None
    reach: int = 0
    rows: tuple[str, ...] = ()
    types: tuple[tuple[str, pa.DataType], ...] = ()
    given_time: str | None = None

    def read(self, table: pa.Table) -> Records:
        """Return a table as records. O(rows) array work and one Python call per distinct key."""
        return self.records(self.usable(table))

    def usable(self, table: pa.Table) -> "UsableRows":
        """Return the rows whose event time and gap can be used, with both in ticks."""
        time, gap, usable = self.times(table)
        return _usable_rows(table, time, gap, usable)

    def records(self, rows: "UsableRows") -> Records:
        """Return rows as records. O(rows) array work and one Python call per distinct key."""
        table = self._as_bound(rows.table)
        key, distinct = number_keys([table.column(name) for name in self.group_by], table.num_rows)
        keys = encode_keys(distinct) if self.group_by else [NO_COLUMNS]
        values = {name: column_data(table.column(name), name) for name in self.values}
        if not self.rows:
            return Records(keys, key, rows.time, values, rows.bad, rows.gap, columns=self)
        whole, row = table.select(self.rows), np.arange(table.num_rows)
        return Records(keys, key, rows.time, values, rows.bad, rows.gap, whole, row, self)

    def _as_bound(self, table: pa.Table) -> pa.Table:
        """The table in the types that the operator was bound to.

        A session's own zone, columns that are never null, and dictionaries make a table's types others, but not its rows.
        """
        types = dict(self.types)
        schema = pa.schema([(field.name, types.get(field.name, field.type)) for field in table.schema])
        return table if table.schema.equals(schema) else table.cast(schema)

    def sift(self, table: pa.Table) -> "Sifted":
        """Return all rows of a table by whether they can be used; of those that cannot, with the reason."""
        time, gap, usable = self.times(table)
        if usable is None:
            return Sifted(UsableRows(table, time, gap, 0), table.slice(0, 0), pa.nulls(0, pa.string()))
        rows = replace(_usable_rows(table, time, gap, usable), bad=0)
        bad = table.filter(pa.array(~usable))
        reasons = self._reasons(bad)
        if self.given_time is not None:
            place = bad.schema.get_field_index(self.event_time)
            bad = bad.set_column(place, self.event_time, bad.column(self.given_time))
        return Sifted(rows, bad, reasons)

    def sift_all(self, tables: Sequence[pa.Table]) -> "Sifted":
        """Return all rows of several tables like `sift`. Of a table, only bad rows and those beside them are copied."""
        if len(tables) == 1:
            return self.sift(tables[0])
        parts = [self.sift(table) for table in tables]
        usable = [part.usable for part in parts]
        gaps = [rows.gap for rows in usable if rows.gap is not None]
        rows = UsableRows(
            pa.concat_tables([rows.table for rows in usable]),
            np.concatenate([rows.time for rows in usable]),
            np.concatenate(gaps) if gaps else None,
            0,
        )
        reasons = pa.concat_arrays([part.reasons for part in parts])
        return Sifted(rows, pa.concat_tables([part.bad for part in parts]), reasons)

    def _reasons(self, bad: pa.Table) -> pa.Array:
        """Why each of these rows cannot be used, as text."""
        reasons = np.full(bad.num_rows, "event time is out of range", object)
        if self.gap is not None:
            _, timed = event_ticks(bad.column(self.event_time), self.tick_us, self.reach)
            reasons[slice(None) if timed is None else timed] = "gap is not positive, or out of range"
            no_gap = bad.column(self.gap).is_null().to_numpy()
            reasons[no_gap if timed is None else timed & no_gap] = "gap is null"
        no_time = bad.column(self.event_time).is_null().to_numpy()
        reasons[no_time] = "event time is null"
        if self.given_time is not None:
            reasons[no_time & bad.column(self.given_time).is_valid().to_numpy()] = (
                "event time is in the future"
            )
        return pa.array(reasons, pa.string())

    def times(self, table: pa.Table) -> tuple[Ints, Ints | None, npt.NDArray[np.bool_] | None]:
        """Return event times and gaps in ticks, and a mask of the rows in which both can be used, or None if all can."""
        column = table.column(self.event_time)
        time, usable = event_ticks(column, self.tick_us, self.reach)
        if self.gap is None:
            return time, None, usable
        gap = _gap_ticks(table.column(self.gap), self.tick_us)
        sound = (gap > 0) & (gap < _MOST_GAP) & (gap < most_ticks(column.type, self.tick_us) - np.abs(time))
        if usable is not None:
            sound &= usable
        return time, gap, None if sound.all() else sound


@dataclass(frozen=True, slots=True)
class UsableRows:
    """Rows whose event times and gaps can be used.

    Attributes:
        table: the rows.
        time: shape (n,), int64: event times in ticks.
        gap: shape (n,), int64: each record's session gap in ticks, or None.
        bad: how many other rows there were.
    """

    table: pa.Table
    time: Ints
    gap: Ints | None
    bad: int

    def head(self, rows: int) -> "UsableRows":
        """Return the first rows."""
        gap = None if self.gap is None else self.gap[:rows]
        return UsableRows(self.table.slice(0, rows), self.time[:rows], gap, 0)


@dataclass(frozen=True, slots=True)
class Sifted:
    """The rows of a batch, as they came, by whether they can be used.

    Attributes:
        usable: those that can.
        bad: those that cannot.
        reasons: why each bad row cannot be used.
    """

    usable: UsableRows
    bad: pa.Table
    reasons: pa.Array

    def without_rows(self) -> "Sifted":
        """Return the same columns without rows."""
        none = np.empty(0, np.int64)
        return Sifted(
            UsableRows(self.usable.table.slice(0, 0), none, None, 0), self.bad.slice(0, 0), self.reasons[:0]
        )


def _usable_rows(
    table: pa.Table, time: Ints, gap: Ints | None, usable: npt.NDArray[np.bool_] | None
) -> UsableRows:
    if usable is None:
        return UsableRows(table, time, gap, 0)
    kept = None if gap is None else gap[usable]
    return UsableRows(table.filter(pa.array(usable)), time[usable], kept, int(np.count_nonzero(~usable)))


def _gap_ticks(column: pa.ChunkedArray, tick_us: int) -> Ints:
    """Gaps floored to ticks; 0 for null, and a value that is out of range for gaps that are too long."""
    unit_us = _UNIT_US.get(column.type.unit, 1) if pat.is_duration(column.type) else 1_000
    if pat.is_duration(column.type) and column.type.unit == "ns":
        column = column.cast(pa.duration("us"), safe=False)
    words = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    if unit_us < tick_us:
        return np.maximum(words, 0) // (tick_us // unit_us)
    scale = unit_us // tick_us
    return np.clip(words, 0, _MOST_GAP // scale + 1) * scale


def event_ticks(
    column: pa.ChunkedArray | pa.Array, tick_us: int, reach: int = 0
) -> tuple[Ints, npt.NDArray[np.bool_] | None]:
    """Return event times floored to ticks, and a mask of those that can be used, or None if all can; see `most_ticks`."""
    usable = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    words = column.cast(pa.int64())
    times = (pc.fill_null(words, 0) if usable is not None else words).to_numpy()
    times = _to_ticks(times, column.type, tick_us)
    most = most_ticks(column.type, tick_us, reach)
    if len(times) and (int(times.max()) >= most or int(times.min()) <= -most):
        near = (times < most) & (times > -most)
        usable = near if usable is None else usable & near
    return times, usable


def most_ticks(type_: pa.DataType, tick_us: int, reach: int = 0) -> int:
    """Return the number of ticks from the epoch that event times have to be below, before it and after it.

    It is 2**60, or less if the bounds of windows, which have the unit of the event time, would overflow 64 bits.

    Args:
        type_: the type of the event time.
        tick_us: length of a tick in microseconds.
        reach: ticks from an event time to the bounds of its windows at most.
    """
    units = {"us": tick_us, "ns": 1_000 * tick_us}.get(getattr(type_, "unit", ""), 1)
    return min(_MOST_TICKS, _INT64_MAX // units - reach)


def _to_ticks(times: Ints, type_: pa.DataType, tick_us: int) -> Ints:
    if pat.is_int64(type_):
        return times
    if type_.unit == "ns":
        return np.floor_divide(times, 1_000 * tick_us)
    scale = _UNIT_US[type_.unit]
    if scale == tick_us:
        return times
    if scale > tick_us:
        # Seconds that overflow as ticks are cut to the edge, where they count as absurd.
        edge = _MOST_TICKS // (scale // tick_us) + 1
        return np.clip(times, -edge, edge) * (scale // tick_us)
    return np.floor_divide(times, tick_us // scale)


def number_keys(columns: Sequence[pa.ChunkedArray], rows: int) -> tuple[Ints, list[pa.Array]]:
    """Return each row's key number and the distinct keys' columns, numbered in order of first appearance.

    Null is a key like any other; all NaN are one, and -0.0 is 0.0. O(rows) hashing.
    """
    if not columns:
        return np.zeros(rows, np.int64), []
    plain = [canonical_floats(plain_array(column)) for column in columns]
    if rows == 1:
        return np.zeros(1, np.int64), plain
    coded = [array.dictionary_encode(null_encoding="encode") for array in plain]
    if len(coded) == 1:
        return _codes(coded[0]), [coded[0].dictionary]
    combined = np.zeros(rows, np.int64)
    sizes = [len(code.dictionary) for code in coded]
    for code, size in zip(coded, sizes, strict=True):
        combined = _renumber(combined * size + _codes(code), combined, size)
    whole = pa.array(combined).dictionary_encode()
    numbers = _codes(whole)
    first = np.empty(len(whole.dictionary), np.int64)
    first[numbers[::-1]] = np.arange(rows - 1, -1, -1)
    return numbers, [array.take(pa.array(first)) for array in plain]


def _renumber(product: Ints, before: Ints, size: int) -> Ints:
    """The product of two numberings, made small again where it could outgrow 64 bits."""
    largest = int(before.max()) + 1 if len(before) else 0
    if largest * size < 2**31:
        return product
    return _codes(pa.array(product).dictionary_encode())


def _codes(array: pa.DictionaryArray) -> Ints:
    return array.indices.to_numpy(zero_copy_only=False).astype(np.int64)
