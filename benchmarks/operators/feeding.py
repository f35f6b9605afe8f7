"""How the local runner is fed."""

import pyarrow as pa

from benchmarks.data import BATCH
from operators import RollingAggregation, WindowedAggregation


def fed(
    operator: WindowedAggregation | RollingAggregation, table: pa.Table, backend: str, batch: int = BATCH
) -> int:
    """Feed all batches and return the number of rows that come out."""
    with operator.local_runner(event_time="at", backend=backend) as runner:
        return sum(runner.process(table.slice(at, batch)).num_rows for at in range(0, len(table), batch))
