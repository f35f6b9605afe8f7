"""The side that works for tasks of other processes: nothing stops it, and it keeps no more than it needs."""

import errno
import gc
import logging
import socket
import tempfile
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from operators import TumblingWindows
from operators import aggregates as agg
from operators.runtime.closing import Closing
from operators.spark import logs, serving
from operators.spark.blobs import to_blobs
from operators.spark.bucket import Blobs, Call, Job, Origin, Request
from operators.spark.connection import Connection
from operators.spark.copies import drop_copy
from operators.spark.owners import work
from operators.spark.sockets import socket_of
from state_backends import resolve
from state_backends.durability.pointer import Pointer
from state_backends.journal import MemoryJournal


class ShortOf(socket.socket):
    """A listener whose system is short of something when it accepts a connection, some times."""

    times = 3

    def accept(self) -> Any:
        self.times -= 1
        if self.times >= 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


class Unstarted(Thread):
    """A thread that the system cannot start, some times."""

    times = 3

    def start(self) -> None:
        Unstarted.times -= 1
        if Unstarted.times >= 0:
            raise RuntimeError("can't start new thread")
        super().start()


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
            task.send(b"\xc1")
            task.receive()
        except (EOFError, ConnectionError):
            return True
    return False


@pytest.mark.parametrize("of", ["files", "threads"])
def test_a_shortage_passes(
    place: str, of: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop that accepts connections pauses after each failure, and goes on; it says so once."""
    pauses: list[float] = []
    monkeypatch.setattr(serving, "time", SimpleNamespace(sleep=pauses.append, monotonic=time.monotonic))
    if of == "threads":
        monkeypatch.setattr(Unstarted, "times", 3)
        monkeypatch.setattr(serving, "Thread", Unstarted)
    listener = (ShortOf if of == "files" else socket.socket)(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    Thread(target=serving._accept, args=(listener,), daemon=True).start()
    assert [True] * 4 == [is_alive(place) for _ in range(4)]
    assert [serving._PAUSE_S] * 3 == pauses
    assert 1 == sum(
        one.levelname == "WARNING" and "cannot be worked for" in one.message for one in caplog.records
    )


def test_a_process_that_could_not_listen_listens_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Others open copies of their own meanwhile, and it says so once."""
    monkeypatch.setattr(logs, "_warned", set())
    monkeypatch.setattr(serving, "_names", {})
    caplog.set_level(logging.DEBUG, "operators")
    monkeypatch.setattr(serving, "Thread", Unstarted)
    monkeypatch.setattr(Unstarted, "times", 2)
    assert [None, None] == [serving.listening() for _ in range(2)]
    name = serving.listening()
    assert name == serving.listening()
    place = socket_of(name)
    assert place is not None
    assert is_alive(str(place))
    assert ["WARNING", "DEBUG"] == [one.levelname for one in caplog.records if "cannot listen" in one.message]


def worked(folder: Path, name: str) -> "weakref.ref[Any]":
    """Work on a batch of a new bucket, and return a reference to what its functions hold."""

    class Large:
        """What a closure may keep."""

    held = Large()

    def add(state: int) -> int:
        assert held
        return state + 1

    config = resolve("memory", {"state.directory": str(folder)})
    op = TumblingWindows(10).aggregate(n=agg.fold(int, add, type="bigint"))
    program = op.program(pa.schema([("at", pa.int64())]), "at", config)
    rows = pa.table({program.inputs.names[0]: [1, 2]})
    pointer = replace(Pointer.fresh(), store_id=name)
    request = Request(pointer, 0, 0, Call(0, 0), Blobs(list(to_blobs(rows))))
    work(Job(program, config, (0,), Closing()), Origin("run", name), MemoryJournal(), request)
    return weakref.ref(held)


def test_functions_are_kept_as_long_as_the_copy(tmp_path: Path) -> None:
    """Not those of all runs that a process has worked for: they may hold much."""
    config = resolve("memory", {"state.directory": str(tmp_path)})
    first, second, third = ("0" * 15 + digit for digit in "123")
    one = worked(tmp_path, first)
    assert one() is not None
    drop_copy(config, first)
    other = worked(tmp_path, second)
    gc.collect()
    assert one() is None
    assert other() is not None
    drop_copy(config, second)
    worked(tmp_path, third)
    gc.collect()
    assert other() is None
    drop_copy(config, third)


def test_blobs_are_made_at_once() -> None:
    """A function that makes one may hold all pages of a snapshot."""
    one, other = socket.socketpair(socket.AF_UNIX)

    class Pages:
        """Of a part of a snapshot."""

    with Connection(one, 60) as task, Connection(other, 60):
        journal = serving._SentJournal(task, {"pointer": b"p"})
        pages = Pages()
        reference = weakref.ref(pages)
        journal.put("base-1-0", lambda pages=pages: b"bytes" if pages else b"")  # type: ignore[misc]
        del pages
        gc.collect()
        assert reference() is None
        assert b"bytes" == journal.get("base-1-0")
        assert {"base-1-0": b"bytes"} == journal.changes
        journal.remove("base-1-0")
        assert journal.get("base-1-0") is None
        assert b"p" == journal.get("pointer")


def test_a_task_that_stands_still_is_not_waited_for() -> None:
    """It does not hold the bucket's copy, nor the turn of user functions."""
    one, other = socket.socketpair(socket.AF_UNIX)
    with Connection(one, 0.2) as task, Connection(other, 60):
        journal = serving._SentJournal(task, {})
        with pytest.raises(serving._TaskEndedError, match="does not send 'log-1' of its journal: timed out"):
            journal.get("log-1")
