"""What a user's function may do to its process: fork it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from operators import TumblingWindows
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.runtime.binding import Binding
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.inputs.blobs import to_blobs
from operators.spark.replicas.calls import Blobs, Request
from operators.spark.stream.job import Job
from state_backends import resolve
from state_backends.backends.memory import MemoryBackend
from state_backends.durability.pointer import Pointer
from state_backends.journal import MemoryJournal
from tests.operators.spark.bounded_frames import SCHEMA, Frame

WINDOWS = TumblingWindows("4 ms").group_by("k")
ROWS = [(key, 1_000 * at, 0, 1) for at in range(8) for key in (0, 1)]
FRAME = Frame(ROWS, tasks=1, groups={0: 0, 1: 1}, step=4, batch=4)


class Watched(MemoryBackend):
    """Notes which process writes, and which closes."""

    def write(self, *args: Any) -> None:
        with Path("wrote").open("a") as file:
            file.write(f"{os.getpid()}\n")
        super().write(*args)

    def close(self) -> None:
        with Path("wrote").open("a") as file:
            file.write(f"{os.getpid()}\n")
        super().close()


def forking(state: int) -> int:
    """Fork, and go on in both processes."""
    if not os.fork() and Path("raises").exists():
        raise RuntimeError("in the new process")
    return state + 1


def in_a_forked_worker() -> None:
    """Work on a bucket with a function that forks, and print which process has come so far."""
    config = resolve(f"{Watched.__module__}:{Watched.__name__}", {"state.directory": "state"})
    operator = WINDOWS.aggregate(n=agg.fold(int, forking, type="bigint"))
    job = Job(bound(operator), config, (0,), WatermarkRule())
    rows = FRAME.table.slice(0, 1).select(list(job.binding.inputs.names))
    job.run(MemoryJournal().get, Request(Pointer.fresh(), 0, 0, Call(0, 0), Blobs(list(to_blobs(rows)))))
    print(os.getpid(), flush=True)  # noqa: T201 - read by a test


@pytest.mark.slow
@pytest.mark.parametrize("raises", [False, True])
def test_a_process_that_a_function_forks_writes_nothing(tmp_path: Path, raises: bool) -> None:
    """It has the same copy open, and ends when the function returns in it, or raises an error."""
    if raises:
        (tmp_path / "raises").touch()
    command = f"from {__name__} import in_a_forked_worker; in_a_forked_worker()"
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", command],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    (process,) = done.stdout.split()
    assert {process} == {*(tmp_path / "wrote").read_text().split()}


def bound(operator: Any) -> Binding:
    """The operator bound to the columns of the frame."""
    return operator.bind(SCHEMA, "t", resolve("memory"))
