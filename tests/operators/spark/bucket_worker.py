"""A process that works on buckets, as a worker of Spark does: batches of buckets whose journals are files.

    python -m tests.operators.spark.bucket_worker BACKEND RUN CODE FOLDER...

works on the first batch of the bucket in each folder, prints their rows, and waits. CODE says by how much its functions count.
The file FOLDER/fate says which process alone may add records, and whether others are `killed`, or only the first of them is
(`once`), or one of their functions `fails`; or what each function does: it `exits`, `forks`, `leaves` a process, `grows`,
starts `threads` of which one does not end, `asks` Spark which task it is in, or `tells` what it meets.
FOLDER/slow says that adding a record takes a few seconds; FOLDER/began that this has begun.

The process that has the copies ends with the parent that the environment names, as it does with Spark's daemon of workers.
"""

import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread

import pyarrow as pa
from pyspark import TaskContext, cloudpickle

from operators import TumblingWindows
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.base.logs import log_at
from operators.spark.inputs.blobs import from_blobs, to_blobs
from operators.spark.replicas import parents, starting
from operators.spark.replicas.calls import Blobs, Functions, Origin, Request
from operators.spark.replicas.copies import open_copies
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.sockets import socket_of
from operators.spark.replicas.where_held import run_where_held
from operators.spark.stream.job import Job
from state_backends import StateConfig, resolve
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.sqlite_journal import SqliteJournal

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.int64())])
SLOW_S = 3
TOO_MUCH = 1 << 40
"""Bytes that no process gets which has a limit of memory."""
SNAPSHOTS = "TEST_SNAPSHOTS"
"""The variable of the environment that has the snapshot folder, if there is one."""
_DAEMON = """
from operators.spark.replicas import starter, state_process
print(starter.fork_starter(), flush=True)
input()
"""
"""What a process does that has a starter, as Spark's daemon of workers: it says the name of the starter's socket."""
STARTER = "TEST_STARTER"
"""The variable of the environment that has the name of the starter's socket, if there is one."""
PARENT = "TEST_PARENT"
"""The variable of the environment that has the number of the parent of all workers."""


def counted(fate: Path, by: int, state: int) -> int:
    """Count one record, if this process may."""
    slow, until = fate.with_name("slow"), time.monotonic() + SLOW_S
    while slow.exists() and time.monotonic() < until:
        slow.with_name("began").touch()
        time.sleep(0.1)
    if not fate.exists():
        return state + by
    process, end = fate.read_text().split()
    mine = process == str(os.getpid())
    if end in ("killed", "once") and not mine:
        if end == "once":
            fate.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    if end in ACTS:
        ACTS[end](fate)
    elif not mine:
        raise RuntimeError("not in this process")
    return state + by


def leave_thread(fate: Path) -> None:
    """Use a thread, and leave another one that does not end."""
    assert fate.exists()
    Thread(target=time.sleep, args=(600,)).start()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fate.exists).result()


def leave_process(fate: Path) -> None:
    """Fork one process that outlives this one, and note its number."""
    left = fate.with_name("left")
    if left.exists():
        return
    child = os.fork()
    if not child:
        time.sleep(600)
        os._exit(0)
    left.write_text(str(child))


def ask_spark(fate: Path) -> None:
    """Ask Spark which task this is."""
    assert fate.exists()
    TaskContext.get().partitionId()  # type: ignore[union-attr]


def tell(fate: Path) -> None:
    """Write what this process meets."""
    path = str(fate.with_name("modules"))
    fate.with_name("told").write_text(f"{os.environ['MET']}\n{Path.cwd()}\n{path in sys.path}\n")


ACTS: dict[str, Callable[[Path], object]] = {
    "exits": lambda _: sys.exit("as the function says"),
    "forks": lambda _: os.fork(),
    "leaves": leave_process,
    "grows": lambda _: bytearray(TOO_MUCH),
    "threads": leave_thread,
    "asks": ask_spark,
    "tells": tell,
}


