"""Late and bad records as a side output: each with the reason why it is in no window."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from operators.columns.arrow import to_unit
from operators.columns.python_values import arrow_values
from operators.columns.ranges import Ints
from operators.columns.records import Sifted
from operators.steps.refused import Refused
from operators.steps.step import FailedCall, LateRecords
from serializers import decode_keys
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

    def reports(
        self, batch: Sifted, late: Sequence[LateRecords], failed: "FailedRecords | None" = None
    ) -> pa.ChunkedArray:
        """Return the reports of a batch's late and bad records, and of those that could not be processed.

        Args:
            batch: its rows.
            late: which of the usable ones were late.
            failed: records of this batch or of earlier ones whose function raised.
        """
        reasons = [batch.reasons, *([] if failed is None else [failed.reasons])]
        row = _concat([report.row for report in late])
        start, end = (
            _concat([report.start for report in late]),
            _concat([report.end for report in late]),
        )
        late_by = to_unit(_concat([report.close_time - report.end for report in late]), self.tick_us, "ms")
        bad, type_ = sum(map(len, reasons)), self.type
        window = type_.field("window").type
        bounds = pa.StructArray.from_arrays([self._time(start), self._time(end)], fields=list(window))
        columns = [
            pa.concat_arrays([pa.repeat(pa.scalar(TOO_LATE), len(row)), *reasons]),
            pa.concat_arrays([bounds, pa.nulls(bad, window)]),
            pa.concat_arrays([pa.array(late_by), pa.nulls(bad, pa.int64())]),
        ]
        records = [take_rows(batch.usable.table, row), take_rows(batch.bad, np.arange(batch.bad.num_rows))]
        tables = [*map(self._records, records), *([] if failed is None else [failed.records])]
        chunks, at = [], 0
        for piece in pa.concat_tables(tables).to_batches():
            record = pa.StructArray.from_arrays(piece.columns, fields=list(self.record))
            parts = [*(column.slice(at, len(record)) for column in columns), record]
            chunks.append(pa.StructArray.from_arrays(parts, fields=list(type_)))
            at += len(record)
        return pa.chunked_array(chunks, type_)

    def with_unknown(self) -> "LateSide":
        """Return the same with records of which columns may be unknown, and so null."""
        return replace(self, record=pa.schema([field.with_nullable(True) for field in self.record]))

    def of_rows(self, rows: pa.Table, refused: Refused) -> "FailedRecords":
        """Return refused records, as they came.

        Args:
            rows: the rows of the batch, those that can be used.
            refused: which of them.
        """
        return FailedRecords(refused.reasons, self._records(take_rows(rows, refused.row)))

    def failed(
        self, calls: Sequence[FailedCall], keys: Mapping[str, pa.DataType], event_time: str
    ) -> "FailedRecords":
        """Return what is known of the records of calls that raised; other columns are null.

        Args:
            calls: the calls.
            keys: names in the frame and Arrow types of the key columns.
            event_time: name of the event-time column, which is known to a tick.
        """
        if not calls:
            return FailedRecords(pa.nulls(0, pa.string()), self.record.empty_table())
        decoded = decode_keys([call.key for call in calls], list(keys.values()))
        known = dict(zip(keys, decoded, strict=True))
        input_names = {name for call in calls for name in call.values}
        columns = [self._column(field, calls, known, input_names, event_time) for field in self.record]
        reasons = pa.array([call.reason for call in calls], pa.string())
        return FailedRecords(reasons, pa.Table.from_arrays(columns, schema=self.record))

    def _column(
        self,
        field: pa.Field,
        calls: Sequence[FailedCall],
        known: Mapping[str, pa.Array],
        input_names: Collection[str],
        event_time: str,
    ) -> pa.Array:
        if field.name in input_names:
            return arrow_values([call.values.get(field.name) for call in calls], field.type)
        if field.name in known:
            return known[field.name].cast(field.type)
        if field.name != event_time:
            return pa.nulls(len(calls), field.type)
        missing = np.array([call.time is None for call in calls])
        ticks = np.array([call.time or 0 for call in calls], np.int64)
        if pa.types.is_timestamp(field.type):
            ticks = to_unit(ticks, self.tick_us, field.type.unit)
        return pa.array(ticks, mask=missing).cast(field.type)

    def _time(self, ticks: Ints) -> pa.Array:
        return pa.array(to_unit(ticks, self.tick_us, self.time.unit)).cast(self.time)

    def _records(self, table: pa.Table) -> pa.Table:
        columns = [table.column(field.name).cast(field.type) for field in self.record]
        return pa.Table.from_arrays(columns, schema=self.record)

    def join(self, rows: pa.Table, reports: pa.ChunkedArray) -> pa.Table:
        """Return an operator's rows and the reports of late records as one table, of the schema `with_reports`."""
        schema = self.with_reports(rows.schema)
        columns = [
            pa.chunked_array([*column.chunks, pa.nulls(len(reports), column.type)], column.type)
            for column in rows.columns
        ]
        late = pa.chunked_array([pa.nulls(rows.num_rows, reports.type), *reports.chunks])
        return pa.Table.from_arrays([*columns, late], schema=schema)


@dataclass(frozen=True, slots=True)
class FailedRecords:
    """Records whose function raised, with what is known of them.

    Attributes:
        reasons: which function raised what.
        records: the records, in the columns that are reported.
    """

    reasons: pa.Array
    records: pa.Table

    def slice(self, first: int, last: int) -> "FailedRecords":
        """Return those from `first` to before `last`."""
        return FailedRecords(self.reasons[first:last], self.records.slice(first, last - first))

    def and_refused(self, others: "FailedRecords") -> "FailedRecords":
        """Return these and others."""
        reasons = pa.concat_arrays([self.reasons, others.reasons])
        return FailedRecords(reasons, pa.concat_tables([self.records, others.records]))


def _concat(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([_NONE, *parts])
