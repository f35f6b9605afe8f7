"""Real processes and their deaths."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start_query(folder: Path, backend: str, kind: str = "sliding") -> "subprocess.Popen[bytes]":
    """Start the query of `tests.spark.query` as a process; its output goes to a file in the folder."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.query", str(folder), backend, kind],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )


def descendants(pid: int) -> list[int]:
    """Return the process and all that it started, directly or not."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parents[int(text.split()[0])] = int(text.rpartition(")")[2].split()[1])
    family = [pid]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family


def kill_all(pid: int) -> int:
    """SIGKILL the process and all that it started, and return how many there were."""
    family = descendants(pid)
    for member in family:
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return len(family)


def python_workers(pid: int) -> list[int]:
    """Return the Python workers of a Spark driver's process: those that run tasks, not their parent daemon."""
    found = []
    for member in descendants(pid):
        try:
            command = Path(f"/proc/{member}/cmdline").read_text()
            parent = int(Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()[1])
            above = Path(f"/proc/{parent}/cmdline").read_text()
        except OSError:
            continue
        if "pyspark.daemon" in command and "pyspark.daemon" in above:
            found.append(member)
    return found


def committed(folder: Path) -> int:
    """Return how many batches the query's checkpoint says are done."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def wait_for_commits(
    process: "subprocess.Popen[bytes]", folder: Path, count: int, seconds: float = 120
) -> bool:
    """Wait until so many batches are committed; False if the process ended first."""
    end = time.monotonic() + seconds
    while committed(folder) < count:
        if process.poll() is not None:
            return False
        if time.monotonic() > end:
            raise TimeoutError(
                f"no batch {count} after {seconds} s:\n" + (folder / "log").read_text()[-4000:]
            )
        time.sleep(0.01)
    return True


def finish(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    """Wait for the query to end by itself."""
    code = process.wait(timeout=300)
    assert code == 0, (folder / "log").read_text()[-6000:]
