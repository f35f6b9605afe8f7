"""A program of a user, who has installed the packages and has no source tree. It passes a strict type checker."""

from datetime import datetime
from importlib.metadata import version

import pyarrow as pa

import operators
from operators import RollingAggregation, RollingWindows, SlidingWindows, WindowedAggregation
from operators import aggregates as agg

op: WindowedAggregation = (
    SlidingWindows(size="1 minute").group_by("k").aggregate(n=agg.count(), s=agg.sum("v"))
)
beside: RollingAggregation = (
    RollingWindows({"1m": "1 minute", "ever": "lifetime"})
    .group_by("k")
    .aggregate(n=agg.count(), first=agg.first("v").over("ever"))
)
noon = datetime(2024, 1, 1, 12)
table = pa.table({"k": ["a", "a", "b"], "at": [noon, noon, noon.replace(hour=13)], "v": [1, 2, 3]})
with op.local_runner(event_time="at", backend="rocksdb") as runner:
    rows: list[dict[str, object]] = runner.process(table).to_pylist()
found = "".join(f"{row['k']}{row['n']}{row['s']}" for row in rows)
print(operators.__file__, version("spark-stateful-windows"), found)  # noqa: T201 - what the test reads
