"""How long after its bid does a result come? Bids arrive at a pace; each row of the output is one result.

The clock of a result begins when the bid is due that completes it: of a window the first bid at or after its end, of a rolling
row the bid itself. On Spark it ends when the file sink has committed the batch, so that readers see the row. In Flink it ends
when the row leaves the operator: a sink that writes exactly once would show it with the next checkpoint.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from benchmarks.nexmark.bids import at_us

WARM_S = 8.0
"""Results that are due in the first seconds are left out."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds from a bid to its results.

    Attributes:
        p50, p99: over all results.
        count: number of results.
        pace: bids per second that the source has made, less than was asked for if the system could not keep up.
    """

    p50: float
    p99: float
    count: int
    pace: float


def of_spark(
    results: Path, query: str, begin: float, first: int, count: int, pace: float, event_us: int
) -> Delays:
    """Return the delays of a query on Spark.

    Args:
        results: folder of the file sink.
        query: a name in `QUERIES`.
        begin: when the first of the bids that arrived at a pace was due, in seconds since the epoch.
        first, count: number of that bid, and how many arrived so.
        pace: bids per second.
        event_us: from one event to the next, in microseconds.
    """
    ends, seen = [], []
    for path, committed in _files(results).items():
        rows = parquet.read_table(path)
        end = rows["at"] if "rolling" in query else pc.struct_field(rows["window"], "end")
        ends.append(_moments(end))
        seen.append(np.full(len(rows), committed))
    number = np.arange(first, first + count)
    due = begin + np.arange(count) / pace
    return _delays(np.concatenate(ends), np.concatenate(seen), number, due, event_us, pace)


def of_flink(results: Path, event_us: int) -> Delays:
    """Return the delays of a query in Flink.

    Args:
        results: folder with the results, and with the times at which the source made some of the bids.
        event_us: from one event to the next, in microseconds.
    """
    rows, made = (_read_csv(results / name) for name in ("rows", "made"))
    some, when = made.column(0).to_numpy(), _moments(made.column(1))
    order = np.argsort(some)
    some, when = some[order], when[order]
    number = np.arange(some[-1])
    due, pace = np.interp(number, some, when / 1e6), some[-1] / (when[-1] - when[0]) * 1e6
    return _delays(
        _moments(rows.column(-2)), _moments(rows.column(-1)) / 1e6, number, due, event_us, float(pace)
    )


def _delays(
    ends: npt.NDArray[np.int64],
    seen: Floats,
    number: npt.NDArray[np.int64],
    due: Floats,
    event_us: int,
    pace: float,
) -> Delays:
    at = at_us(number, event_us)
    place = np.searchsorted(at, ends)
    known = (ends > at[0]) & (place < len(at))
    completed = due[place[known]]
    delays = (seen[known] - completed)[completed >= due[0] + WARM_S]
    if not len(delays):
        raise ValueError("no result was due after the first seconds: it takes a longer run")
    p50, p99 = np.quantile(delays, [0.5, 0.99])
    return Delays(float(p50), float(p99), len(delays), pace)


def _files(results: Path) -> dict[str, float]:
    """The files of a sink, with the time of the commit that has them first."""
    logs = [
        path for path in (results / "_spark_metadata").iterdir() if path.name.partition(".")[0].isdecimal()
    ]
    found: dict[str, float] = {}
    for log in sorted(logs, key=lambda path: int(path.name.partition(".")[0])):
        for line in log.read_text().splitlines()[1:]:
            found.setdefault(json.loads(line)["path"].removeprefix("file://"), log.stat().st_mtime)
    return found


def _read_csv(folder: Path) -> pa.Table:
    """The rows that Flink wrote into the files of a folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    unnamed = csv.ReadOptions(autogenerate_column_names=True)
    return pa.concat_tables([csv.read_csv(path, unnamed) for path in files], promote_options="permissive")


def _moments(times: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Times of any unit, in microseconds since the epoch."""
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).to_numpy()
