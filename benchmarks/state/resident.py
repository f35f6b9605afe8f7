"""How many bytes of memory a key takes in the process that has its bucket, for each backend and kind of window.

    python -m benchmarks.state.resident                            prints the table
    python -m benchmarks.state.resident BACKEND KIND KEYS FOLDER   works in this process, and prints a line of JSON

Each key has a record in an hour, and its state lives for an hour, as in `benchmarks.growth.keys`. The bytes of a key are the
difference between a process with a million keys and one with 100,000: what both have, for modules and for a batch of 100,000
records, is not of the keys.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.data import five_aggregates
from benchmarks.growth.keys import filling, working
from benchmarks.state.many_keys import clocked, memory_of, most_resident_mb, records
from operators import (
    HoppingWindows,
    RollingAggregation,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    WindowedAggregation,
)

FEW, MANY, BATCHES = 100_000, 1_000_000, 12
BACKENDS = "memory", "rocksdb", "spark"
KINDS: dict[str, Callable[[], WindowedAggregation | RollingAggregation]] = {
    "tumbling, an hour": lambda: TumblingWindows("1 hour").group_by("k").aggregate(**five_aggregates()),
    "hopping, an hour every 10 minutes": lambda: (
        HoppingWindows("1 hour", "10 minutes").group_by("k").aggregate(**five_aggregates())
    ),
    "sliding, an hour": lambda: SlidingWindows("1 hour").group_by("k").aggregate(**five_aggregates()),
    "sessions, a gap of an hour": lambda: (
        SessionWindows("1 hour").group_by("k").aggregate(**five_aggregates())
    ),
    "rolling, an hour": lambda: (
        RollingWindows({"hour": "1 hour"}).group_by("k").aggregate(**five_aggregates())
    ),
}


def work(backend: str, kind: str, keys: int, folder: Path) -> dict[str, int]:
    """Give each key a record, work on for some hours of the records, and return megabytes, live keys and bytes of pages."""
    options = {} if backend == "spark" else {"state.snapshots.folder": str(folder / "snapshots")}
    runner = KINDS[kind]().local_runner(
        event_time="at", backend=backend, directory=folder / "runner", options=options
    )
    with runner:
        runner.process(records(np.arange(0), 0, 1))
        began = memory_of("VmRSS")
        clocked(runner, filling(keys))
        clocked(runner, working(keys, range(BATCHES)))
        return {
            "began_mb": began,
            "resident_mb": memory_of("VmRSS"),
            "most_mb": most_resident_mb(),
            "live_keys": runner.metrics["live_keys"],
            "state_bytes": runner.metrics["state_bytes"],
        }


def measured(backend: str, kind: str, keys: int) -> dict[str, int]:
    """Return what a process of its own found."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", __spec__.name, backend, kind, str(keys), folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def of_a_key(few: dict[str, int], many: dict[str, int], what: str, unit: int = 10**6) -> int:
    """Return the bytes by which a key more makes a process larger. All keys are live when it has the most."""
    keys = MANY - FEW if what == "most_mb" else many["live_keys"] - few["live_keys"]
    return round((many[what] - few[what]) * unit / keys)


def main() -> None:
    """Print the table, and what each process found beside it."""
    lines = ["| bytes of a key: resident (at most; pages) | " + " | ".join(BACKENDS) + " |"]
    lines.append("|---" * (len(BACKENDS) + 1) + "|")
    for kind in KINDS:
        cells = []
        for backend in BACKENDS:
            few, many = (measured(backend, kind, keys) for keys in (FEW, MANY))
            print(backend, kind, few, many, file=sys.stderr, flush=True)
            resident, most = (of_a_key(few, many, what) for what in ("resident_mb", "most_mb"))
            cells.append(f"{resident} ({most}; {of_a_key(few, many, 'state_bytes', 1)})")
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    print("\n".join(lines))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(work(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))))
    else:
        main()
