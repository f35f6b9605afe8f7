"""Runs a query on a system, in a process of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.nexmark import bids
from benchmarks.nexmark.queries import QUERIES
from benchmarks.peers.environments import environment

ROOT = Path(__file__).parents[2]
SYSTEMS = "ours", "spark", "flink", "pass"


def has(system: str, query: str) -> bool:
    """Whether a system has the query."""
    return system != "spark" or QUERIES[query].spark is not None


def figures(system: str, query: str, count: int, batch: int, results: Path | None = None) -> dict[str, Any]:
    """Return what a system took for so many bids; with `results`, its rows go there, and nothing is returned.

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
            python, problem = environment("flink")
            if python is None:
                raise RuntimeError(problem)
            constants = {
                "live": bids.LIVE,
                "prime": bids.PRIME,
                "salts": bids.SALTS,
                "begin_ms": bids.BEGIN_MS,
                "event_us": asked.event_us,
                "hot": asked.hot,
            }
            command = [
                str(python),
                "-m",
                "benchmarks.nexmark.flink",
                query,
                str(count),
                made,
                json.dumps(constants),
            ]
        else:
            (folder / "bids").mkdir()
            bids.write(folder / "bids", count, batch, asked.event_us, hot=asked.hot)
            command = [sys.executable, "-m", "benchmarks.nexmark.streams", system, query, made]
        if results is not None:
            shutil.rmtree(results, ignore_errors=True)
            command.append(str(results))
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=ROOT)
        if done.returncode:
            raise RuntimeError(f"{system}, {query}: {done.stderr[-2_000:]}")
        return {} if results is not None and system == "flink" else json.loads(done.stdout.splitlines()[-1])
