"""User functions have their turn: one thread of a process at a time calls them, wherever in Spark's tasks that is."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

from operators import AggregateOperation, Declaration, KeyedOperator, TumblingWindows
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.runtime.binding import Binding
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.base import user_code_lock
from operators.spark.batch.bounded import BoundedRun
from operators.spark.inputs.blobs import to_blobs
from operators.spark.inputs.packing import Pack
from operators.spark.replicas.calls import Blobs, Request
from operators.spark.replicas.copies import drop_copy
from operators.spark.state.bootstrap import OpenPages
from operators.spark.stream.job import Job
from state_backends import resolve
from state_backends.backends.memory import MemoryBackend
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.journal import MemoryJournal
from tests.operators.spark.bounded_frames import SCHEMA, Frame

seen: set[bool] = set()
"""Whether it was the turn of user functions, whenever one was called."""


def look() -> None:
    """Look whose turn it is."""
    seen.add(user_code_lock._turn.locked())


def added(state: Any) -> Any:
    look()
    return state[0] + 1, *state[1:]


def combined(left: Any, right: Any) -> Any:
    look()
    return (left[0] + right[0],)


def finished(state: Any) -> Any:
    look()
    return state[0]


PRIMITIVES = AggregateOperation("counted", (int,), lambda: (0,), added, combined, finished, "bigint")


def fold(state: int) -> int:
    look()
    return state + 1


@dataclass(frozen=True, kw_only=True)
class Counting(KeyedOperator):
    """Emits a row for each record."""

    def schema(self, types: Mapping[str, pa.DataType]) -> Declaration:
        return Declaration(results={"n": "bigint"})

    def process(self, time: int, record: dict[str, Any], context: Any) -> Any:
        look()
        yield {"n": 1}


def merged(left: int, right: int) -> int:
    look()
    return left + right


WINDOWS = TumblingWindows("4 ms").group_by("k")
OPERATORS = {
    "operation": WINDOWS.aggregate(n=PRIMITIVES()),
    "fold": WINDOWS.aggregate(n=agg.fold(int, fold, type="bigint")),
    "merged fold": WINDOWS.aggregate(n=agg.fold(int, fold, type="bigint", merge=merged)),
    "custom": Counting().group_by("k"),
}
BUILT_IN = WINDOWS.aggregate(n=agg.count(), most=agg.max("v"))
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


def bucket(operator: Any) -> None:
    """A stream's task, or another process for it."""
    with tempfile.TemporaryDirectory() as folder:
        config = resolve("memory", {"state.directory": folder})
        job = Job(bound(operator), config, (0,), WatermarkRule())
        pointer, journal = Pointer.fresh(), MemoryJournal()
        rows = FRAME.table.select(list(job.binding.inputs.names))
        job.run(journal.get, Request(pointer, 0, 0, Call(0, 0), Blobs(list(to_blobs(rows))))).write_to(
            journal
        )
        job.run(journal.get, Request(read_pointer(journal) or pointer, 0, 1, Call(10, 1), Blobs())).write_to(
            journal
        )
        drop_copy(config, pointer.store_id)


def reading(operator: Any) -> None:
    """A stream's task that reads rows."""
    binding = bound(operator)
    rows = FRAME.table.select(list(binding.inputs.names))
    assert list(Pack(binding, (0, 1))(rows.to_batches(max_chunksize=4)))


def bounded(operator: Any) -> None:
    """The tasks of a bounded frame."""
    binding = bound(operator)
    rows, source = FRAME.ordered(binding)
    run = BoundedRun(replace(binding, plan=bound(operator.bounded()).plan), source, "windows", FRAME.step)
    assert list(run(rows.to_batches(max_chunksize=4)))


def savepoint(operator: Any) -> None:
    """The tasks that write the state of a bounded frame."""
    binding = bound(operator)
    rows, source = FRAME.ordered(binding)
    run = OpenPages(binding, source, "windows", FRAME.step, close_time=6, labels=(0,))
    list(run(rows.to_batches(max_chunksize=4)))


TASKS = [bucket, reading, bounded, savepoint]
CALLS_NONE = {(reading, "fold"), (reading, "custom")}
"""Folds without merge, and custom operators, get records, and nothing that was made of them by another task."""


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", OPERATORS)
def test_user_functions_are_called_in_their_turn(task: Callable[[Any], None], kind: str) -> None:
    seen.clear()
    task(OPERATORS[kind])
    assert (set() if (task, kind) in CALLS_NONE else {True}) == seen
    assert not user_code_lock._turn.locked()


@pytest.mark.parametrize("task", [reading, bounded, savepoint])
def test_built_in_aggregates_wait_for_nobody(task: Callable[[Any], None]) -> None:
    """Rows are read at the same time as a function of a user runs, where none is called."""
    with user_code_lock._turn:
        task(BUILT_IN)


@pytest.mark.parametrize("operator", [OPERATORS["fold"], BUILT_IN], ids=["user functions", "built-in"])
def test_threads_take_turns(operator: Any) -> None:
    """A second bucket of the process is worked on when the first is done, whatever is computed."""
    began, done = Event(), Event()

    def work() -> None:
        began.set()
        bucket(operator)
        done.set()

    thread = Thread(target=work)
    with user_code_lock._turn:
        thread.start()
        began.wait()
        assert not done.wait(0.5)
    thread.join()
    assert done.is_set()
