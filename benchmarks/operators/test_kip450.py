"""What does it cost to add each record to each window that contains it (KIP-450), compared with combining panes?

All get the same rows in the same batches on the memory backend and emit the same windows on close. Folds of NumPy columns
show what the way costs; those in plain Python what `agg.fold` costs on top: by KIP-450 without `merge`, by panes with it.
"""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

from benchmarks.data import GAP_MS, records
from benchmarks.marks import full
from benchmarks.measure import Measure
from operators import SlidingWindows
from operators import aggregates as agg
from operators.engines.fold_engine import FoldPlan
from operators.kinds.fold_sliding import FoldedSliding
from operators.runtime.binding import Binding
from operators.runtime.local import LocalRunner
from state_backends import StateConfig, resolve

KEYS, BATCH = 10, 10_000
ROWS = {10: 1_000_000, 100: 400_000, 1_000: 100_000}
PYTHON_ROWS = {10: 100_000, 100: 40_000, 1_000: 20_000}
"""Rows by records per window: as many as take seconds. Panes get the larger number."""
COLUMNS = {"n": agg.count(), "total": agg.sum("v")}
PYTHON = {
    "n": agg.fold(0, lambda n: n + 1, type="bigint"),
    "total": agg.fold(0.0, lambda total, v: total + v, "v", type="double"),
}
MERGED = {
    "n": agg.fold(0, lambda n: n + 1, type="bigint", merge=lambda a, b: a + b),
    "total": agg.fold(0.0, lambda total, v: total + v, "v", type="double", merge=lambda a, b: a + b),
}
WAYS = {
    "panes": (COLUMNS, False),
    "KIP-450": (COLUMNS, True),
    "KIP-450 in Python": (PYTHON, True),
    "panes in Python": (MERGED, False),
}


def runner(per_window: int, way: str) -> LocalRunner:
    """A runner of windows of so many records on average, by panes or by folds."""
    aggregates, by_fold = WAYS[way]
    windows = SlidingWindows(size=per_window * GAP_MS)
    operator = windows.group_by("k").aggregate(**aggregates)

    def bind(schema: pa.Schema, config: StateConfig) -> Binding:
        binding = operator.bind(schema, "at", config)
        if not by_fold:
            return binding
        kind = FoldedSliding(windows.size_ticks)
        return replace(binding, plan=FoldPlan(kind, False, binding.output.operations))

    return LocalRunner(bind, resolve(), None)


def run(table: pa.Table, per_window: int, way: str) -> int:
    """Feed all batches and return the number of windows."""
    with runner(per_window, way) as running:
        return sum(running.process(table.slice(at, BATCH)).num_rows for at in range(0, len(table), BATCH))


@pytest.mark.parametrize("per_window", [10, full(100), 1_000])
@pytest.mark.parametrize("way", WAYS)
def test_ways(measure: Measure, way: str, per_window: int) -> None:
    rows = (PYTHON_ROWS if "Python" in way else ROWS)[per_window]
    table = records(rows, KEYS)
    windows = measure(
        lambda: run(table, per_window, way),
        section="panes beside KIP-450",
        system=way,
        rows=rows,
        rounds=1 if "Python" in way else 3,
        warmup=0 if "Python" in way else 1,
        per_window=per_window,
    )
    assert windows > 1.5 * (rows - per_window * KEYS)


def test_results_agree() -> None:
    """All ways make the same windows: no benchmark compares unequal work."""
    table, emitted = records(5_000, KEYS), {}
    for way in WAYS:
        with runner(100, way) as running:
            emitted[way] = running.process(table, stream_time=10**12).sort_by("k").to_pydict()

    counts: Mapping[str, list[int]] = {way: sorted(columns["n"]) for way, columns in emitted.items()}
    totals = {way: sorted(columns["total"]) for way, columns in emitted.items()}
    for way in WAYS:
        assert counts["panes"] == counts[way]
        assert pytest.approx(totals["panes"]) == totals[way]
