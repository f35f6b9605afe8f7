"""Late and bad records as a side output: each with the reason why it is in no window."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from operators.columns.arrow import to_unit
from operators.columns.ranges import Ints
from operators.columns.records import Sifted
from operators.steps.step import LateRecords
from serializers.arrays import take_rows

LATE = "late"
"""The column of a result that reports a late or bad record; null in all other rows."""
TOO_LATE = "late"
"""The reason of a record all of whose windows were closed; the reasons of bad records are sentences."""
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class LateSide:
    """How late and bad records are reported.

    Attributes:
        record: the columns of a record that are reported, with their types: all that the frame has.
        time: Arrow type of bounds of windows.
        tick_us: length of a tick in microseconds.
    """

    record: pa.Schema
    time: pa.DataType
    tick_us: int

    @property
    def type(self) -> pa.StructType:
        """Type of the report of a record."""
        window = pa.struct([pa.field("start", self.time), pa.field("end", self.time)])
        fields = [("reason", pa.string()), ("window", window), ("late_by_ms", pa.int64())]
        return pa.struct([*fields, ("record", pa.struct(list(self.record)))])

    def with_reports(self, rows: pa.Schema) -> pa.Schema:
        """Return the schema of rows with `late` as a further column; the others may be null then."""
        return pa.schema([*(field.with_nullable(True) for field in rows), pa.field(LATE, self.type)])

    def reports(self, batch: Sifted, late: Sequence[LateRecords]) -> pa.ChunkedArray:
        """Return the reports of a batch's late and bad records.

        Args:
            batch: its rows.
            late: which of the usable ones were late.
        """
        row = _joined([report.row for report in late])
        start, end = (
            _joined([report.start for report in late]),
            _joined([report.end for report in late]),
        )
        late_by = to_unit(_joined([report.close_time - report.end for report in late]), self.tick_us, "ms")
        bad, type_ = batch.bad.num_rows, self.type
        window = type_.field("window").type
        bounds = pa.StructArray.from_arrays([self._time(start), self._time(end)], fields=list(window))
        columns = [
            pa.concat_arrays([pa.repeat(pa.scalar(TOO_LATE), len(row)), batch.reasons]),
            pa.concat_arrays([bounds, pa.nulls(bad, window)]),
            pa.concat_arrays([pa.array(late_by), pa.nulls(bad, pa.int64())]),
        ]
        records = [take_rows(batch.usable.table, row), take_rows(batch.bad, np.arange(bad))]
        chunks, at = [], 0
        for piece in pa.concat_tables(map(self._records, records)).to_batches():
            record = pa.StructArray.from_arrays(piece.columns, fields=list(self.record))
            parts = [*(column.slice(at, len(record)) for column in columns), record]
            chunks.append(pa.StructArray.from_arrays(parts, fields=list(type_)))
            at += len(record)
        return pa.chunked_array(chunks, type_)

    def _time(self, ticks: Ints) -> pa.Array:
        return pa.array(to_unit(ticks, self.tick_us, self.time.unit)).cast(self.time)

    def _records(self, table: pa.Table) -> pa.Table:
        columns = [table.column(field.name).cast(field.type) for field in self.record]
        return pa.Table.from_arrays(columns, schema=self.record)

    def joined(self, rows: pa.Table, reports: pa.ChunkedArray) -> pa.Table:
        """Return an operator's rows and the reports of late records as one table, of the schema `with_reports`."""
        schema = self.with_reports(rows.schema)
        columns = [
            pa.chunked_array([*column.chunks, pa.nulls(len(reports), column.type)], column.type)
            for column in rows.columns
        ]
        late = pa.chunked_array([pa.nulls(rows.num_rows, reports.type), *reports.chunks])
        return pa.Table.from_arrays([*columns, late], schema=schema)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([_NONE, *parts])
