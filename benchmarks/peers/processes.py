"""Runs other systems: a script for each, in a process of its environment, which measures its own time."""

import json
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.efforts import Effort
from benchmarks.peers.works import Workload

SCRIPTS = Path(__file__).parent / "systems"


@dataclass(frozen=True, slots=True)
class Answer:
    """Measurements of another system.

    Attributes:
        seconds: of each round, without start, reading and filling.
        version: of the system.
        per_window: mean number of records per emitted window.
    """

    seconds: list[float]
    version: str
    per_window: float


def run(
    python: Path, peer: str, work: Workload, effort: Effort, records: Path, results: Path | None = None
) -> Answer:
    """Run a workload on another system.

    Args:
        python: interpreter of its environment.
        peer: name of the system.
        work, effort: the workload, and its numbers of records.
        records: Parquet file of the records.
        results: file for the emitted windows, or None.

    Raises:
        RuntimeError: the process failed; the message has the end of its output.
    """
    given = {"work": work.kind, "size": work.size_ms, "step": work.step_ms, "records": records}
    given |= {name: number for name, number in asdict(effort).items() if name != "successive"}
    given |= {"results": results} if results else {}
    command = [python, SCRIPTS / f"in_{peer}.py", *(f"--{name}={value}" for name, value in given.items())]
    return Answer(**answered(f"{peer} at {work}", list(map(str, command))))


def answered(what: str, command: list[str]) -> dict[str, Any]:
    """Run a command and return the JSON of the last line that it prints.

    Raises:
        RuntimeError: the process failed; the message has the end of its output.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{what} failed: {done.stderr[-2_000:]}")
    return json.loads(done.stdout.splitlines()[-1])
