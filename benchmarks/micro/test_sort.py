"""What does it cost a task that its rows come out of a shuffle, and are sorted before they go on?"""

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.measure import Measure
from operators import TumblingWindows
from operators import aggregates as agg
from operators.spark.inputs.packing import PACKED_COUNTS, Pack
from state_backends import resolve

OPERATOR = TumblingWindows("1 minute").group_by("k").aggregate(s=agg.sum("x"), m=agg.max("n"))
SECTION = "a sort behind a shuffle"
TIES = {"few": 1_000_000_000, "many": 1_000}
"""How many event times there are: rows of equal times are compared by what they hold."""


def rows_of(count: int, times: int) -> pa.Table:
    """Rows of 1,000 keys in any order."""
    rng = np.random.default_rng(count)
    return pa.table(
        {
            "k": pa.array([f"key {key}" for key in rng.integers(0, 1_000, count)]),
            "at": pa.array(rng.integers(0, times, count) * 1_000, pa.timestamp("us", "UTC")),
            "n": rng.integers(0, 100, count),
            "x": rng.random(count),
        }
    )


@pytest.mark.parametrize("count", [1_000, 100_000])
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("sorts", [True, False], ids=["sorted", "as they come"])
def test_first_stage(measure: Measure, ties: str, count: int, sorts: bool) -> None:
    rows = rows_of(count, TIES[ties])
    binding = OPERATOR.bind(rows.schema, "at", resolve("memory", {}))
    batches = rows.select(binding.inputs.names).to_batches(10_000)
    pack = Pack(binding, tuple(range(4)), sorts=sorts)
    told: list[int] = []

    def run() -> None:
        for batch in pack(iter(batches)):
            told.extend(
                counts[1 + PACKED_COUNTS.index("rows")] for counts in batch["counts"].to_pylist() if counts
            )

    measure(
        run,
        section=SECTION,
        system=f"{ties} equal times, {'sorted' if sorts else 'as they come'}",
        rows=count,
        rounds=9,
        records=f"{count:,}",
    )
    assert sum(told) % count == 0 < sum(told)
