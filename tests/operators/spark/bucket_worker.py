"""A process that works on a bucket, as a worker of Spark does: batches of a bucket whose journal is a file.

    python -m tests.operators.spark.bucket_worker FOLDER BACKEND RUN BATCH

works on one batch, prints its rows, and waits, with the bucket's copy open. The file FOLDER/fate says which process alone may
add records, and whether others are `killed` or one of their functions `fails`; FOLDER/slow, that adding takes half a second.
"""

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pyarrow as pa

from operators import TumblingWindows
from operators import aggregates as agg
from operators.runtime.closing import Closing
from operators.spark.bucket import Blobs, Call, Job, Request
from operators.spark.owners import work
from operators.spark.packing import from_blobs, to_blob
from state_backends import resolve
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.sqlite_journal import SqliteJournal

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.int64())])


def counted(fate: Path, state: int) -> int:
    """Add one, if this process may."""
    if fate.with_name("slow").exists():
        time.sleep(0.5)
    if fate.exists():
        process, end = fate.read_text().split()
        if process != str(os.getpid()) and end == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if process != str(os.getpid()):
            raise RuntimeError("not in this process")
    return state + 1


def job(folder: Path, backend: str) -> Job:
    """Return what the buckets of the test do: windows of 10 ms by key."""
    config = resolve(backend, {"state.directory": str(folder / "local")})
    op = TumblingWindows(10).group_by("k")
    op = op.aggregate(n=agg.fold(int, partial(counted, folder / "fate"), type="bigint", name="counted"))
    return Job(op.program(SCHEMA, "at", config), config, (0,), Closing())


def batch(folder: Path, backend: str, run: str, number: int) -> list[tuple[object, ...]]:
    """Work on the batch of a number, and return its rows: the windows of the batch before."""
    journal = SqliteJournal(folder / "journal")
    try:
        pointer = read_pointer(journal) or Pointer.fresh()
        at = 10 * number + 5
        table = pa.table({"k": ["a", "b", "a"], "at": [at] * 3}, SCHEMA)
        bucket_job = job(folder, backend)
        table = table.rename_columns(list(bucket_job.program.inputs.names))
        call = Call(watermark=at - 6, clock=number)
        request = Request(pointer, 0, number, call, Blobs([to_blob(table)]))
        outcome = work(bucket_job, (run, "windows"), journal, request)
        journal.commit()
    finally:
        journal.close()
    return [tuple(row.values()) for rows in from_blobs(outcome.blobs) for row in rows.to_pylist()]


if __name__ == "__main__":
    rows = batch(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
    sys.stdout.write(f"{rows}\n")
    sys.stdout.flush()
    time.sleep(600)
