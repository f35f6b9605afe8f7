"""A batch from its rows to the rows that come out: read it, and have the engine process it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from operators.columns.records import Records, Sifted
from operators.runtime.binding import Binding
from operators.runtime.processed import ROW, Processed
from operators.steps.late_reports import FailedRecords
from operators.steps.partials import Partials
from operators.steps.plan import Engine
from operators.steps.refused import Refused
from operators.steps.step import Counters, FailedCall, Step


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as an engine takes it.

    Attributes:
        records: the usable records, accumulated if the plan has two stages.
        sifted: all rows by whether they can be used, if bad ones are not only counted.
        refused: usable records that aggregates leave out.
    """

    records: Records | Partials
    sifted: Sifted | None = None
    refused: Refused = field(default_factory=Refused)


def read_batch(binding: Binding, rows: Sequence[pa.Table], partials: Sequence[pa.Table] = ()) -> Batch:
    """Return a batch with its bad rows set aside, and refused records named, if these are needed.

    Arguments are those of `Binding.read`.
    """
    plan, columns = binding.plan, binding.inputs.records
    if not (binding.sifts or (binding.refuses and rows)):
        with binding.windows_named():
            return Batch(binding.read(rows, partials))
    sifted = columns.sift_all(rows) if binding.sifts else None
    records = columns.read(pa.concat_tables(rows)) if sifted is None else columns.records(sifted.usable)
    refused = Refused.by(plan.operations, records)
    two_stages = plan.two_stages
    return Batch(records if two_stages is None else two_stages.accumulate(records), sifted, refused)


@dataclass(frozen=True, slots=True)
class BatchRunner:
    """Runs batches.

    Attributes:
        binding: how their rows are read, and what comes out.
        engine: the engine of the binding's plan, over a store.
    """

    binding: Binding
    engine: Engine

    def run(
        self,
        batch: Batch,
        close_times: tuple[int, int],
        sequence: int = 0,
        failed_before: Sequence[FailedCall] = (),
        *,
        wide: bool = False,
    ) -> Processed:
        """Process one batch, and return what came of it.

        Args:
            batch: what `read_batch` returned.
            close_times: the close times at the start and at the end of the batch, in ticks.
            sequence: number of the batch, for rows that a later batch may replace.
            failed_before: calls that raised before the batch, to be reported with it.
            wide: whether columns that come out as they are may be too large for memory.
        """
        binding, sifted, records, table = self.binding, batch.sifted, batch.records, self.binding.table
        step = Step(*close_times, Counters(failed=len(failed_before) + len(batch.refused)))
        if sifted is not None:  # Otherwise late and failed ones are only counted.
            step.late, step.failed = [], [*failed_before]
            step.counters.rows = step.counters.bad = sifted.bad.num_rows
        source = None
        if wide and (apart := binding.plan.apart(binding.output, records, ROW)) is not None:
            source, numbered, records = apart
            table = numbered.table
        with binding.windows_named():
            rows = table(self.engine.step(records, step), sequence)
        failed = self._failed_records(step, batch)
        return Processed(binding, rows, step.counters, source, sifted, step.late or [], failed)

    def _failed_records(self, step: Step, batch: Batch) -> FailedRecords | None:
        """The records of a batch for which a function raised, to be reported; None if there are none."""
        late, inputs = self.binding.late, self.binding.inputs
        if late is None or batch.sifted is None or not (step.failed or len(batch.refused)):
            return None
        calls = late.failed(step.failed or [], dict(inputs.keys), inputs.event_time)
        if not len(batch.refused):
            return calls
        return calls.and_refused(late.of_rows(batch.sifted.usable.table, batch.refused))
