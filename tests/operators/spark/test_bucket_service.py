"""The side that works for tasks of other processes: nothing stops it, and it keeps no more than it needs."""

import errno
import gc
import pickle
import socket
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from operators import TumblingWindows
from operators import aggregates as agg
from operators.runtime.batch_clock import Call
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.base import logs
from operators.spark.inputs import spool
from operators.spark.inputs.blobs import to_blobs
from operators.spark.replicas import bucket_service
from operators.spark.replicas.bucket_service import BucketService
from operators.spark.replicas.calls import Blobs, Done, Functions, Origin, Outcome, Request
from operators.spark.replicas.connection import Connection
from operators.spark.replicas.copies import drop_copy, open_copies
from operators.spark.replicas.held_journal import HeldJournal
from operators.spark.replicas.messages import (
    Answer,
    Asked,
    Failed,
    Ready,
    Refused,
    Wanted,
    WantedFunctions,
    decode_answer,
    encode_blob,
    encode_functions,
    encode_request,
)
from operators.spark.stream.job import Job
from state_backends import resolve
from state_backends.durability.pointer import Pointer
from state_backends.durability.progress import Progress
from state_backends.journal import MemoryJournal

Weak = weakref.ReferenceType[Any]
ASKED = 4


class ShortOf(socket.socket):
    """A listener whose system is short of something when it accepts a connection, some times."""

    times = 3

    def accept(self) -> Any:
        self.times -= 1
        if self.times >= 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where to listen."""
    monkeypatch.setattr(logs, "_warned", set())
    with tempfile.TemporaryDirectory() as made:
        yield f"{made}/socket"


def is_alive(place: str) -> bool:
    """Whether the process answers what is no request, by closing the connection."""
    with Connection.to(Path(place), 60) as task:
        try:
            assert Ready() == decode_answer(task.receive(), "")
            task.send(b"\xc1")
            task.receive()
        except (EOFError, ConnectionError):
            return True
    return False


def test_a_shortage_passes(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread that accepts connections pauses after each failure, and goes on; it says so once."""
    pauses: list[float] = []
    monkeypatch.setattr(
        bucket_service, "time", SimpleNamespace(sleep=pauses.append, monotonic=time.monotonic)
    )
    listener = ShortOf(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    listener.settimeout(60)
    service = BucketService()

    def accept() -> None:
        for _ in range(ShortOf.times + ASKED):
            service.accept(listener)

    threads = [
        Thread(target=accept, daemon=True),
        Thread(target=lambda: [service.serve_next(60) for _ in range(ASKED)], daemon=True),
    ]
    for thread in threads:
        thread.start()
    assert [True] * ASKED == [is_alive(place) for _ in range(ASKED)]
    for thread in threads:
        thread.join()
    listener.close()
    assert [bucket_service._PAUSE_S] * ShortOf.times == pauses
    assert 1 == sum(
        one.levelname == "WARNING" and "cannot work for a task" in one.message for one in caplog.records
    )


def test_those_that_wait_for_work_of_a_task_that_ended_are_sent_away() -> None:
    """It may take for ever, and those that ask while it goes on do not wait for it. Those before it are worked for."""
    service = BucketService()
    pairs = [socket.socketpair(socket.AF_UNIX) for _ in range(3)]
    first, second, third = (Connection(one, 60) for one, _ in pairs)
    for _, other in pairs[:2]:
        service.take(Connection(other, 60))
    thread = Thread(target=service.serve_next, args=(60,), daemon=True)
    thread.start()
    assert Ready() == decode_answer(first.receive(), ONE)
    service._worked_for = SimpleNamespace(has_ended=lambda: True)  # type: ignore[assignment]
    service.take(Connection(pairs[2][1], 60))
    for task in (second, third):
        assert Refused() == decode_answer(task.receive(), ONE)
        with pytest.raises(EOFError):
            task.receive()
    first.close()
    thread.join()
    assert service._worked_for is None
    assert not service._accepted


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker whose requests come to a service of this process.

    Attributes:
        folder: of its local state.
        to: the service.
    """

    folder: Path
    to: BucketService

    def asks(
        self, bucket: str, *, run: str = "run", identity: dict[str, Any] | None = None
    ) -> tuple[Answer, Weak | None]:
        """What the service answers to a batch of two records, and a reference to what the functions hold, if it wanted them."""
        bucket_job = job(self.folder)
        rows = pa.table({bucket_job.binding.inputs.names[0]: [1, 2]})
        pointer = replace(Pointer.fresh(), store_id=bucket, progress=Progress(identity=identity))
        request = Request(pointer, 0, 0, Call(0, 0), Blobs([*to_blobs(rows)]))
        origin = Origin(run, "digest")
        one, other = socket.socketpair(socket.AF_UNIX)
        self.to.take(Connection(other, 60))
        Thread(target=self.to.serve_next, args=(60,), daemon=True).start()
        held = None
        with Connection(one, 60) as task:
            while isinstance(
                answer := decode_answer(task.receive(), bucket), Ready | WantedFunctions | Wanted
            ):
                if isinstance(answer, Ready):
                    task.send(encode_request(Asked(origin, request)))
                    continue
                if isinstance(answer, Wanted):
                    task.send(encode_blob(None))
                    continue
                task.send(
                    encode_functions(Functions(origin, "warning", pickle.dumps(bucket_job)), ["/there"])
                )
        held = LARGE[-1] if LARGE else None
        return answer, held


class Large:
    """What a closure may keep."""

    def __reduce__(self) -> Any:
        return loaded, ()


LARGE: list[Weak] = []
"""What was loaded, in its order."""


def loaded() -> Large:
    """What a process gets that loads functions."""
    large = Large()
    LARGE.append(weakref.ref(large))
    return large


def add(held: Large, state: int) -> int:
    """Count a record."""
    assert held
    return state + 1


def job(folder: Path) -> Job:
    """A job whose functions hold something."""
    config = resolve("memory", {"state.directory": str(folder)})
    op = TumblingWindows(10).aggregate(n=agg.fold(int, partial(add, Large()), type="bigint", name="held"))
    return Job(op.bind(pa.schema([("at", pa.int64())]), "at", config), config, (0,), WatermarkRule())


@pytest.fixture
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker of a service, whose copies are closed afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    LARGE.clear()
    yield Worker(tmp_path, BucketService())
    for name, config in open_copies():
        if str(config.directory) == str(tmp_path):
            drop_copy(config, name)


ONE, OTHER, THIRD = ("0" * 15 + digit for digit in "123")


def test_functions_are_wanted_once(at_work: Worker) -> None:
    """For all buckets and batches of a run; and what they import is looked for where the worker's process does."""
    for bucket in (ONE, ONE, OTHER):
        assert isinstance(at_work.asks(bucket)[0], Done)
    assert 1 == len(LARGE)
    assert "/there" in sys.path


def test_functions_are_kept_as_long_as_the_copy(at_work: Worker) -> None:
    """Not those of all runs that a process has worked for: they may hold much."""
    _, first = at_work.asks(ONE)
    assert first is not None
    assert first() is not None
    drop_copy(job(at_work.folder).config, ONE)
    _, second = at_work.asks(OTHER, run="second")
    gc.collect()
    assert first() is None
    assert second is not None
    assert second() is not None


def test_a_state_that_is_refused_is_no_matter_of_processes(
    at_work: Worker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning has the way out of the error, and no guess at functions."""
    monkeypatch.setattr(logs, "_warned", set())
    with caplog.at_level("WARNING"):
        answer, _ = at_work.asks(ONE, identity={"windows": "others"})
    assert isinstance(answer, Failed)
    (said,) = [one.message for one in caplog.records if "work on a bucket failed" in one.message]
    assert "StateError: the checkpoint holds the state of another operator" in said
    assert "depend" not in said


def test_copies_of_an_earlier_run_are_closed_in_time(
    at_work: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When another run begins, those without a call for ten minutes: ten queries in turn do not add up."""
    assert isinstance(at_work.asks(ONE)[0], Done)
    assert isinstance(at_work.asks(OTHER, run="second")[0], Done)
    assert {ONE, OTHER} <= {name for name, _ in open_copies()}
    monkeypatch.setattr(bucket_service, "_ENDED_RUN_S", 0.0)
    assert isinstance(at_work.asks(THIRD, run="third")[0], Done)
    assert {THIRD} == {name for name, _ in open_copies()} & {ONE, OTHER, THIRD}


def test_blobs_are_made_at_once(tmp_path: Path) -> None:
    """A function that makes one may hold all pages of a snapshot."""

    class Pages:
        """Of a part of a snapshot."""

    journal = HeldJournal({"pointer": b"p"}.get, tmp_path)
    pages = Pages()
    reference = weakref.ref(pages)
    journal.put("base-1-0", lambda pages=pages: b"bytes" if pages else b"")  # type: ignore[misc]
    del pages
    gc.collect()
    assert reference() is None
    assert b"bytes" == journal.get("base-1-0")
    journal.remove("base-1-0")
    assert journal.get("base-1-0") is None
    assert b"p" == journal.get("pointer")


def test_parts_of_a_snapshot_that_wait_to_be_written_are_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in a file, and each is read when it is written to the journal; work that begins again forgets them."""
    monkeypatch.setattr(spool, "IN_MEMORY_BYTES", 1 << 20)
    parts = [bytes([number]) * (1 << 20) for number in range(3)]
    journal, written = HeldJournal({}.get, tmp_path), MemoryJournal()
    for _ in range(2):
        journal.rollback()
        for number, part in enumerate(parts):
            journal.put(f"base-1-{number}", part)
        journal.put("base-1-1", parts[2])
        assert parts[2] == journal.get("base-1-1")
        assert journal._large.on_disk
        assert not journal._large._blobs
    Done(journal.changes(), Outcome((), {}, None)).write_to(written)
    assert [parts[0], parts[2], parts[2]] == [written.get(f"base-1-{number}") for number in range(3)]


def test_a_task_that_stands_still_is_not_waited_for() -> None:
    """Others wait for their turn."""
    one, other = socket.socketpair(socket.AF_UNIX)
    with (
        Connection(one, 0.2) as task,
        Connection(other, 60),
        pytest.raises(
            bucket_service._TaskEndedError, match="does not send 'log-1' of its journal: timed out"
        ),
    ):
        bucket_service._read_journal(task, "log-1")
