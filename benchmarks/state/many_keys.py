"""A worker with a live pane for each of very many keys, in its own process, so that its memory can be measured.

    python -m benchmarks.state.many_keys fill KEYS FOLDER      gives each key a record, then works on
    python -m benchmarks.state.many_keys restart KEYS FOLDER   goes on where that one was

A record of each key falls into the first 40 minutes, and its windows are an hour long. From the end of the hour on each batch
moves the close time by ten seconds and so closes a 240th of what the records of the beginning opened.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import BATCH, five_aggregates
from operators import SlidingWindows
from operators.runtime.local import LocalRunner

AT_ONCE, STEADY, AFTER = 250_000, 20, 5
_HOUR_MS, _FILLED_MS, _STEP_MS = 3_600_000, 2_400_000, 10_000
_PRIME = 2_654_435_761
"""Makes of counted numbers scattered ones: each key once, and no two neighbours in one batch."""


def opened(folder: Path) -> LocalRunner:
    """Return a runner on rocksdb that keeps its journal and snapshots on disk, as a worker of Spark does."""
    op = SlidingWindows("1 hour").group_by("k").aggregate(**five_aggregates())
    options = {"state.snapshots.folder": str(folder / "snapshots")}
    return op.local_runner(event_time="at", backend="rocksdb", directory=folder / "runner", options=options)


def filling(keys: int) -> Iterator[pa.Table]:
    """Yield a record of each key, batch by batch."""
    span = _FILLED_MS * AT_ONCE // keys
    for number, first in enumerate(range(0, keys, AT_ONCE)):
        chosen = np.arange(first, min(first + AT_ONCE, keys)) * _PRIME % keys
        yield records(chosen, number * span, span)


def working(keys: int, batches: range) -> Iterator[pa.Table]:
    """Yield batches of random keys, numbered from the end of the first hour on."""
    rng = np.random.default_rng(batches.start)
    for number in batches:
        yield records(rng.choice(keys, BATCH, replace=False), _HOUR_MS + number * _STEP_MS, _STEP_MS)


def records(key: np.ndarray, begin: int, span: int) -> pa.Table:
    """Return one record of each key at random times of a span in ms."""
    rng = np.random.default_rng(begin)
    at = np.sort(rng.integers(begin, begin + span, len(key)))
    return pa.table({"k": key, "at": pa.array(at, pa.timestamp("ms")), "v": rng.random(len(key))})


def clocked(runner: LocalRunner, tables: Iterator[pa.Table]) -> tuple[float, int]:
    """Process the tables and return the seconds that the runner took, and the number of windows."""
    seconds, windows = 0.0, 0
    for table in tables:
        begin = time.perf_counter()
        windows += runner.process(table).num_rows
        seconds += time.perf_counter() - begin
    return seconds, windows


def report(stage: str, rows: int, took: tuple[float, int]) -> None:
    """Print what a stage took, and the most memory that the process has had in it or before."""
    found = {"rows": rows, "seconds": took[0], "windows": took[1], "resident_mb": most_resident_mb()}
    print(json.dumps({stage: found}))


def most_resident_mb() -> int:
    """Return the most memory that this process has had, in MB. `getrusage` would count what its parent had too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1_024 // 10**6


def main(what: str, keys: int, folder: Path) -> None:
    """Run the stages and print a line of JSON for each."""
    with opened(folder) as runner:
        if what == "fill":
            report("growing", keys, clocked(runner, filling(keys)))
            report("steady", STEADY * BATCH, clocked(runner, working(keys, range(STEADY))))
        else:
            batches = working(keys, range(STEADY, STEADY + 1 + AFTER))
            report("restart", keys, clocked(runner, iter([next(batches)])))
            report("steady after", AFTER * BATCH, clocked(runner, batches))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
