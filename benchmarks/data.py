"""Records for benchmarks, and the windows that they are put into."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from operators import (
    HoppingWindows,
    RollingAggregation,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    WindowedAggregation,
)
from operators import aggregates as agg
from operators.aggregates import Aggregate

RECORDS, KEYS, GAP_MS = 1_000_000, 100, 100
"""A million records of a hundred keys; a key has one every 100 ms on average."""
BATCH = 100_000
"""Records of a batch of the local runner."""
PER_WINDOW = 10, 100, 1_000, 10_000
SCHEMA = "k bigint, at timestamp, v double"
"""The records to Spark."""
_EARLIEST = 1_700_000_000
"""Time of change of a stream's first file, in seconds."""
KINDS = {
    "tumbling": TumblingWindows("10 seconds"),
    "hopping": HoppingWindows("60 seconds", "600 ms"),
    "session": SessionWindows("200 ms"),
}
"""Tumbling windows of 100 records, hopping windows of 600 with an advance of 1 %, sessions of 7 on average."""


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


def delayed(table: pa.Table, share: float, longest_ms: int, seed: int = 1) -> pa.Table:
    """Return the records in order of arrival if a share of them is up to `longest_ms` late."""
    rng = np.random.default_rng(seed)
    at = table.column("at").cast("int64").to_numpy()
    arrival = at + (rng.random(len(at)) < share) * rng.integers(0, longest_ms + 1, len(at))
    return table.take(np.argsort(arrival, kind="stable"))


def spark_times(table: pa.Table) -> pa.Table:
    """Return the records with times as Spark reads them."""
    at = table.column("at").cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return table.set_column(1, "at", at)


def write_next(table: pa.Table, path: Path, number: int) -> None:
    """Write records as a file of a stream that comes after those of lower numbers; a running query sees it whole."""
    aside = path.with_name(f"_{path.name}")
    pq.write_table(spark_times(table), aside)
    os.utime(aside, (_EARLIEST + number,) * 2)  # Spark reads files in order of this.
    aside.rename(path)


def in_turn(batches: int, keys: int, seed: int = 0) -> list[pa.Table]:
    """Return batches of `BATCH` records in order of event time, in each of which all keys are equally frequent."""
    rng = np.random.default_rng(seed)
    span = BATCH // keys * GAP_MS
    tables = []
    for number in range(batches):
        at = np.sort(rng.integers(number * span, (number + 1) * span, BATCH))
        key = rng.permutation(np.arange(BATCH) % keys)
        columns = {"k": key, "at": pa.array(at, pa.timestamp("ms")), "v": rng.random(BATCH)}
        tables.append(pa.table(columns))
    return tables


def five_aggregates() -> Mapping[str, Aggregate]:
    """Count, sum, min, max and mean."""
    return {
        "n": agg.count(),
        "total": agg.sum("v"),
        "low": agg.min("v"),
        "high": agg.max("v"),
        "mean": agg.avg("v"),
    }


def operator(per_window: int, grace_ms: int = 0, emit: str = "on_close") -> WindowedAggregation:
    """Return sliding windows of so many records on average, with five aggregates."""
    windows = SlidingWindows(size=per_window * GAP_MS, grace=grace_ms).group_by("k")
    return windows.aggregate(**five_aggregates()).emit(emit)


def rolling(*per_window: int, grace_ms: int = 0, emit: str = "on_close") -> RollingAggregation:
    """Return rolling windows of so many records on average, with the same aggregates for each lookback."""
    windows = RollingWindows({str(n): n * GAP_MS for n in per_window}, grace=grace_ms)
    return windows.group_by("k").aggregate(**five_aggregates()).emit(emit)


def operator_of(kind: str) -> WindowedAggregation:
    """Return windows of another kind, with the same aggregates, on close."""
    return KINDS[kind].group_by("k").aggregate(**five_aggregates())
