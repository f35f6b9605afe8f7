"""How a peer is run: a script in a process of its environment, which clocks itself."""

import json
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.efforts import Effort
from benchmarks.peers.works import Work

SCRIPTS = Path(__file__).parent / "systems"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a peer says of itself.

    Attributes:
        seconds: of each round, without start, reading and filling.
        version: of the system.
        per_window: records per window that came out, on average.
    """

    seconds: list[float]
    version: str
    per_window: float


def run(
    python: Path, peer: str, work: Work, effort: Effort, records: Path, results: Path | None = None
) -> Answer:
    """Have a peer do some work.

    Args:
        python: of its environment.
        peer: its name.
        work, effort: what to do, on how many records.
        records: a Parquet file of them.
        results: where to write the windows that come out, if they are wanted.

    Raises:
        RuntimeError: the process failed; with the end of what it said.
    """
    given = {"work": work.kind, "size": work.size_ms, "step": work.step_ms, "records": records}
    given |= {name: number for name, number in asdict(effort).items() if name != "successive"}
    given |= {"results": results} if results else {}
    command = [python, SCRIPTS / f"in_{peer}.py", *(f"--{name}={value}" for name, value in given.items())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{peer} failed at {work}: {done.stderr[-2_000:]}")
    return Answer(**json.loads(done.stdout.splitlines()[-1]))
