"""Input and output of the process of another system: arguments, one line of JSON, and the time in between.

The scripts in this folder use it, in environments in which this project is not installed.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

AGGREGATES = "n", "total", "low", "high", "mean"
RESULT = "k", "at", *AGGREGATES
"""The columns of a result; `at` is a left window's end, any other window's start, a session's first event."""
NUMBERS = "size", "step", "fill", "rows", "rounds"
TYPES = {"k": pa.int64(), "at": pa.timestamp("ms"), "n": pa.int64()}


@dataclass(frozen=True, slots=True)
class Task:
    """The work to do.

    Attributes:
        work: sliding, rolling, tumbling, hopping or session.
        size: of the windows, or the gap of sessions, in ms.
        step: of hopping windows, in ms.
        fill: how many of the first records fill windows before the clock starts.
        rows: how many records one round takes.
        rounds: how many rounds are clocked.
        records: k bigint, at timestamp[ms], v double, in order of event time.
        results: where to write the rows that came out, for the comparison.
    """

    work: str
    size: int
    step: int
    fill: int
    rows: int
    rounds: int
    records: pa.Table
    results: Path | None

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Keys, event times in ms and values as Python's own, for systems that take a record at a time."""
        table = self.records.set_column(1, "at", self.records.column("at").cast(pa.int64()))
        return table.to_pydict()

    def clocked(self, job: Callable[[], pa.Table]) -> tuple[list[float], pa.Table]:
        """Run a job on all records at once: seconds of each round, and what the last returned."""
        table, seconds = None, []
        for _ in range(self.rounds):
            begin = time.perf_counter()
            table = job()
            seconds.append(time.perf_counter() - begin)
        return seconds, table

    def answer(self, seconds: Sequence[float], version: str, table: pa.Table) -> None:
        """Print the figures, and write the rows to `results`, if given."""
        if self.results is not None:
            types = [TYPES.get(name, pa.float64()) for name in RESULT]
            pq.write_table(
                table.select(RESULT).cast(pa.schema(zip(RESULT, types, strict=True))), self.results
            )
        per_window = pc.mean(table.column("n")).as_py()
        print(json.dumps({"seconds": seconds, "version": version, "per_window": per_window}))


def read_task() -> Task:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--records", required=True, type=Path)
    parser.add_argument("--results", type=Path)
    for name in NUMBERS:
        parser.add_argument(f"--{name}", required=True, type=int)
    given = vars(parser.parse_args())
    return Task(**{**given, "records": pq.read_table(given["records"])})
