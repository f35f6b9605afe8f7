"""The starter forks processes for state, and ends with the daemon that has forked it."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from operators.spark.replicas import starting
from operators.spark.replicas.connection import Connection
from operators.spark.replicas.orders import Order
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.sockets import living, socket_of
from tests.operators.spark.bucket_worker import daemon_with_starter, has_ended
from tests.state_processes import is_state_process, starters, state_processes

Starting = tuple["subprocess.Popen[str]", str]


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Starting]:
    """A process with a starter, and the name of that one's socket, which this process uses."""
    with daemon_with_starter() as (process, name):
        monkeypatch.setattr(starting, "_starter", name)
        monkeypatch.setattr(starting, "_started", [])
        yield process, name


def started(parent: Parent, number: int = 0) -> str:
    """Start a process for state; return the name of its socket."""
    name = f"{parent.key}-{number}"
    starting.start(parent, name)
    return name


@pytest.mark.slow
def test_processes_are_forked_and_end_with_the_daemon(daemon: Starting) -> None:
    """Killed, it ends nothing itself. Those that it has forked see that it is gone."""
    process, name = daemon
    parent = Parent.of(process.pid)
    first, second = (started(parent, number) for number in range(2))
    assert all(map(living, (first, second, name)))
    assert [] == starting._started
    (starter,) = starters([process.pid])
    forked = state_processes([process.pid])
    assert 2 == len(forked)
    os.kill(process.pid, signal.SIGKILL)
    assert all(map(has_ended, [starter, *forked]))
    assert not any(map(living, (first, second, name)))


@pytest.mark.slow
def test_none_is_left_in_the_table_of_processes(daemon: Starting) -> None:
    """The starter waits for no process, and so the system does."""
    process, _ = daemon
    started(Parent.of(process.pid))
    (forked,) = state_processes([process.pid])
    os.kill(forked, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{forked}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{forked}").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [b"", b"{", b"[1]", json.dumps({"parent": []}).encode(), b"null"],
    ids=["nothing", "half", "a list", "other fields", "null"],
)
def test_what_is_no_order_is_passed_over(daemon: Starting, sent: bytes) -> None:
    """Those of others are carried out after it."""
    process, name = daemon
    path = socket_of(name)
    assert path is not None
    with Connection.to(path, 10) as asking:
        if sent:
            asking.send(sent)
            with pytest.raises(EOFError):
                asking.receive()
    assert living(started(Parent.of(process.pid)))
    assert [] == starting._started


@pytest.mark.slow
def test_a_worker_that_says_nothing_keeps_the_others_waiting_for_seconds(daemon: Starting) -> None:
    """One that stands still after it has connected."""
    process, name = daemon
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(socket_of(name)))
        assert living(started(Parent.of(process.pid)))
    assert [] == starting._started


@pytest.mark.slow
def test_an_order_that_cannot_be_carried_out(daemon: Starting, tmp_path: Path) -> None:
    """The new process says why on stderr and ends; the worker then starts one itself, afresh."""
    process, name = daemon
    path = socket_of(name)
    assert path is not None
    order = Order.like_this_process(Parent.of(process.pid), "0" * 16)
    gone = replace(order, folder=str(tmp_path / "gone"))
    with Connection.to(path, 10) as asking:
        asking.send(gone.encode())
        with pytest.raises(EOFError):
            asking.receive()
    assert [] == state_processes([process.pid])
    assert living(started(Parent.of(process.pid)))


@pytest.mark.slow
def test_without_a_starter_they_begin_afresh(daemon: Starting) -> None:
    """It was killed, for lack of memory perhaps."""
    process, name = daemon
    assert living(started(Parent.of(process.pid)))
    (starter,) = starters([process.pid])
    os.kill(starter, signal.SIGKILL)
    assert has_ended(starter)
    assert living(started(Parent.of(process.pid), 1))
    (afresh,) = starting._started
    assert is_state_process(afresh.pid)
    afresh.kill()
    afresh.wait()
    assert not living(name)


@pytest.mark.spark
def test_workers_of_a_session_have_a_starter(spark: SparkSession) -> None:
    """It is the parent of processes for state, and in the group of the daemon, which ends its group with itself."""

    def told(batches):
        import pyarrow as pa

        from operators.spark.replicas import starting

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()], "starter": [starting._starter]})

    rows = spark.range(1, numPartitions=1).mapInArrow(told, "daemon long, starter string").collect()
    (row,) = rows
    assert living(row.starter)
    assert 1 == len(starters([row.daemon]))
