"""The memory of a batch of one bucket, by the width of its rows.

    python -m benchmarks.state.wide [--mb 1000] [--widths BYTES...] [--kinds late rolling] [--backend rocksdb] [--folder FOLDER]

A query of its own for each line takes all rows in one batch, and closes their windows in the next one. `late` is
`apply_with_late` of hourly counts, which sends all columns to the bucket; `rolling` also keeps them in the state until their
time is closed, and then returns them. Prints the most memory in MB that a Python worker, the process with the state and Java
had; of the first two also without pages of mapped files, which the system takes back when it needs them. Seconds are of the
longest batch.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data import write_next
from benchmarks.state.many_keys import memory_of

WIDTHS = 100, 2_000, 20_000, 200_000
KEYS, STEP_MS, TASKS = 100, 10, 2
_MARK = "BENCHMARK_OF_WIDE_ROWS"
_PROCESSES = {
    "java": b"SparkSubmit",
    "state": b"operators.spark.replicas.state_process",
    "worker": b"spark.daemon",
}
"""By what is in the command line. Java's has the name of the daemon, too."""


class Watch:
    """The most memory in MB of the processes that this one has started, by what they are."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        self._wanted = f"{_MARK}={os.environ[_MARK]}".encode()

    def look(self) -> None:
        """Look at all of them now."""
        for path in Path("/proc").iterdir():
            try:
                if path.name.isdecimal() and self._wanted in (path / "environ").read_bytes().split(b"\0"):
                    self._add(path)
            except (OSError, IndexError):  # It has ended.
                continue

    def _add(self, process: Path) -> None:
        command = (process / "cmdline").read_bytes()
        what = next((what for what, name in _PROCESSES.items() if name in command), None)
        if what is not None:
            for key, found in ((what, "VmHWM"), (f"{what} own", "RssAnon")):
                self.most[key] = max(self.most[key], memory_of(found, process))

    @contextmanager
    def over(self, seconds: float = 0.1) -> Iterator[None]:
        """Look all the time."""
        ends = Event()

        def watch() -> None:
            while not ends.wait(seconds):
                self.look()

        thread = Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()
            self.look()


def put(folder: Path, numbers: np.ndarray, first: int) -> None:
    """Write the numbers of rows, and so their keys and times, as files for one batch."""
    for number, some in enumerate(np.array_split(numbers, min(TASKS, len(numbers)))):
        at = pa.array(some * STEP_MS, pa.timestamp("ms", "UTC"))
        write_next(
            pa.table({"k": some % KEYS, "at": at}), folder / f"{first + number}.parquet", first + number
        )


def work(kind: str, width: int, size_mb: int, backend: str, home: Path) -> dict[str, Any]:
    """Run the query and return what it took."""
    from pyspark.sql import functions as F

    from operators import RollingWindows, TumblingWindows, spark_session
    from operators import aggregates as agg
    from operators.spark.base.listener import operator_batches

    source, rows = home / "in", size_mb * 10**6 // width
    source.mkdir()
    put(source, np.arange(rows), 0)
    conf = {
        "spark.local.dir": str(home / "spark"),
        "spark.shuffle.compress": "false",
        "spark.ui.enabled": "false",
        "spark.windows.state.directory": str(home / "local"),
        "spark.windows.state.snapshots.folder": str(home / "snapshots"),
    }
    spark = spark_session("wide", master=f"local[{TASKS}]", buckets=1, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    files = spark.readStream.schema("k bigint, at timestamp").option("maxFilesPerTrigger", TASKS)
    text = F.sha2(F.col("at").cast("string"), 256)
    wide = F.substring(F.repeat(text, -(-width // 64)), 1, width).alias("wide")
    frame = files.parquet(str(source)).select("k", "at", wide)
    if kind == "late":
        counts = TumblingWindows("1 hour").group_by("k").aggregate(n=agg.count())
        results = counts.apply_with_late(frame, "at", backend=backend).rows
    else:
        rolled = RollingWindows({"hour": "1 hour"}).group_by("k").aggregate(n=agg.count())
        results = rolled.apply(frame, "at", backend=backend)
    writer = results.writeStream.format("noop").option("checkpointLocation", str(home / "checkpoint"))
    watch = Watch()
    with watch.over():
        query = writer.start()
        query.processAllAvailable()
        put(source, np.array([rows + 10**9]), TASKS)
        query.processAllAvailable()
        query.stop()
    progress: list[Any] = list(query.recentProgress)
    spark.stop()
    told = [batch.counts_out for one in progress for batch in operator_batches(one)]
    assert rows + 1 == sum(counts["rows"] for counts in told)
    longest = max(one["durationMs"]["triggerExecution"] for one in progress)
    return {**watch.most, "rows": rows, "seconds": longest / 1_000}


def measured(kind: str, width: int, given: argparse.Namespace) -> dict[str, Any]:
    """Return what a process of its own found."""
    with TemporaryDirectory(dir=given.folder) as folder:
        command = [sys.executable, "-m", __spec__.name, "--work", kind, str(width), str(given.mb)]
        command += ["--backend", given.backend, "--folder", folder]
        env = {**os.environ, _MARK: f"{os.getpid()}-{time.time_ns()}"}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=int, default=1_000, help="bytes of the batch, in MB")
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS, help="bytes of a row")
    parser.add_argument("--kinds", nargs="+", choices=["late", "rolling"], default=["late", "rolling"])
    parser.add_argument("--backend", default="rocksdb")
    parser.add_argument("--folder", type=Path, help="for all files; by default the system's")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        kind, width, size_mb = given.work
        print(json.dumps(work(kind, int(width), int(size_mb), given.backend, given.folder)))
        return
    print(
        "| kind | bytes of a row | rows | worker (own) | state (own) | Java | s |\n|---|---|---|---|---|---|---|"
    )
    for kind in given.kinds:
        for width in given.widths:
            found = measured(kind, width, given)
            cells = [f"{found[what]:,} ({found[f'{what} own']:,})" for what in ("worker", "state")]
            cells += [f"{found['java']:,}", f"{found['seconds']:.0f}"]
            print(f"| {kind} | {width:,} | {found['rows']:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
