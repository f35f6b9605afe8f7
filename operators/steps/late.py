"""Late and bad records as data: each with the reason why it is in no window, beside the rows of an operator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from operators.columns.ranges import Ints
from operators.columns.records import RecordColumns
from operators.steps.emission import to_unit
from operators.steps.step import LateRecords

LATE = "late"
"""The column of a result that tells of a late or bad record; null in all other rows."""
TOO_LATE = "late"
"""The reason of a record of which every window was closed; the reasons of bad ones are sentences."""
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Sifted:
    """A batch's rows, as they came, by whether they can be used.

    Attributes:
        usable: those that can.
        bad: those that cannot.
        faults: the reason of each bad one.
    """

    usable: pa.Table
    bad: pa.Table
    faults: pa.Array

    @classmethod
    def of(cls, table: pa.Table, columns: RecordColumns) -> "Sifted":
        """Return the rows of a table sifted."""
        faults = columns.faults(table)
        if faults is None:
            return cls(table, table.slice(0, 0), pa.nulls(0, pa.string()))
        wrong = faults.is_valid()
        return cls(table.filter(faults.is_null()), table.filter(wrong), faults.filter(wrong))


@dataclass(frozen=True)
class LateSide:
    """How late and bad records are told.

    Attributes:
        record: the columns of a record that are told, with their types: all that the frame has.
        time: Arrow type of bounds of windows.
        tick_us: length of a tick in microseconds.
    """

    record: pa.Schema
    time: pa.DataType
    tick_us: int

    @property
    def type(self) -> pa.StructType:
        """What is told of a record."""
        window = pa.struct([pa.field("start", self.time), pa.field("end", self.time)])
        fields = [("reason", pa.string()), ("window", window), ("late_by_ms", pa.int64())]
        return pa.struct([*fields, ("record", pa.struct(list(self.record)))])

    def beside(self, rows: pa.Schema) -> pa.Schema:
        """Return the schema of rows with `late` as a further column; the others may be null then."""
        return pa.schema([*(field.with_nullable(True) for field in rows), pa.field(LATE, self.type)])

    def told(self, batch: Sifted, reports: Sequence[LateRecords]) -> pa.StructArray:
        """Return what is to be told of a batch's late and bad records.

        Args:
            batch: its rows.
            reports: which of the usable ones were late.
        """
        row = _joined([report.row for report in reports])
        start, end = (
            _joined([report.start for report in reports]),
            _joined([report.end for report in reports]),
        )
        late_by = to_unit(_joined([report.close - report.end for report in reports]), self.tick_us, "ms")
        bad, type_ = batch.bad.num_rows, self.type
        window = type_.field("window").type
        bounds = pa.StructArray.from_arrays([self._time(start), self._time(end)], fields=list(window))
        late = batch.usable.take(pa.array(row))
        columns = [
            [pa.repeat(pa.scalar(TOO_LATE), len(row)), batch.faults],
            [bounds, pa.nulls(bad, window)],
            [pa.array(late_by), pa.nulls(bad, pa.int64())],
            [self._records(late), self._records(batch.bad)],
        ]
        return pa.StructArray.from_arrays(list(map(pa.concat_arrays, columns)), fields=list(type_))

    def _time(self, ticks: Ints) -> pa.Array:
        return pa.array(to_unit(ticks, self.tick_us, self.time.unit)).cast(self.time)

    def _records(self, table: pa.Table) -> pa.StructArray:
        columns = [table.column(field.name).combine_chunks().cast(field.type) for field in self.record]
        return pa.StructArray.from_arrays(columns, fields=list(self.record))

    def joined(self, rows: pa.Table, told: pa.StructArray) -> pa.Table:
        """Return an operator's rows and what is told of late records as one table, of the schema `beside`."""
        schema = self.beside(rows.schema)
        columns = [
            pa.chunked_array([*column.chunks, pa.nulls(len(told), column.type)], column.type)
            for column in rows.columns
        ]
        late = pa.chunked_array([pa.nulls(rows.num_rows, told.type), told])
        return pa.Table.from_arrays([*columns, late], schema=schema)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([_NONE, *parts])
