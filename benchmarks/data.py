"""Records for benchmarks, the operator that they are run through, and how a stream is timed."""

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from operators import SlidingWindows, WindowedAggregation
from operators import aggregates as agg

FILES, ROWS = 10, 500_000
SCHEMA = "k bigint, at timestamp, v double"
"""What benchmarks on Spark read: so many files of so many rows, one a batch."""
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


def run_stream(benchmark: Any, frame: Any, folder: Path) -> float:
    """Run a streaming frame to its end without a sink, and return the median seconds of its batches after the second."""
    seconds: list[float] = []

    def query() -> None:
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "cp"))
        running = writer.start()
        running.processAllAvailable()
        running.stop()
        progress = [p for p in running.recentProgress if p["numInputRows"]]
        seconds.extend(p["durationMs"]["triggerExecution"] / 1_000 for p in progress[2:])

    benchmark.pedantic(query, rounds=1)
    median = statistics.median(seconds)
    benchmark.extra_info["median seconds per batch"] = round(median, 3)
    return median