def job(folder: Path, backend: str, code: int = 1) -> Job:
    """Return what the buckets of the test do: windows of 10 ms by key."""
    options = {"state.directory": str(folder / "local"), "state.snapshots.batches": 2}
    if SNAPSHOTS in os.environ:
        options["state.snapshots.folder"] = os.environ[SNAPSHOTS]
    config = resolve(backend, options)
    op = TumblingWindows(10).group_by("k")
    add = partial(counted, folder / "fate", code)
    op = op.aggregate(n=agg.fold(int, add, type="bigint", name="counted"))
    return Job(op.bind(SCHEMA, "at", config), config, (0,), WatermarkRule())


def batch(
    folder: Path, backend: str, run: str, number: int, code: int = 1, more: int = 0
) -> list[tuple[object, ...]]:
    """Work on the batch of a number, and return its rows: the windows of the batch before.

    Args:
        folder: of the bucket.
        backend: of its state.
        run: of the query.
        number: of the batch.
        code: by how much this process's functions count.
        more: records beside the usual three.
    """
    journal = SqliteJournal(folder / "journal")
    try:
        pointer = read_pointer(journal) or Pointer.fresh()
        at = 10 * number + 5
        keys = ["a", "b", "a", *["c"] * more]
        table = pa.table({"k": keys, "at": [at] * len(keys)}, SCHEMA)
        bucket_job = job(folder, backend, code)
        table = table.rename_columns(list(bucket_job.binding.inputs.names))
        call = Call(watermark_ms=at - 6, now_ms=number)
        request = Request(pointer, 0, number, call, Blobs([*to_blobs(table)]))
        pickled = cloudpickle.dumps(bucket_job)  # type: ignore[no-untyped-call]
        origin = Origin(run, f"{folder.name} {code}")
        outcome = run_where_held(bucket_job, Functions(origin, "warning", pickled), journal, request, 0)
        journal.commit()
    finally:
        journal.close()
    return [tuple(row.values()) for rows in from_blobs(outcome.blobs) for row in rows.to_pylist()]


@contextmanager
def daemon_with_starter() -> Iterator[tuple[Popen[str], str]]:
    """A process that has a starter, and the name of the starter's socket. All that is in its group is killed in the end."""
    with Popen([sys.executable, "-c", _DAEMON], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def worker(*folders: Path, backend: str, run: str = "run", code: int = 1) -> Iterator[Popen[str]]:
    """A process that has worked on the first batch of these buckets and has their copies. Its stderr can be read."""
    command = [sys.executable, "-m", __name__, backend, run, str(code), *map(str, folders)]
    environment = {**os.environ, PARENT: str(parents.parent().number)}
    with Popen(command, stdout=PIPE, stderr=PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            assert [process.stdout.readline() for _ in folders] == ["[]\n"] * len(folders)
            yield process
        finally:
            process.kill()


def name_of_process() -> str:
    """The name of the process that has the copies of this worker's executor."""
    return f"{parents.parent().key}-0"


def state_process() -> int | None:
    """The number of the process that has the copies of this worker's executor, if it lives."""
    path = socket_of(name_of_process())
    assert path is not None
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path))
        except OSError:
            return None
        return int(struct.unpack("iII", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


def has_copy_of(config: StateConfig, store_id: str) -> bool:
    """Whether this process has a copy of a bucket."""
    return (store_id, config) in open_copies()


def has_ended(number: int) -> bool:
    """Whether a process ends within a minute: all of its threads, since its sockets close with the last of them."""
    process, deadline = Parent.of(number), time.monotonic() + 60
    while (alive := process.lives() or _threads(number) > 1) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive


def _threads(number: int) -> int:
    """How many threads a process has; one that nobody has waited for yet counts as one."""
    try:
        return sum(1 for _ in Path(f"/proc/{number}/task").iterdir())
    except OSError:
        return 0


def have_parent() -> None:
    """Take the process that the environment names for the parent of this one, and use its starter."""
    starting.use_starter(os.environ.get(STARTER, ""))
    parents.parent = lambda: Parent.of(int(os.environ[PARENT]))


def main(backend: str, run: str, code: str, *folders: str) -> None:
    """Work on the first batch of each bucket, and wait."""
    log_at("warning")
    have_parent()
    for folder in folders:
        rows = batch(Path(folder), backend, run, 0, int(code))
        sys.stdout.write(f"{rows}\n")
        sys.stdout.flush()
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
