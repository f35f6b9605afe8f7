"""A step over a batch that may be too large for memory: what comes out of it is made some MiB at a time.

The step itself works on keys, times and the columns that aggregates read. Of the other columns, which are read from where they
are, it only needs to know which rows come out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from operators.columns.records import Records, Sifted, UsableRows
from operators.engines.rolling import RollingPlan
from operators.engines.rolling_rows import RollingOutput
from operators.runtime.program import Batch, Engine, Program
from operators.steps.late_reports import FailedRecords, LateSide
from operators.steps.step import Counters, FailedCall, LateRecords, Step
from serializers.arrays import Chunks, cut_rows, row_bytes

_ROW = "row"


def process_wide(
    program: Program,
    engine: Engine,
    batch: Batch,
    closes: tuple[int, int],
    sequence: int,
    piece_bytes: int,
    failed_before: Sequence[FailedCall] = (),
) -> tuple[Iterator[pa.Table], Counters]:
    """Have an engine process one batch as `Program.process` does; return tables of the schema `rows`, and what was counted.

    Args:
        program: the operator's.
        engine, batch, closes, sequence, failed_before: as for `Program.process`.
        piece_bytes: of a table, about; a row that is larger is a table of its own.
    """
    sifted, records, output = batch.sifted, batch.records, program.output
    step = program.step(closes, batch, failed_before)
    source = None
    arrival = isinstance(program.plan, RollingPlan) and program.plan.on_arrival
    if (
        arrival
        and isinstance(output, RollingOutput)
        and isinstance(records, Records)
        and records.rows is not None
    ):
        source, output = records.rows.select([name for name, _, _ in output.rows]), output.by_row(_ROW)
        records = replace(records, rows=pa.table({_ROW: np.arange(source.num_rows)}))
    rows = output.table(engine.step(records, step), sequence)
    if sifted is not None:
        step.counters.rows += sifted.bad.num_rows
        step.counters.bad += sifted.bad.num_rows
    return _tables(program, rows, source, batch, step, piece_bytes), step.counters


def _tables(
    program: Program,
    rows: pa.Table,
    source: pa.Table | None,
    batch: Batch,
    step: Step,
    piece_bytes: int,
) -> Iterator[pa.Table]:
    side, sifted = program.late, batch.sifted
    nothing = None if side is None else pa.chunked_array([], side.type)
    for table in [rows] if source is None else _with_columns(rows, source, program.output.arrow, piece_bytes):
        yield program.joined(table, nothing)
    if sifted is None:
        return
    if program.labels is not None and sifted.bad.num_rows:
        yield program.joined(program.labels.without_results(sifted.bad), nothing)
    if side is not None:
        for reports in _reports(side, sifted, step.late or [], program.failed(step, batch), piece_bytes):
            yield program.joined(program.output.arrow.empty_table(), reports)


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
