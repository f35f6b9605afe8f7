"""How fast are tumbling, hopping and session windows without Spark, on which backend?"""

import pyarrow as pa
import pytest

from benchmarks.data import KEYS, KINDS, RECORDS, operator_of
from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.operators.feeding import fed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["memory", "rocksdb", full("spark")])
def test_on_close(measure: Measure, table: pa.Table, backend: str, kind: str) -> None:
    windows = measure(
        lambda: fed(operator_of(kind), table, backend),
        section=f"{kind} windows, local",
        system=backend,
        rows=RECORDS,
        keys=KEYS,
    )
    assert windows
