"""A long stream of busy keys on Spark: what it writes for each row, as time goes on, in turn with another version.

    python -m benchmarks.state.busy_stream FOLDER [--kind rolling] [--backend rocksdb] [--keys 10000] [--rows 10000]
        [--step 10] [--batches 600] [--look 20] [--beside CHECKOUT]

Each batch brings so many rows of keys in turn, in `step` seconds of event time. At each look it prints the median time of a
batch, and, for each row, the bytes of the changed pages, of the changelog before and after compression, and what snapshots sent
to the snapshot folder. With `--beside`, the code of another checkout does the same, look by look in turn; its lines come with
its name.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data import write_next

ROOT = Path(__file__).parents[2]
RETAINED = 20
"""Batches that Spark can go back to; files of a batch are seen by a look that comes before they are deleted."""
NUMBERS = "keys", "rows", "step", "batches", "look", "buckets"


@dataclass(frozen=True, slots=True)
class Stream:
    """What a stream is made of.

    Attributes:
        kind: rolling (the last hour and day) or sliding (an hour), both on close.
        backend: memory, rocksdb or spark.
        keys, rows: keys in all, and rows of a batch; a batch goes on with the keys where the last one ended.
        step: seconds of event time of a batch.
        batches, look: batches in all, and from one look to the next.
        buckets: partitions of the shuffle.
    """

    kind: str
    backend: str
    keys: int
    rows: int
    step: int
    batches: int
    look: int
    buckets: int

    def table(self, number: int) -> pa.Table:
        """Return the records of a batch."""
        first, begin = number * self.rows, number * self.step * 1_000
        at = begin + np.arange(self.rows) * self.step * 1_000 // self.rows
        keys = np.arange(first, first + self.rows) % self.keys
        values = np.random.default_rng(number).random(self.rows)
        return pa.table({"k": keys, "at": pa.array(at, pa.timestamp("ms")), "v": values})


def work(stream: Stream, folder: Path) -> None:
    """Run the query; for each line of input, take the batches of a look and print what was found.

    It needs only what all versions have.
    """
    from benchmarks.data import SCHEMA
    from operators import RollingWindows, SlidingWindows, spark_session
    from operators import aggregates as agg

    conf = {
        "spark.sql.streaming.minBatchesToRetain": str(RETAINED),
        "spark.sql.streaming.numRecentProgressUpdates": str(4 * stream.look),
        "spark.ui.enabled": "false",
        "spark.windows.state.directory": str(folder / "local"),
        "spark.windows.state.snapshots.folder": str(folder / "snapshots"),
    }
    spark = spark_session("busy", master="local[2]", buckets=stream.buckets, conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    windows: RollingWindows | SlidingWindows = SlidingWindows("1 hour", "10 seconds")
    if stream.kind == "rolling":
        windows = RollingWindows({"h": "1 hour", "d": "1 day"}, "10 seconds")
    op = windows.group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    source, checkpoint = folder / "in", folder / "checkpoint"
    source.mkdir(parents=True)
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    results = op.apply(frame, event_time="at", backend=stream.backend)
    query = results.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    first = 0
    for _ in sys.stdin:
        for number in range(first, first + stream.look):
            write_next(stream.table(number), source / f"{number:06d}.parquet", number)
        first += stream.look
        query.processAllAvailable()
        print(json.dumps(look(query, stream, first)), flush=True)
    query.stop()
    spark.stop()


def look(query: Any, stream: Stream, batches: int) -> dict[str, Any]:
    """Return the figures of the last batches; bytes are for each row."""
    from operators.spark.base.listener import operator_batches

    recent = [one for one in query.recentProgress if one["numInputRows"]][-stream.look :]
    counts = [found.counts_out for progress in recent for found in operator_batches(progress)]
    rows = stream.look * stream.rows
    return {
        "batches": batches,
        "seconds": round(statistics.median(one["batchDuration"] for one in recent) / 1e3, 2),
        **{name: round(sum(one[f"{name}_bytes"] for one in counts) / rows) for name in ("changed", "logged")},
        "step_ms": round(statistics.median(one["step_ms"] + one["commit_ms"] for one in counts)),
    }


def started(stream: Stream, folder: Path, checkout: Path) -> subprocess.Popen[str]:
    """Start a process that runs the query with the code of a checkout."""
    options = [
        word for name in ("kind", "backend", *NUMBERS) for word in (f"--{name}", str(getattr(stream, name)))
    ]
    command = [sys.executable, __file__, str(folder), *options, "--works"]
    given = {**os.environ, "PYTHONPATH": str(checkout)}
    return subprocess.Popen(
        command, cwd=checkout, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def looks(stream: Stream, folder: Path, checkouts: list[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each look finds, of each version in turn."""
    from benchmarks.state.written import Written

    processes = []
    for number, checkout in enumerate(checkouts):
        home = folder / str(number)
        written = Written([home / "checkpoint" / "state", home / "snapshots"])
        processes.append((checkout.name, started(stream, home, checkout), written))
    for _ in range(0, stream.batches, stream.look):
        for name, process, written in processes:
            before = written.see()
            with watched(written):
                found = asked(process)
            sent = ((written.see() - before) / (stream.look * stream.rows)).round(1).tolist()
            yield name, {**found, **dict(zip(("checkpoint", "snapshots"), sent, strict=True))}
    for _, process, _ in processes:
        process.communicate()


def asked(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Have a process go on to its next look, and return what it found."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    line = next((line for line in process.stdout if line.startswith('{"batches"')), None)
    if line is None:
        raise RuntimeError(f"a query ended: {process.args!r}")
    found: dict[str, Any] = json.loads(line)
    return found


@contextmanager
def watched(written: Any) -> Iterator[None]:
    """Look at files every half a second, so that none comes and goes unseen."""
    ends = Event()

    def watch() -> None:
        while not ends.wait(0.5):
            written.see()

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def main() -> None:
    """Print a line for each look."""
    given = argparse.ArgumentParser(prog="python -m benchmarks.state.busy_stream", description=__doc__)
    given.add_argument("folder", type=Path)
    given.add_argument("--kind", choices=["rolling", "sliding"], default="rolling")
    given.add_argument("--backend", default="rocksdb")
    for name, number in zip(NUMBERS, (10_000, 10_000, 10, 600, 20, 2), strict=True):
        given.add_argument(f"--{name}", type=int, default=number)
    given.add_argument("--beside", type=Path)
    given.add_argument("--works", action="store_true", help=argparse.SUPPRESS)
    options = vars(given.parse_args())
    folder, beside, works = (options.pop(name) for name in ("folder", "beside", "works"))
    stream = Stream(**options)
    if works:
        work(stream, folder)
        return
    for name, found in looks(stream, folder, [ROOT, *([beside.resolve()] if beside else [])]):
        print(f"{name:12}", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
