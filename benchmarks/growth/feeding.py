"""What several curves have in common: an operator on the local runner, by processor time."""

from typing import Any

import pyarrow as pa

from benchmarks.measure import Measure
from benchmarks.operators.feeding import fed
from operators import RollingAggregation, WindowedAggregation


def processor_of(
    measure: Measure,
    operator: WindowedAggregation | RollingAggregation,
    table: pa.Table,
    backend: str,
    *,
    section: str,
    rounds: int = 3,
    **axes: Any,
) -> None:
    """Measure the processor time of all batches of a table; rows must come out."""
    rows = measure.processor(
        lambda: fed(operator, table, backend),
        section=section,
        system=backend,
        rows=len(table),
        rounds=rounds,
        **axes,
    )
    assert rows
