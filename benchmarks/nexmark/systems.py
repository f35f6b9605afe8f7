"""Runs a query on a system, in a process of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from benchmarks.nexmark import bids
from benchmarks.nexmark.delays import Delays, of_flink, of_spark
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.streams import CORES, FILE_S
from benchmarks.peers.environments import environment
from benchmarks.report.nexmark import BATCH, FLINK, OURS, SMALL_BATCH, SPARK

ROOT = Path(__file__).parents[2]
SYSTEMS = {"ours": OURS, "spark": SPARK, "flink": FLINK, "pass": "pass-through"}
"""Names in reports by those of commands."""
PACE = 20_000
"""Bids per second where delays are measured: event time is then twice as fast as the clock."""


def has(system: str, query: str) -> bool:
    """Whether a system has the query; a pass-through needs one query only."""
    if system == "pass":
        return query == "q12"
    return system != "spark" or QUERIES[query].spark is not None


MEASURED = [
    (query, batch, system)
    for query in QUERIES
    for batch in (BATCH, SMALL_BATCH)
    for system in SYSTEMS
    if has(system, query) and (system != "flink" or batch == BATCH)
]
"""Queries, batches and systems; Flink has no batches."""
TOO_SLOW = {("rolling, hot", "flink")}
"""Where bids that arrive at a pace would wait for minutes."""
DELAYED = [
    (query, system)
    for query in QUERIES
    for system in SYSTEMS
    if system != "pass" and has(system, query) and (query, system) not in TOO_SLOW
]


def figures(system: str, query: str, count: int, batch: int) -> dict[str, Any]:
    """Return what a system took for so many bids.

    Args:
        system: one of `SYSTEMS`.
        query: a name in `QUERIES`.
        count: number of bids.
        batch: bids of a micro-batch of Spark.

    Raises:
        RuntimeError: it cannot be installed, or failed; says why.
    """
    asked = QUERIES[query]
    with TemporaryDirectory() as made:
        folder = Path(made)
        if system == "flink":
            return _flink(query, count, folder)
        bids.write(folder / "bids", 0, count, batch // CORES, asked.event_us, hot=asked.hot)
        return _spark(system, query, folder)


def write_rows(system: str, query: str, count: int, results: Path) -> None:
    """Write the rows that a system makes of so many bids, in two batches: all of them, also those of the last windows.

    Raises:
        RuntimeError: as `figures`.
    """
    asked = QUERIES[query]
    shutil.rmtree(results, ignore_errors=True)
    with TemporaryDirectory() as made:
        folder = Path(made)
        if system == "flink":
            _flink(query, count, folder, "--results", results)
            return
        bids.write(folder / "bids", 0, count, count // (2 * CORES), asked.event_us, hot=asked.hot)
        bids.write_last(folder / "bids", count)
        _spark(system, query, folder, "--results", results)


def delays(system: str, query: str, seconds: int) -> Delays:
    """Return how long results take if bids arrive at `PACE` for so long.

    On Spark, as many bids as arrive in ten seconds are there before, as the first batch.

    Raises:
        RuntimeError: as `figures`.
    """
    asked, first, count = QUERIES[query], 10 * PACE, seconds * PACE
    with TemporaryDirectory() as made:
        folder = Path(made)
        if system == "flink":
            _flink(query, count, folder, "--results", folder / "results", "--pace", PACE)
            return of_flink(folder / "results", asked.event_us)
        bids.write(folder / "bids", 0, first, first // CORES, asked.event_us, hot=asked.hot)
        bids.write(folder / "waiting", first, count, round(PACE * FILE_S), asked.event_us, hot=asked.hot)
        results = folder / "results"
        found = _spark(system, query, folder, "--results", results, "--paced", folder / "waiting")
        return of_spark(results, query, found["begin"], first, count, PACE, asked.event_us)


def _spark(system: str, query: str, folder: Path, *options: object) -> dict[str, Any]:
    return _answer([sys.executable, "-m", "benchmarks.nexmark.streams", system, query, folder, *options])


def _flink(query: str, count: int, folder: Path, *options: object) -> dict[str, Any]:
    python, problem = environment("flink")
    if python is None:
        raise RuntimeError(problem)
    asked = QUERIES[query]
    constants = {
        "live": bids.LIVE,
        "prime": bids.PRIME,
        "salts": bids.SALTS,
        "begin_ms": bids.BEGIN_MS,
        "event_us": asked.event_us,
        "hot": asked.hot,
    }
    module = "benchmarks.nexmark.flink"
    return _answer([python, "-m", module, query, count, folder, json.dumps(constants), *options])


def _answer(command: Sequence[object]) -> dict[str, Any]:
    """Run a command, and return the JSON of the last line that it prints, if there is any."""
    text, env = [str(one) for one in command], {**os.environ, "PYTHONPATH": str(ROOT)}
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        process = subprocess.Popen(text, stdout=out, stderr=err, env=env, cwd=ROOT, start_new_session=True)
        code = process.wait()
        with suppress(ProcessLookupError):  # Java may hang at its end, with Spark's state stores on RocksDB.
            os.killpg(process.pid, signal.SIGKILL)
        out.seek(0)
        err.seek(0)
        if code:
            raise RuntimeError(f"{' '.join(text[2:5])}: {err.read()[-2_000:]}")
        last = out.read().strip().rpartition("\n")[2]
    return json.loads(last) if last.startswith("{") else {}
