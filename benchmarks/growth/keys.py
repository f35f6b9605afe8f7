"""One worker with a live pane for each of its keys, in its own process: what a row, and a key, cost as keys grow in number.

    python -m benchmarks.growth.keys work BACKEND KEYS FOLDER       gives each key a record, then works on
    python -m benchmarks.growth.keys restart BACKEND KEYS FOLDER    goes on where that one was

Windows of an hour, in which a key has one record on average, whatever the number of keys: a batch of 100,000 spans the longer,
the fewer keys there are. So each row opens a pane, and closes one.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import BATCH, five_aggregates
from benchmarks.state.growth import size
from benchmarks.state.many_keys import clocked, memory_of, records, report
from operators import SlidingWindows
from operators.runtime.local import LocalRunner

WARM, STEADY = 2, 10
HOUR_MS = 3_600_000
PRIME = 2_654_435_761
"""Makes of counted numbers scattered ones."""


def filling(keys: int) -> Iterable[pa.Table]:
    """Yield a record of each key, in an hour."""
    for first in range(0, keys, BATCH):
        chosen = np.arange(first, min(first + BATCH, keys)) * PRIME % keys
        yield records(chosen, first * HOUR_MS // keys, max(len(chosen) * HOUR_MS // keys, 1))


def working(keys: int, batches: range) -> Iterable[pa.Table]:
    """Yield batches of random keys at the same pace, numbered from the end of that hour on."""
    rng, span = np.random.default_rng(batches.start), BATCH * HOUR_MS // keys
    for number in batches:
        yield records(rng.integers(0, keys, BATCH), HOUR_MS + number * span, span)


def opened(folder: Path, backend: str) -> LocalRunner:
    """Return a runner that keeps its journal and snapshots on disk, as a worker of Spark does."""
    op = SlidingWindows("1 hour").group_by("k").aggregate(**five_aggregates())
    options = {} if backend == "spark" else {"state.snapshots.folder": str(folder / "snapshots")}
    return op.local_runner(event_time="at", backend=backend, directory=folder / "runner", options=options)


def main(what: str, backend: str, keys: int, folder: Path) -> None:
    """Run the stages and print a line of JSON for each."""
    with opened(folder, backend) as runner:
        if what == "work":
            runner.process(records(np.arange(0), 0, 1))
            begin_mb = memory_of("VmRSS")
            report("growing", clocked(runner, filling(keys)))
            clocked(runner, working(keys, range(WARM)))
            steady = clocked(runner, working(keys, range(WARM, WARM + STEADY)))
            report("steady", steady, begin_mb=begin_mb, **sizes(runner, folder))
        else:
            report("restart", clocked(runner, working(keys, range(WARM + STEADY, WARM + STEADY + 1))))


def sizes(runner: LocalRunner, folder: Path) -> dict[str, float]:
    """Return live keys, bytes of the state, on disk (the local copy, the changelog, and snapshots), and MB of memory now."""
    state, live = runner.metrics["state_bytes"], max(runner.metrics["live_keys"], 1)
    return {
        "live_keys": live,
        "state_bytes": state,
        "disk_bytes": size(folder),
        "now_mb": memory_of("VmRSS"),
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
