"""Records for benchmarks, and the operator that they are run through."""

import numpy as np
import pyarrow as pa

from operators import SlidingWindows, WindowedAggregation
from operators import aggregates as agg

RECORDS, KEYS, GAP_MS = 1_000_000, 100, 100
"""A million records of a hundred keys; a key has one every 100 ms on average."""


def records(count: int = RECORDS, keys: int = KEYS, seed: int = 0) -> pa.Table:
    """Return records in order of event time: k bigint, at timestamp[ms], v double."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, count // keys * GAP_MS, count))
    columns = {
        "k": rng.integers(0, keys, count),
        "at": pa.array(at, pa.timestamp("ms")),
        "v": rng.random(count),
    }
    return pa.table(columns)


def operator(per_window: int) -> WindowedAggregation:
    """Return sliding windows of so many records on average, with five aggregates, on close."""
    windows = SlidingWindows(size=per_window * GAP_MS).group_by("k")
    return windows.aggregate(
        n=agg.count(), total=agg.sum("v"), low=agg.min("v"), high=agg.max("v"), mean=agg.avg("v")
    )
