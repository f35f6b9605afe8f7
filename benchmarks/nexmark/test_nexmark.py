"""Nexmark's windows over the same bids: do all systems make the same rows, and how fast?"""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.streams import CORES
from benchmarks.nexmark.systems import figures, has
from benchmarks.peers.environments import environment

FEW, ROWS, BATCH = 300_000, 6_000_000, 500_000


def rows_of(system: str, query: str, folder: Path) -> pl.DataFrame:
    """Key, value and begin of the windows that a system has made; of rolling ones key, time and both results."""
    figures(system, query, FEW, FEW // 4, folder)
    if system == "flink":
        names = (
            ["k", "result", "begin"]
            if "rolling" not in query
            else ["k", "begin", "n_hour", "total_hour", "n_day", "total_day"]
        )
        files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
        frame = pl.concat(pl.read_csv(path, has_header=False, new_columns=names) for path in files)
        return frame.with_columns(pl.col("begin").str.replace("Z$", "").str.to_datetime(time_unit="us"))
    frame = pl.read_parquet(folder / "*.parquet")
    time = pl.col("at") if "rolling" in query else pl.col("window").struct.field("start")
    frame = frame.with_columns(time.dt.replace_time_zone(None).cast(pl.Datetime("us")).alias("begin"))
    frame = frame.rename({"auction": "k", "bidder": "k", "n": "result", "high": "result"}, strict=False)
    return frame.drop("window", "at", strict=False)


@pytest.mark.parametrize("query", [full(name, id=name) for name in QUERIES])
def test_rows_are_the_same(query: str, tmp_path: Path) -> None:
    """The windows that have closed in all systems: Flink closes all at the end of its input, ours and Spark's only some."""
    ours = rows_of("ours", query, tmp_path / "ours")
    others = [name for name in ("spark", "flink") if has(name, query)]
    for system in others:
        if system == "flink" and environment("flink")[0] is None:
            continue
        theirs = rows_of(system, query, tmp_path / system).select(ours.columns)
        closed = min(ours["begin"].max(), theirs["begin"].max())
        mine, theirs = (one.filter(pl.col("begin") < closed).sort(ours.columns) for one in (ours, theirs))
        assert mine.height > 10_000
        assert mine.equals(theirs.cast(dict(mine.schema)))


@pytest.mark.parametrize("query", [full(name, id=name) for name in QUERIES])
@pytest.mark.parametrize("batch", [50_000, BATCH])
@pytest.mark.parametrize("system", ["ours", "spark", "flink", "pass"])
def test_bids(benchmark: Any, measure: Measure, system: str, batch: int, query: str) -> None:
    if not has(system, query) or (system == "flink" and batch != BATCH):
        pytest.skip("there is no such query")
    if system == "flink" and environment("flink")[0] is None:
        pytest.skip(environment("flink")[1])
    count = ROWS * batch // BATCH
    found = benchmark.pedantic(figures, (system, query, count, batch))
    measure.taken(
        [1 / found["per_second"]], section="Nexmark", system=system, rows=1, query=query, batch=batch
    )
    measure.note(
        per_core=found["per_second"] / CORES,
        per_processor_second=found["per_processor_second"],
        state_bytes=found["state_bytes"],
    )
