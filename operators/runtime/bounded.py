"""Batch mode: one pass over rows sorted by key and time, every window closes at the end of its key."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from operators.batch import FAR_FUTURE, FAR_PAST, event_ticks, number_keys
from operators.emission import Counters, Emission
from operators.program import Program, WindowOperator
from operators.runtime.packing import gathered
from state_backends.memory import MemoryBackend

_ROWS_PER_STEP = 250_000


@dataclass(frozen=True)
class BoundedRun:
    """Runs a program over one partition of a bounded frame.

    Memory is bounded by a step's rows, whatever the number of keys; a key with more rows than that is taken in several
    steps, as a stream in order of time.

    Attributes:
        program: with every row's window emitted once, whatever the policy: after the last record they agree.
    """

    program: Program

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the windows of a partition that is sorted by key and event time."""
        open_key: WindowOperator | None = None
        waiting: pa.Table | None = None
        for part in gathered(batches, _ROWS_PER_STEP):
            named = part.rename_columns(self.program.inputs)
            table = named if waiting is None else pa.concat_tables([waiting, named])
            edge = self._last_key_start(table)
            if edge > 0:
                yield from self._step(open_key or self._operator(), table.slice(0, edge), FAR_FUTURE)
                open_key = None
            waiting = table.slice(edge)
            if waiting.num_rows > _ROWS_PER_STEP:
                open_key = open_key or self._operator()
                yield from self._step(open_key, waiting, None)
                waiting = waiting.slice(waiting.num_rows - 1, 0)
        if waiting is not None:
            yield from self._step(open_key or self._operator(), waiting, FAR_FUTURE)

    def _operator(self) -> WindowOperator:
        return self.program.plan.operator(self.program.store(MemoryBackend()))

    def _last_key_start(self, table: pa.Table) -> int:
        """Where the rows of the last key begin."""
        number, _ = number_keys([table.column(name) for name in self.program.group_by], table.num_rows)
        others = np.flatnonzero(number != number[-1])
        return int(others[-1]) + 1 if len(others) else 0

    def _step(self, operator: WindowOperator, table: pa.Table, close: int | None) -> Iterator[pa.RecordBatch]:
        """Take rows and close what ends before `close`, or by default before the last row."""
        if close is None:
            close = self._latest(table)
        emitted: list[Emission] = operator.step(self.program.read([table]), operator.close, close, Counters())
        yield from self.program.output.table(emitted).to_batches()

    def _latest(self, table: pa.Table) -> int:
        """The latest event time in ticks, or the far past."""
        time, usable = event_ticks(table.column(self.program.event_time), self.program.tick_us)
        time = time if usable is None else time[usable]
        return int(time.max()) if len(time) else FAR_PAST
