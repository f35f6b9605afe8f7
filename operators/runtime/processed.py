"""What came of a batch, as tables: the rows, then those whose time cannot be used, then reports of late and bad records.

A batch may be too large for memory. Then what comes out of it is made some MiB at a time: the step itself works on keys, times
and the columns that aggregates read. Of the other columns, which are read from where they are, it only needs to know which
rows come out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from operators.columns.ranges import Ints
from operators.columns.records import Sifted
from operators.runtime.binding import Binding
from operators.steps.late_reports import FailedRecords
from operators.steps.step import Counters, LateRecords
from serializers.arrays import PIECE_BYTES, Chunks, cut_rows, row_bytes

ROW = "row"
"""The column of numbers in place of those of the source."""


@dataclass(frozen=True, slots=True)
class Processed:
    """What came of a batch.

    Attributes:
        binding: the binding of the operator.
        emitted: rows; if there is a source, their first column is the position of a row in it.
        counters: what was counted.
        source: columns that come out as they are, if they are not among the rows.
        sifted: all rows of the batch by whether they can be used; None if bad ones are only counted.
        late: late records, to be reported.
        failed: records for which a function raised, to be reported; None if there are none.
    """

    binding: Binding
    emitted: pa.Table
    counters: Counters
    source: pa.Table | None = None
    sifted: Sifted | None = None
    late: Sequence[LateRecords] = ()
    failed: FailedRecords | None = None

    def tables(self, piece_bytes: int = PIECE_BYTES) -> Iterator[pa.Table]:
        """Yield what is to be emitted, as tables of the schema `Binding.rows`, one at a time, also after a commit.

        Args:
            piece_bytes: the size of a table, about; a row that is larger is a table of its own.
        """
        side = self.binding.late
        no_reports = None if side is None else pa.chunked_array([], side.type)
        for rows in self._row_pieces(piece_bytes):
            yield self.binding.with_late_rows(rows, no_reports)
        for reports in self._report_pieces(piece_bytes):
            yield self.binding.with_late_rows(self.binding.output.arrow.empty_table(), reports)

    @property
    def rows(self) -> pa.Table:
        """All rows, without reports."""
        return pa.concat_tables(self._row_pieces(PIECE_BYTES))

    @property
    def reports(self) -> pa.ChunkedArray | None:
        """All reports of late and bad records; None if they are only counted."""
        if self.binding.late is None:
            return None
        chunks = [chunk for reports in self._report_pieces(PIECE_BYTES) for chunk in reports.chunks]
        return pa.chunked_array(chunks, self.binding.late.type)

    def _row_pieces(self, piece_bytes: int) -> Iterator[pa.Table]:
        if self.source is None:
            yield self.emitted
        else:
            yield from self._with_columns(self.source, piece_bytes)
        labels = self.binding.labels
        if labels is not None and self.sifted is not None and self.sifted.bad.num_rows:
            yield labels.without_results(self.sifted.bad)

    def _with_columns(self, source: pa.Table, piece_bytes: int) -> Iterator[pa.Table]:
        """The rows with the columns of their row of the source."""
        at = self.emitted.column(0).to_numpy()
        first = 0
        for columns in _taken(source, at, piece_bytes):
            results = self.emitted.slice(first, columns.num_rows).columns[1:]
            yield pa.Table.from_arrays([*columns.columns, *results], schema=self.binding.output.arrow)
            first += columns.num_rows

    def _report_pieces(self, piece_bytes: int) -> Iterator[pa.ChunkedArray]:
        side, sifted = self.binding.late, self.sifted
        if side is None or sifted is None:
            return
        nothing = sifted.without_rows()
        for part in self.late:
            first = 0
            for rows in _taken(sifted.usable.table, part.row, piece_bytes):
                some = slice(first, first + rows.num_rows)
                late = LateRecords(
                    np.arange(rows.num_rows), part.start[some], part.end[some], part.close_time
                )
                yield side.reports(replace(nothing, usable=replace(nothing.usable, table=rows)), [late])
                first = some.stop
        for first, last in _cut(sifted.bad, piece_bytes):
            bad, reasons = (one.slice(first, last - first) for one in (sifted.bad, sifted.reasons))
            yield side.reports(replace(nothing, bad=bad, reasons=reasons), [])
        if self.failed is not None:
            for first, last in _cut(self.failed.records, piece_bytes):
                yield side.reports(nothing, [], self.failed.slice(first, last))


def _taken(table: pa.Table, rows: Ints, piece_bytes: int) -> Iterator[pa.Table]:
    """The rows at these positions, in tables of about so many bytes."""
    if table.nbytes <= piece_bytes:
        ranges = [(0, len(rows))] if len(rows) else []
    else:
        ranges = cut_rows(row_bytes(table)[rows], piece_bytes)
    chunks = Chunks(table)
    for first, last in ranges:
        yield chunks.take(rows[first:last])


def _cut(table: pa.Table, piece_bytes: int) -> list[tuple[int, int]]:
    return cut_rows(row_bytes(table), piece_bytes)
