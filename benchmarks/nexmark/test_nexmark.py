"""Nexmark's windows over the same bids: do all systems make the same rows, how fast, and how soon?"""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.streams import CORES
from benchmarks.nexmark.systems import DELAYED, MEASURED, PACE, SYSTEMS, delays, figures, has, write_rows
from benchmarks.peers.environments import environment
from benchmarks.report.nexmark import BATCH, DELAYS, RATES

FEW, HOT = 200_000, 50_000
"""Bids of which rows are compared; fewer where Flink takes long."""
LEAST_ROWS = 40_000
"""Fewer than any query makes of these: a quarter of the bids are of bidders that are not hot, most of whom bid once."""
SHARES = {("flink", "rolling"): 0.2, ("flink", "rolling, hot"): 0.05}
"""Shares of the bids for systems that would take very long."""


def need(system: str) -> None:
    """Skip a test if the system cannot be installed."""
    if system == "flink" and environment("flink")[0] is None:
        pytest.skip(environment("flink")[1])


WINDOWS = ["k", "result", "begin"]
ROLLING = ["k", "begin", "n_hour", "total_hour", "n_day", "total_day"]


def rows_of(system: str, query: str, folder: Path) -> pl.DataFrame:
    """All rows that a system has made, sorted: key, result and begin of windows; of rolling ones key, time and both results."""
    write_rows(system, query, FEW if query != "rolling, hot" else HOT, folder)
    names = ROLLING if "rolling" in query else WINDOWS
    if system == "flink":
        files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
        frame = pl.concat(pl.read_csv(path, has_header=False, new_columns=names) for path in files)
        begin = frame["begin"].str.replace("Z$", "").str.to_datetime(time_unit="us")
        frame = frame.with_columns(begin)
    else:
        frame = pl.read_parquet(folder / "*.parquet")
        time = pl.col("at") if "rolling" in query else pl.col("window").struct.field("start")
        frame = frame.with_columns(time.dt.replace_time_zone(None).cast(pl.Datetime("us")).alias("begin"))
        key = "auction" if query in ("q5", "q7") else "bidder"
        frame = frame.with_columns(k=key).rename({"n": "result", "high": "result"}, strict=False)
    return frame.select(names).sort(names)


@pytest.mark.parametrize("query", [full(name, id=name) for name in QUERIES])
def test_rows_are_the_same(query: str, tmp_path: Path) -> None:
    """All of them: a last bid closes what is open on Spark; Flink does so at the end of its input."""
    ours = rows_of("ours", query, tmp_path / "ours")
    assert ours.height > LEAST_ROWS
    for system in ("spark", "flink"):
        if has(system, query) and (system != "flink" or environment("flink")[0] is not None):
            theirs = rows_of(system, query, tmp_path / system)
            assert_frame_equal(ours, theirs, check_dtypes=False)


@pytest.mark.parametrize(
    ("query", "batch", "system"), [full(*one, id="-".join(map(str, one))) for one in MEASURED]
)
def test_bids(
    pytestconfig: pytest.Config, benchmark: Any, measure: Measure, query: str, batch: int, system: str
) -> None:
    need(system)
    bids = pytestconfig.getoption("--bids") // (1 if batch == BATCH else 2)
    count = round(bids * SHARES.get((system, query), 1))
    found = benchmark.pedantic(figures, (system, query, count, batch))
    measure.taken(
        [count / found["per_second"]],
        section=RATES,
        system=SYSTEMS[system],
        rows=count,
        query=query,
        batch=batch,
    )
    measure.note(
        per_core=round(found["per_second"] / CORES),
        per_processor_second=round(found["per_processor_second"]),
        **{name: found[name] for name in ("state_bytes", "batch_s", "first_batch_s") if name in found},
    )


@pytest.mark.parametrize(("query", "system"), [full(*one, id="-".join(one)) for one in DELAYED])
def test_delays(
    pytestconfig: pytest.Config, benchmark: Any, measure: Measure, query: str, system: str
) -> None:
    need(system)
    found = benchmark.pedantic(delays, (system, query, pytestconfig.getoption("--bid-seconds")))
    measure.taken(
        [found.p50], section=DELAYS, system=SYSTEMS[system], rows=found.count, query=query, pace=PACE
    )
    measure.note(p99=round(found.p99, 3), made=round(found.pace))
