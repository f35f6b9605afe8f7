"""Do peers make the same windows as we do? No benchmark compares unequal work.

What differs by definition is left out:
- A peer's sliding windows are left windows, one for each record; ours are one for each event time, and right windows too. Of
  records of one key at one time, a system that takes them one by one sees all of them at the last one only: the row with the
  largest count is compared.
- What closes windows differs: the end of the input, or a later record. A record of each key a day later closes all before it;
  its own windows are not compared.

Two events exactly a gap apart are one session for all: for bytewax and Quix as for us, for the others as their queries have it.
"""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.data import rolling
from benchmarks.peers.efforts import AT_ONCE, STREAMS, Effort
from benchmarks.peers.processes import run
from benchmarks.peers.works import LONG_AGO_MS, Workload, later_records

RECORDS, KEYS, DAY_MS = 2_000, 10, 86_400_000
AGGREGATES = "n", "total", "low", "high", "mean"
WORKS = [
    Workload(kind, 10 if kind == "sliding" else 0, KEYS)
    for kind in ("sliding", "tumbling", "hopping", "session")
]


@pytest.fixture(scope="module")
def records() -> pa.Table:
    """A few records of each key, and one a day later."""
    table = later_records(RECORDS, KEYS)
    closing = {"k": range(KEYS), "at": [LONG_AGO_MS + DAY_MS] * KEYS, "v": [0.0] * KEYS}
    return pa.concat_tables([table, pa.table(closing, schema=table.schema)])


@pytest.mark.parametrize("work", WORKS, ids=str)
@pytest.mark.parametrize("peer", [*AT_ONCE, *STREAMS])
def test_results_agree(tmp_path: Path, python: Path, records: pa.Table, peer: str, work: Workload) -> None:
    given, results = tmp_path / "records.parquet", tmp_path / "results.parquet"
    pq.write_table(records, given)

    run(python, peer, work, Effort(len(records), rounds=1), given, results)

    theirs, mine = before_the_last(pl.read_parquet(results)), before_the_last(ours(records, work))
    if work.kind == "sliding":
        theirs = theirs.sort("n").unique(["k", "at"], keep="last")
        mine = mine.join(
            before_the_last(pl.from_arrow(records)).unique(["k", "at"]), on=["k", "at"], how="semi"
        )
    both = mine.join(theirs, on=["k", "at"])
    assert mine.height == theirs.height == both.height > 0
    for name in AGGREGATES:
        assert (both[name] - both[f"{name}_right"]).abs().max() < 1e-9


@pytest.mark.parametrize("peer", ["polars"])
def test_rolling_results_agree(tmp_path: Path, python: Path, records: pa.Table, peer: str) -> None:
    """Each record has the same results of the longest lookback."""
    given, results = tmp_path / "records.parquet", tmp_path / "results.parquet"
    pq.write_table(records, given)
    run(python, peer, Workload("rolling", 1_000, KEYS), Effort(len(records), rounds=1), given, results)
    with rolling(1_000).local_runner(event_time="at") as runner:
        mine = pl.from_arrow(runner.process(records))
    theirs = pl.read_parquet(results).sort("k", "at", "n")
    mine = mine.sort("k", "at", "n_1000")
    mine, theirs = before_the_last(mine), before_the_last(theirs)
    assert mine.height == theirs.height > 0
    for name in AGGREGATES:
        assert (mine[f"{name}_1000"] - theirs[name]).abs().max() < 1e-9


def ours(records: pa.Table, work: Workload) -> pl.DataFrame:
    """Return our windows, at the end of sliding ones and at the start of others."""
    with work.operator.local_runner(event_time="at") as runner:
        windows = pl.from_arrow(runner.process(records))
    place = "end" if work.kind == "sliding" else "start"
    return windows.with_columns(pl.col("window").struct.field(place).cast(pl.Datetime("ms")).alias("at"))


def before_the_last(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the windows that hold no closing record."""
    return frame.filter(pl.col("at").dt.epoch("ms") < LONG_AGO_MS + DAY_MS // 2)
