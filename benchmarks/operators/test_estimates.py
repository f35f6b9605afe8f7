"""Are estimates as fast as what they estimate? Rolling windows over a minute and an hour, of one key and of a hundred.

With one key, a window of an hour has 36,000 records. By processor time, in batches of 50,000.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.measure import Measure
from benchmarks.operators.feeding import fed
from operators import RollingWindows
from operators import aggregates as agg
from operators.aggregates import Aggregate

ROWS, BATCH, GAP_MS = 150_000, 50_000, 100
RESULTS: dict[str, Callable[[], Aggregate]] = {
    "count": agg.count,
    "sum": lambda: agg.sum("v"),
    "count_distinct": lambda: agg.count_distinct("v"),
    "count_distinct of categories": lambda: agg.count_distinct("c"),
    "approx_count_distinct": lambda: agg.approx_count_distinct("v"),
    "percentile": lambda: agg.percentile("v", [0.5, 0.99]),
    "approx_quantiles": lambda: agg.approx_quantiles("v", [0.5, 0.99]),
    "top_n": lambda: agg.top_n("v", 3),
    "histogram": lambda: agg.histogram("c"),
    "approx_top_k": lambda: agg.approx_top_k("c", 5, 100),
    "sum by category": lambda: agg.sum("v").by("c"),
    "decayed_sum": lambda: agg.decayed_sum("v", "10 minutes"),
}


@pytest.mark.parametrize("keys", [1, 100])
@pytest.mark.parametrize("name", RESULTS)
def test_estimates(measure: Measure, name: str, keys: int) -> None:
    number = np.arange(ROWS)
    at, values = pa.array(number * GAP_MS, pa.timestamp("ms")), np.random.default_rng(0).permutation(ROWS)
    table = pa.table({"k": number % keys, "at": at, "v": values, "c": values % 30})
    operator = RollingWindows({"m": "1 minute", "h": "1 hour"}).group_by("k").aggregate(r=RESULTS[name]())
    rows = measure.processor(
        lambda: fed(operator, table, "memory", BATCH), section="estimates", system=name, rows=ROWS, keys=keys
    )
    assert rows > 0.99 * ROWS
