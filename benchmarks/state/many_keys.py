"""A worker with a live pane for each of very many keys, in its own process, so that its memory can be measured.

    python -m benchmarks.state.many_keys fill KEYS FOLDER [NAME=VALUE ...]     gives each key a record, then works on
    python -m benchmarks.state.many_keys restart KEYS FOLDER                   goes on where that one was

NAME=VALUE are options of the state, such as state.snapshots.bytes=64m.

A record of each key falls into the first 40 minutes, and its windows are an hour long. From the end of the hour on each batch
moves the close time by ten seconds and so closes a 240th of what the records of the beginning opened.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import BATCH, five_aggregates
from benchmarks.state.counting import COUNTED, lookups
from benchmarks.state.written import Written
from operators import SlidingWindows
from operators.runtime.local import LocalRunner

AT_ONCE, STEADY, AFTER = 250_000, 20, 5
_HOUR_MS, _FILLED_MS, _STEP_MS = 3_600_000, 2_400_000, 10_000
_PRIME = 2_654_435_761
"""Makes of counted numbers scattered ones: each key once, and no two neighbours in one batch."""


def opened(folder: Path, **options: str) -> LocalRunner:
    """Return a runner on rocksdb that keeps its journal and snapshots on disk, as a worker of Spark does."""
    op = SlidingWindows("1 hour").group_by("k").aggregate(**five_aggregates())
    options |= {"state.snapshots.folder": str(folder / "snapshots")}
    return op.local_runner(event_time="at", backend=COUNTED, directory=folder / "runner", options=options)


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


class Sent:
    """Counts what a runner writes while it works.

    Attributes:
        logged: bytes of the changelog, before compression.
        uploaded: bytes that snapshots have sent.
    """

    def __init__(self, runner: LocalRunner, snapshots: Path) -> None:
        self._runner, self._written = runner, Written([snapshots])
        self._before = int(self._written.see()[0])
        self.logged = self.uploaded = 0

    def watched(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the tables; count what came of each before the next one."""
        for table in tables:
            yield table
            self.logged += self._runner.metrics["logged_bytes"]
            self.uploaded = int(self._written.see()[0]) - self._before


def clocked(runner: LocalRunner, tables: Iterable[pa.Table]) -> dict[str, float]:
    """Process the tables; return the seconds that the runner took, those of the processor, look-ups, rows and windows."""
    found = {"rows": 0, "seconds": 0.0, "processor": 0.0, "windows": 0, "lookups": 0}
    for table in tables:
        begin, used, looked = time.perf_counter(), time.process_time(), lookups()
        found["windows"] += runner.process(table).num_rows
        found["seconds"] += time.perf_counter() - begin
        found["processor"] += time.process_time() - used
        found["lookups"] += lookups() - looked
        found["rows"] += table.num_rows
    return found


def report(stage: str, took: Mapping[str, float], **beside: float) -> None:
    """Print what a stage took, and the most memory that the process has had in it or before."""
    print(json.dumps({stage: {**took, **beside, "resident_mb": most_resident_mb()}}), flush=True)


def most_resident_mb() -> int:
    """Return the most memory that this process has had, in MB. `getrusage` would count what its parent had too."""
    return memory_of("VmHWM")


def memory_of(name: str, process: Path = Path("/proc/self")) -> int:
    """Return what Linux says of the memory of a process, by default of this one, in MB: "VmRSS" is what it has now."""
    status = (process / "status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1_024 // 10**6


def main(what: str, keys: int, folder: Path, *options: str) -> None:
    """Run the stages and print a line of JSON for each."""
    with opened(folder, **dict(option.split("=") for option in options)) as runner:
        if what == "fill":
            report("growing", clocked(runner, filling(keys)))
            sent = Sent(runner, folder / "snapshots")
            steady = clocked(runner, sent.watched(working(keys, range(STEADY))))
            report("steady", steady, logged=sent.logged, uploaded=sent.uploaded)
        else:
            batches = working(keys, range(STEADY, STEADY + 1 + AFTER))
            report("restart", clocked(runner, [next(batches)]), rows=keys)
            report("steady after", clocked(runner, batches))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
