"""How fast is the local runner, on which backend, with how many records per window? Beside polars on the same rows.

polars gets the whole data at once, sorted, keeps no state, uses all cores and makes left windows only; the runner gets
batches of 100,000 rows, keeps its state on a backend, uses one core and makes left and right windows.
"""

import polars as pl
import pyarrow as pa
import pytest

from benchmarks.data import RECORDS, operator, records

BATCH = 100_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """The million records."""
    return records()


def run(table: pa.Table, backend: str, per_window: int) -> int:
    """Feed all batches and return the number of windows."""
    with operator(per_window).local_runner(event_time="at", backend=backend) as runner:
        return sum(runner.process(table.slice(at, BATCH)).num_rows for at in range(0, table.num_rows, BATCH))


@pytest.mark.parametrize("per_window", [10, 100, 1_000])
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_local_runner(benchmark, table: pa.Table, backend: str, per_window: int) -> None:
    benchmark.group = f"{per_window} records per window"
    benchmark.extra_info["records"] = RECORDS
    windows = benchmark.pedantic(run, (table, backend, per_window), rounds=5, warmup_rounds=1)
    assert windows > 1.8 * RECORDS


@pytest.mark.parametrize("per_window", [10, 100, 1_000])
def test_polars(benchmark, table: pa.Table, per_window: int) -> None:
    benchmark.group = f"{per_window} records per window"
    benchmark.extra_info["records"] = RECORDS
    frame = pl.from_arrow(table)
    benchmark.pedantic(rolling, (frame, per_window), rounds=5, warmup_rounds=1)


def rolling(frame: pl.DataFrame, per_window: int) -> pl.DataFrame:
    """Return count, sum, min, max and mean of each row's left window."""
    args = {"by": "at", "window_size": f"{per_window * 100}ms", "closed": "both"}
    column = pl.col("v")
    return frame.select(
        pl.col("v").is_not_null().cast(pl.Int64).rolling_sum_by(**args).over("k").alias("n"),
        column.rolling_sum_by(**args).over("k").alias("total"),
        column.rolling_min_by(**args).over("k").alias("low"),
        column.rolling_max_by(**args).over("k").alias("high"),
        column.rolling_mean_by(**args).over("k").alias("mean"),
    )


def test_results_agree(table: pa.Table) -> None:
    """The left windows of the runner are polars' rows: no benchmark compares unequal work."""
    part = table.slice(0, 50_000)
    with operator(10).local_runner(event_time="at") as runner:
        mine = pl.from_arrow(runner.process(part, stream_time=10**12))
    theirs = pl.from_arrow(part).with_columns(rolling(pl.from_arrow(part), 10)).drop("v").unique(["k", "at"])
    left = mine.with_columns(pl.col("window").struct.field("end").alias("at")).join(theirs, on=["k", "at"])
    assert theirs.height == left.height
    for name in ("n", "total", "low", "high", "mean"):
        assert (left[name] - left[f"{name}_right"]).abs().max() < 1e-6
