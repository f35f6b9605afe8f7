"""What do maps of categories cost, and what would they cost if the category was a further key?

The state of `.by` has a pane for each key, with the states of its categories. If the category is a key, each pane is of one
category, and maps are made of the rows at the end. Beside a record, a map needs the value of each category of the window: then
each record asks for all of them, also for those that it does not have.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.measure import Measure
from operators import RollingAggregation, RollingWindows, TumblingWindows, WindowedAggregation
from operators import aggregates as agg
from operators.aggregates import Aggregate

ROWS, ROLLING_ROWS, BATCH, KEYS, GAP_MS = 150_000, 30_000, 50_000, 100, 100
BEFORE = 60
"""Earlier records of a key in the ten minutes until a record."""
CLOSED = 2**40
CATEGORIES: dict[str, tuple[tuple[str, ...], Callable[[], Aggregate]]] = {
    "sum": (("k",), lambda: agg.sum("v")),
    "sum by category": (("k",), lambda: agg.sum("v").by("c")),
    "sum, category a key": (("k", "c"), lambda: agg.sum("v")),
    "sum, category a key, then maps": (("k", "c"), lambda: agg.sum("v")),
    "histogram": (("k",), lambda: agg.histogram("c")),
    "approx_top_k": (("k",), lambda: agg.approx_top_k("c", 5, 100)),
    "count_distinct": (("k",), lambda: agg.count_distinct("c")),
}
"""Keys and a result."""
ROLLING = "sum", "sum by category", "sum, category a key", "sum, category a key, then maps"
Operator = WindowedAggregation | RollingAggregation


def records(rows: int, categories: int) -> pa.Table:
    """Records in order of event time, numbered; each key has one every ten seconds."""
    number, values = np.arange(rows), np.random.default_rng(0).permutation(rows)
    texts = np.array([f"category {n}" for n in range(categories)])[values % categories]
    at = pa.array(number * GAP_MS, pa.timestamp("ms"))
    return pa.table({"n": number, "k": number % KEYS, "at": at, "v": values, "c": texts})


def asked(table: pa.Table) -> pa.Table:
    """Return the records, and for each one a record without value for each other category of its ten minutes."""
    name, code = np.unique(table.column("c").to_numpy(zero_copy_only=False), return_inverse=True)
    numbers, codes = [], []
    for number in range(len(code)):
        begin = number % KEYS + KEYS * max(0, number // KEYS - BEFORE)
        there = np.unique(code[begin : number + 1 : KEYS])
        numbers.append(np.full(len(there), number))
        codes.append(there)
    row, c = np.concatenate(numbers), np.concatenate(codes)
    found = table.take(row)
    value = pc.if_else(pa.array(code[row] == c), found.column("v"), None)
    return found.set_column(3, "v", value).set_column(4, "c", pa.array(name[c]))


def with_maps(rows: pa.Table, by: str) -> pa.Table:
    """Return one row for each window or record, with a map from category to result."""
    rows = rows.sort_by([("k", "ascending"), (by, "ascending"), ("c", "ascending")])
    key, time = rows.column("k").to_numpy(), rows.column(by).to_numpy()
    begins = np.flatnonzero(np.r_[True, (key[1:] != key[:-1]) | (time[1:] != time[:-1])])
    offsets = pa.array(np.append(begins, len(rows)), pa.int32())
    items = (rows.column(name).combine_chunks() for name in ("c", "r"))
    first = rows.select(["k", by]).take(begins)
    return first.append_column("r", pa.MapArray.from_arrays(offsets, *items))


def run(operator: Operator, table: pa.Table, by: str, maps: bool) -> tuple[pa.Table, int]:
    """Feed all batches; return the rows, and the bytes of state when no more records come."""
    with operator.local_runner("at") as runner:
        rows = [runner.process(table.slice(at, BATCH)) for at in range(0, len(table), BATCH)]
        state = runner.metrics["state_bytes"]
        rows.append(runner.process(table.slice(0, 0), CLOSED))
    emitted = pa.concat_tables(rows)
    if by == "start":
        emitted = emitted.append_column("start", pc.struct_field(emitted.column("window"), "start"))
    return (with_maps(emitted, by) if maps else emitted), state


def in_order(rows: pa.Table, by: str) -> list[tuple[object, ...]]:
    """The maps by key and window or record."""
    columns = (rows.column(name).to_pylist() for name in ("k", by, "r"))
    return sorted(zip(*columns, strict=True), key=lambda row: row[:2])


@pytest.mark.parametrize("categories", [3, 300])
@pytest.mark.parametrize("name", CATEGORIES)
def test_categories(measure: Measure, name: str, categories: int) -> None:
    """Tumbling windows of ten minutes and 100 keys, with 60 records of each key."""
    (keys, result), table, maps = CATEGORIES[name], records(ROWS, categories), name.endswith("maps")
    operator = TumblingWindows("10 minutes").group_by(*keys).aggregate(r=result())
    rows, state = measure.processor(
        lambda: run(operator, table, "start", maps),
        section="categories",
        system=name,
        rows=ROWS,
        categories=categories,
    )
    measure.note(state_bytes=state)
    assert rows.num_rows > 0
    if maps:
        by = TumblingWindows("10 minutes").group_by("k").aggregate(r=agg.sum("v").by("c"))
        assert in_order(run(by, table, "start", False)[0], "start") == in_order(rows, "start")


@pytest.mark.parametrize("categories", [3, 300])
@pytest.mark.parametrize("name", ROLLING)
def test_categories_beside_records(measure: Measure, name: str, categories: int) -> None:
    """The last ten minutes of 100 keys beside each record; without maps, the value of its own category alone."""
    (keys, result), given, maps = CATEGORIES[name], records(ROLLING_ROWS, categories), name.endswith("maps")
    table = asked(given) if maps else given
    windows = RollingWindows("10 minutes")
    operator = windows.group_by(*keys).aggregate(r=result()).emit("on_arrival")
    rows, state = measure.processor(
        lambda: run(operator, table, "n", maps),
        section="categories beside records",
        system=name,
        rows=ROLLING_ROWS,
        rounds=1 if maps else 3,
        warmup=0 if maps else 1,
        categories=categories,
    )
    measure.note(state_bytes=state)
    assert ROLLING_ROWS == rows.num_rows
    if maps:
        by = windows.group_by("k").aggregate(r=agg.sum("v").by("c")).emit("on_arrival")
        assert in_order(run(by, given, "n", False)[0], "n") == in_order(rows, "n")
