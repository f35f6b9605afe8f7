"""What aggregates cost beside each other: `python -m benchmarks.operators.aggregates` prints the documentation's table.

Processor time in turn, as a multiple of that of `sum`: tumbling windows combine few panes, lookbacks many for each record.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.operators.feeding import fed
from operators import RollingAggregation, RollingWindows, TumblingWindows, WindowedAggregation
from operators import aggregates as agg
from operators.aggregates import Aggregate

ROWS, BATCH, GAP_MS, CATEGORIES, ROUNDS = 150_000, 50_000, 100, 30, 5
SUM = "`sum`"
AGGREGATES: dict[str, Callable[[], Aggregate]] = {
    SUM: lambda: agg.sum("v"),
    "`decayed_sum`": lambda: agg.decayed_sum("v", "10 minutes"),
    "`decayed_avg`": lambda: agg.decayed_avg("v", "10 minutes"),
    "`count_distinct` of the category": lambda: agg.count_distinct("c"),
    "`histogram` of the category": lambda: agg.histogram("c"),
    "`approx_top_k` of the category, k = 5 of 100": lambda: agg.approx_top_k("c", 5, 100),
    "`sum`, `.by` the category": lambda: agg.sum("v").by("c"),
}
COLUMNS = {
    f"{kind}, {keys} key{'s' if keys > 1 else ''}": (kind, keys)
    for kind in ("tumbling", "beside records")
    for keys in (1, 100)
}


def records(rows: int, keys: int) -> pa.Table:
    """Records in order of event time."""
    number, random = np.arange(rows), np.random.default_rng(0)
    categories = np.array([f"category {n}" for n in range(CATEGORIES)])
    return pa.table(
        {
            "k": number % keys,
            "at": pa.array(number * GAP_MS, pa.timestamp("ms")),
            "v": random.integers(0, 100, rows),
            "c": categories[random.integers(0, CATEGORIES, rows)],
        }
    )


def operator(kind: str, aggregate: Aggregate) -> WindowedAggregation | RollingAggregation:
    """Tumbling windows of ten minutes, or the last minute and the last hour beside each record."""
    if kind == "tumbling":
        return TumblingWindows("10 minutes").group_by("k").aggregate(r=aggregate)
    return (
        RollingWindows({"m": "1 minute", "h": "1 hour"})
        .group_by("k")
        .aggregate(r=aggregate)
        .emit("on_arrival")
    )


def processor_time(kind: str, name: str, table: pa.Table) -> float:
    """Seconds of the processor that all batches take in memory."""
    began = time.process_time()
    fed(operator(kind, AGGREGATES[name]()), table, "memory", BATCH)
    return time.process_time() - began


def multiples(kind: str, keys: int, rows: int, rounds: int) -> dict[str, float]:
    """By aggregate, the median of its time over that of `sum` in the same round."""
    table, found = records(rows, keys), {name: list[float]() for name in AGGREGATES}
    for turn in range(rounds + 1):
        took = {name: processor_time(kind, name, table) for name in AGGREGATES}
        if turn:  # the first round loads modules
            for name, times in found.items():
                times.append(took[name] / took[SUM])
    return {name: statistics.median(times) for name, times in found.items()}


def main(options: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators.aggregates", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args(options)
    print(f"| | {' | '.join(COLUMNS)} |\n|---{'|---' * len(COLUMNS)}|")
    columns = []
    for title, (kind, keys) in COLUMNS.items():
        print(f"{title} ...", file=sys.stderr)
        columns.append(multiples(kind, keys, chosen.rows, chosen.rounds))
    for name in AGGREGATES:
        if name != SUM:
            print(f"| {name} | {' | '.join(f'{column[name]:.2g}' for column in columns)} |")


if __name__ == "__main__":
    main()
