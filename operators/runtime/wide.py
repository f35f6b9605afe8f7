"""A step over a batch that may be too large for memory: what comes out of it is made some MiB at a time.

The step itself works on keys, times and the columns that aggregates read. Of the other columns, which are read from where they
are, it only needs to know which rows come out.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from operators.columns.records import Sifted, UsableRows
from operators.runtime.batch_runner import Batch, BatchRunner, begin_step, count_bad, failed_records
from operators.runtime.binding import Binding
from operators.steps.late_reports import FailedRecords, LateSide
from operators.steps.step import Counters, FailedCall, LateRecords, Step
from serializers.arrays import Chunks, cut_rows, row_bytes

_ROW = "row"


def run_wide(
    runner: BatchRunner,
    batch: Batch,
    close_times: tuple[int, int],
    sequence: int,
    piece_bytes: int,
    failed_before: Sequence[FailedCall] = (),
) -> tuple[Iterator[pa.Table], Counters]:
    """Process one batch as `BatchRunner.run` does; return tables of the schema `rows`, and what was counted.

    Args:
        runner: of the engine.
        batch, close_times, sequence, failed_before: as for `BatchRunner.run`.
        piece_bytes: of a table, about; a row that is larger is a table of its own.
    """
    binding, sifted, records = runner.binding, batch.sifted, batch.records
    output, step = binding.output, begin_step(batch, close_times, failed_before)
    source = None
    if (apart := binding.plan.apart(output, records, _ROW)) is not None:
        source, output, records = apart
    rows = output.table(runner.engine.step(records, step), sequence)
    if sifted is not None:
        count_bad(sifted, step)
    return _tables(binding, rows, source, batch, step, piece_bytes), step.counters


def _tables(
    binding: Binding,
    rows: pa.Table,
    source: pa.Table | None,
    batch: Batch,
    step: Step,
    piece_bytes: int,
) -> Iterator[pa.Table]:
    side, sifted = binding.late, batch.sifted
    nothing = None if side is None else pa.chunked_array([], side.type)
    for table in [rows] if source is None else _with_columns(rows, source, binding.output.arrow, piece_bytes):
        yield binding.with_late_rows(table, nothing)
    if sifted is None:
        return
    if binding.labels is not None and sifted.bad.num_rows:
        yield binding.with_late_rows(binding.labels.without_results(sifted.bad), nothing)
    if side is not None:
        for reports in _reports(
            side, sifted, step.late or [], failed_records(binding, step, batch), piece_bytes
        ):
            yield binding.with_late_rows(binding.output.arrow.empty_table(), reports)


def _with_columns(
    rows: pa.Table, source: pa.Table, schema: pa.Schema, piece_bytes: int
) -> Iterator[pa.Table]:
    """Rows that have the position of a row of the source as their first column, with that row's columns in its place."""
    at, chunks = rows.column(0).to_numpy(), Chunks(source)
    for first, last in cut_rows(row_bytes(source)[at], piece_bytes):
        columns = chunks.take(at[first:last]).columns
        results = rows.slice(first, last - first).columns[1:]
        yield pa.Table.from_arrays([*columns, *results], schema=schema)


def _reports(
    side: LateSide,
    sifted: Sifted,
    late: Sequence[LateRecords],
    failed: FailedRecords | None,
    piece_bytes: int,
) -> Iterator[pa.ChunkedArray]:
    usable, chunks = sifted.usable.table, Chunks(sifted.usable.table)
    none, sizes = np.empty(0, np.int64), row_bytes(usable)
    no_rows, no_reasons = UsableRows(usable.slice(0, 0), none, None, 0), sifted.reasons.slice(0, 0)
    for part in late:
        for first, last in cut_rows(sizes[part.row], piece_bytes):
            some = slice(first, last)
            taken = UsableRows(chunks.take(part.row[some]), none, None, 0)
            told = LateRecords(np.arange(last - first), part.start[some], part.end[some], part.close_time)
            yield side.reports(Sifted(taken, sifted.bad.slice(0, 0), no_reasons), [told])
    for first, last in cut_rows(row_bytes(sifted.bad), piece_bytes):
        bad = sifted.bad.slice(first, last - first)
        yield side.reports(Sifted(no_rows, bad, sifted.reasons.slice(first, last - first)), [])
    if failed is not None:
        nothing = Sifted(no_rows, sifted.bad.slice(0, 0), no_reasons)
        for first, last in cut_rows(row_bytes(failed.records), piece_bytes):
            some = slice(first, last)
            yield side.reports(nothing, [], FailedRecords(failed.reasons[some], failed.records[some]))
