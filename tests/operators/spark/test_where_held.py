"""The process that has a bucket's copy works for Spark's workers; if it cannot, they work themselves."""

import math
import os
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from threading import Thread
from typing import Any

import msgpack
import numpy as np
import pytest
from s3_server import CREDENTIALS, running

from operators.spark.replicas import messages, parents, where_held
from operators.spark.replicas.calls import Origin
from operators.spark.replicas.connection import Connection
from operators.spark.replicas.copies import drop_copy
from operators.spark.replicas.messages import Ready, encode_answer
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.sockets import listen, socket_of
from operators.spark.stream.bucket_task import label_of
from state_backends import StateError
from state_backends.durability.folders import Folder
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.snapshots import SnapshotFolder
from state_backends.sqlite_journal import SqliteJournal
from tests.effort import few, slow
from tests.operators.spark.bucket_worker import (
    PARENT,
    SNAPSHOTS,
    batch,
    has_copy_of,
    has_ended,
    job,
    name_of_process,
    state_process,
    worker,
)
from tests.patience import files, wait_until

ROWS = [("a", 2), ("b", 1)]
"""Keys and counts of each batch but the first."""
PATIENCE_S = 2.0
"""After which a process is taken for one that stands still."""


def alone_batch(folder: Path, backend: str, number: int) -> list[tuple[object, ...]]:
    """A batch of a worker that has no process for state."""
    where_held._resting[repr(Origin("alone", f"{folder.name} 1"))] = math.inf
    return batch(folder, backend, "alone", number)


def counts(rows: list[tuple[object, ...]]) -> list[tuple[object, object]]:
    """Key and count of each row."""
    return sorted((key, count) for key, _, count in rows)


def has_copy(folder: Path, backend: str) -> bool:
    """Whether this process has a copy of the bucket."""
    return has_copy_of(job(folder, backend).config, store_id(folder))


def stored(folder: Path) -> Pointer:
    """The pointer of the bucket's state."""
    journal = SqliteJournal(folder / "journal")
    pointer = read_pointer(journal)
    journal.close()
    assert pointer is not None
    return pointer


def store_id(folder: Path) -> str:
    """The name of the bucket's state."""
    return stored(folder).store_id


@pytest.fixture
def folders(tmp_path: Path, processes: "list[Popen[bytes]]") -> Iterator[list[Path]]:
    """Empty folders of buckets; this process's copies in them are closed afterwards."""
    assert not processes
    made = [tmp_path / f"bucket-{number}" for number in range(3)]
    for one in made:
        one.mkdir()
    yield made
    for one in made:
        for backend in ("memory", "rocksdb", "spark"):
            with suppress(AssertionError):
                drop_copy(job(one, backend).config, store_id(one))


@pytest.fixture
def folder(folders: list[Path]) -> Path:
    """The folder of one bucket."""
    return folders[0]


def blobs(folder: Path) -> set[str]:
    """The names of all that the bucket's journal has."""
    with closing(sqlite3.connect(folder / "journal")) as journal:
        return {name for (name,) in journal.execute("SELECT name FROM blobs")}


@pytest.mark.slow
@pytest.mark.parametrize("backend", few(["memory", "rocksdb", "spark"], 3))
def test_the_copy_outlives_the_worker(folders: list[Path], backend: str) -> None:
    """The process that a worker has started works on after the worker's end. When it is killed, another goes on where it was.

    What it writes into the journal, and removes from it, is what one process alone does.
    """
    folder, alone, _ = folders
    assert [] == alone_batch(alone, backend, 0)
    with worker(folder, backend=backend) as first:
        first.kill()
    holder = state_process()
    for number in (1, 2, 3):
        assert ROWS == counts(batch(folder, backend, "run", number))
        assert ROWS == counts(alone_batch(alone, backend, number))
        assert blobs(alone) == blobs(folder)
        assert holder == state_process()
    assert not has_copy(folder, backend)
    assert holder is not None
    os.kill(holder, signal.SIGKILL)
    assert has_ended(holder)
    assert ROWS == counts(batch(folder, backend, "run", 4))
    assert state_process() not in (None, holder)
    assert not has_copy(folder, backend)
    assert ROWS == counts(batch(folder, backend, "run", 5))


@pytest.mark.slow
def test_a_process_that_dies_at_work_is_replaced(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing was written by then, so another one works on the batch from its start."""
    assert [] == batch(folder, "rocksdb", "run", 0)
    before = state_process()
    (folder / "fate").write_text("0 once")
    assert ROWS == counts(batch(folder, "rocksdb", "run", 1))
    assert state_process() not in (None, before)
    assert 1 == caplog.text.count("the process that had the copy of")


def test_a_process_that_is_killed_at_work_is_replaced(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From outside, as the kernel does for lack of memory: the copy is rebuilt within the task, and the log says why."""
    assert [] == batch(folder, "memory", "run", 0)
    before = state_process()
    assert before is not None
    (folder / "slow").touch()

    def kill() -> None:
        wait_until((folder / "began").exists, "the work", files(folder))
        os.kill(before, signal.SIGKILL)
        (folder / "slow").unlink()

    killer = Thread(target=kill)
    killer.start()
    assert ROWS == counts(batch(folder, "memory", "run", 1))
    killer.join()
    after = state_process()
    assert after not in (None, before)
    assert 1 == caplog.text.count(
        "has died without an error message: it was killed, perhaps because memory ran out"
    )
    assert ROWS == counts(batch(folder, "memory", "run", 2))
    assert (after, False) == (state_process(), has_copy(folder, "memory"))


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[Path]:
    """A control group of the kernel whose processes may take 2 MB more than they have."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    group = (v1 if v1.is_dir() else v2) / f"windows-{tmp_path.name}-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if v1.is_dir() else "memory.max")).write_text(str(2 << 20))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(
            f"the kernel's limits of memory cannot be set here: {error}. Run the tests as root, or in a VM"
        )
    yield group
    procs = group / "cgroup.procs"
    wait_until(lambda: not procs.read_text(), "the end of its processes", procs.read_text)
    group.rmdir()


@pytest.mark.slow
def test_a_process_that_the_kernel_kills_for_memory_is_replaced(
    folder: Path, cramped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It needs more than its control group may have, in the middle of a batch: the copy is rebuilt within the task."""
    assert [] == batch(folder, "memory", "run", 0)
    before = state_process()
    assert before is not None
    (cramped / "cgroup.procs").write_text(str(before))
    assert ROWS == counts(batch(folder, "memory", "run", 1, more=200_000))
    assert has_ended(before)
    after = state_process()
    assert after not in (None, before)
    assert "it was killed, perhaps because memory ran out" in caplog.text
    assert [*ROWS, ("c", 200_000)] == counts(batch(folder, "memory", "run", 2))
    assert (after, False) == (state_process(), has_copy(folder, "memory"))


@pytest.mark.slow
def test_what_kills_each_process_is_an_error(folder: Path) -> None:
    """The worker does not try the same itself: it would be killed without a word, too. The batch can be repeated."""
    assert [] == batch(folder, "memory", "run", 0)
    (folder / "fate").write_text("0 killed")
    with pytest.raises(StateError, match=r"died, and so did the one.*killed, perhaps because memory ran out"):
        batch(folder, "memory", "run", 1)
    (folder / "fate").unlink()
    assert ROWS == counts(batch(folder, "memory", "run", 1))
    assert not has_copy(folder, "memory")


@pytest.mark.slow
def test_long_work_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process sends signs of life while it works."""
    assert [] == batch(folder, "memory", "run", 0)
    monkeypatch.setattr(where_held, "PATIENCE_S", 7.0)  # More than the signs' distance.
    (folder / "slow").touch()  # Three records, which take nine seconds.
    assert ROWS == counts(batch(folder, "memory", "run", 1))
    assert not has_copy(folder, "memory")


@pytest.mark.slow
def test_a_process_that_stands_still_is_left_out(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No step waits for it without a limit: not sending more than a socket holds, nor waiting for the answer.

    It is not asked again for a while, for any bucket: the worker has copies of its own. Later it goes on.
    """
    waited, rests, _ = folders
    for one in folders:
        assert [] == batch(one, "memory", "run", 0)
    holder = state_process()
    assert holder is not None
    monkeypatch.setattr(where_held, "PATIENCE_S", PATIENCE_S)
    os.kill(holder, signal.SIGSTOP)
    assert ROWS == counts(batch(waited, "memory", "run", 1, more=100_000))
    monkeypatch.setattr(where_held, "PATIENCE_S", 600.0)
    assert ROWS == counts(batch(rests, "memory", "run", 1))
    assert has_copy(waited, "memory")
    assert has_copy(rests, "memory")
    assert 1 == caplog.text.count("the worker waits 300 s before it asks the process for state again")
    os.kill(holder, signal.SIGCONT)
    where_held._resting.clear()
    for one in (rests, waited):
        expected = [*ROWS, ("c", 100_000)] if one is waited else ROWS
        assert expected == counts(batch(one, "memory", "run", 2))
        assert not has_copy(one, "memory")
    assert holder == state_process()


@pytest.mark.slow
def test_tasks_wait_for_their_turn(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process works for one after the other. What a task has to send may be more than a socket holds."""
    slow_one, other, _ = folders
    for one in folders:
        assert [] == batch(one, "memory", "run", 0)
    # More than the signs' distance, and less than the work takes.
    monkeypatch.setattr(where_held, "PATIENCE_S", 7.0)
    (slow_one / "slow").touch()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(batch, slow_one, "memory", "run", 1)
        wait_until((slow_one / "began").exists, "the work", files(slow_one))
        second = pool.submit(batch, other, "memory", "run", 1, more=100_000)
        time.sleep(1.0)
        assert not second.done()
        assert ROWS == counts(first.result())
        assert ROWS == counts(second.result())
    assert not has_copy(slow_one, "memory")
    assert not has_copy(other, "memory")


@pytest.mark.slow
def test_a_task_that_waits_for_a_process_that_dies_works_alone(folders: list[Path]) -> None:
    """What killed it was not the bucket of that task: it does not count as a death of its own."""
    killed, other, _ = folders
    for one in folders:
        assert [] == batch(one, "memory", "run", 0)
    (killed / "slow").touch()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(batch, killed, "memory", "run", 1)
        wait_until((killed / "began").exists, "the work", files(killed))
        second = pool.submit(batch, other, "memory", "run", 1)
        time.sleep(0.5)
        holder = state_process()
        assert holder is not None
        (killed / "slow").unlink()
        os.kill(holder, signal.SIGKILL)
        assert ROWS == counts(first.result())
        assert ROWS == counts(second.result())
    assert not has_copy(killed, "memory")
    assert has_copy(other, "memory")


def works_on(folder: Path, backend: str) -> bool:
    """Whether the next batch has the right rows."""
    return ROWS == counts(batch(folder, backend, "run", stored(folder).progress.sequence))


CANCELLED = """
import sys
from pathlib import Path
from tests.operators.spark.bucket_worker import batch, have_parent
have_parent()
batch(Path(sys.argv[1]), sys.argv[2], "run", 1, more=int(sys.argv[3]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", slow("rocksdb")])
def test_a_snapshot_is_completed_when_its_worker_has_ended(
    folder: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the process that has the copy, however slow the storage is; the next batch takes it up."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with running() as s3:
        s3.bucket("bucket")
        monkeypatch.setenv(SNAPSHOTS, s3.uri("bucket/snapshots"))
        assert [] == batch(folder, backend, "run", 0)
        s3.switch(delay=2, methods="PUT,POST")
        environment = {**os.environ, PARENT: str(os.getpid())}
        with Popen([sys.executable, "-c", CANCELLED, str(folder), backend, "0"], env=environment) as ended:
            assert 0 == ended.wait()
        before = stored(folder)
        assert before.pending is not None
        name, files = (
            before.pending.snapshot.name,
            SnapshotFolder(Folder(os.environ[SNAPSHOTS]), before.store_id),
        )
        assert not files.has(name)
        s3.switch()
        wait_until(lambda: files.has(name), "the snapshot", lambda: len(files.folder.list("")))
        assert ROWS == counts(batch(folder, backend, "run", 2))
        after = stored(folder)
    assert (name, 0) == (after.newest.name, after.failures)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", slow("rocksdb"), slow("spark")])
def test_work_of_a_cancelled_task_counts_for_nothing(folder: Path, backend: str) -> None:
    """The process works on when Spark ends the worker. The next attempt, here with other records, does not wait for it."""
    assert [] == batch(folder, backend, "run", 0)
    holder = state_process()
    (folder / "slow").touch()
    environment = {**os.environ, PARENT: str(os.getpid())}
    with Popen([sys.executable, "-c", CANCELLED, str(folder), backend, "5"], env=environment) as cancelled:
        while not (folder / "began").exists():
            assert cancelled.poll() is None
        cancelled.kill()
    (folder / "slow").unlink()
    assert ROWS == counts(batch(folder, backend, "run", 1))
    assert has_copy(folder, backend)  # It was sent away.
    wait_until(
        lambda: works_on(folder, backend) and not has_copy(folder, backend),
        "the end of the cancelled work",
        lambda: stored(folder).number,
    )
    for _ in range(2):
        assert works_on(folder, backend)
    assert not has_copy(folder, backend)
    assert holder == state_process()


@pytest.mark.parametrize(("backend", "told"), [("memory", True), ("rocksdb", True), ("spark", False)])
def test_a_large_state_without_a_folder_is_told_once(
    folder: Path,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    told: bool,
) -> None:
    """What is in Spark's state store by the user's choice is no reason, nor is a small state."""
    message = "there is no snapshot folder: from time to time all of it is written into Spark's state store"
    assert [] == alone_batch(folder, backend, 0)
    assert message not in caplog.text
    monkeypatch.setattr("operators.spark.stream.job.LARGE_IN_SPARK", 10)
    for number in (1, 2, 3):
        assert ROWS == counts(alone_batch(folder, backend, number))
    assert int(told) == sum(
        message in one.getMessage() and one.levelname == "WARNING" for one in caplog.records
    )
    assert told == ("bucket 0 has 0 MB of state, and" in caplog.text)


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_a_large_state_with_a_folder_is_as_it_should_be(
    folder: Path, backend: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is said."""
    monkeypatch.setenv(SNAPSHOTS, str(folder / "snapshots"))
    monkeypatch.setattr("operators.spark.stream.job.LARGE_IN_SPARK", 10)
    assert [] == alone_batch(folder, backend, 0)
    assert ROWS == counts(alone_batch(folder, backend, 1))
    wait_until((folder / "snapshots").exists, "a snapshot", files(folder))
    assert "no snapshot folder" not in caplog.text


@pytest.mark.slow
def test_an_error_of_the_operator_is_raised_here(folder: Path) -> None:
    """It is the error of the user's function, as if there were no other process; the batch can be repeated."""
    assert [] == batch(folder, "memory", "run", 0)
    (folder / "fate").write_text("0 fails")
    with pytest.raises(Exception, match="not in this process"):
        batch(folder, "memory", "run", 1)
    (folder / "fate").unlink()
    assert ROWS == counts(batch(folder, "memory", "run", 1))
    assert not has_copy(folder, "memory")


@pytest.mark.slow
def test_functions_that_fail_only_there_are_called_here(
    folders: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Functions that depend on a thread or on a process: they are not called twice in each batch, and somebody is told."""
    for one in folders:
        (one / "fate").write_text(f"{os.getpid()} fails")
        assert [] == batch(one, "memory", "run", 0)
        assert ROWS == counts(batch(one, "memory", "run", 1))
        assert has_copy(one, "memory")
    assert 1 == caplog.text.count("functions of the operator fail in the process that has copies of buckets")
    assert 1 == caplog.text.count("not in this process")


@pytest.mark.slow
@pytest.mark.parametrize(("run", "code"), [("earlier run", 1), ("run", 10)], ids=["run", "code"])
def test_functions_of_another_run_or_code_are_not_used(folder: Path, run: str, code: int) -> None:
    """The process gets the new ones, and works in the same directory. Users can give two runs the same name."""
    assert [] == batch(folder, "rocksdb", run, 0, code)
    holder = state_process()
    first = [("a", 2 * code), ("b", code)]
    assert first == counts(batch(folder, "rocksdb", "run", 1))
    assert holder == state_process()
    assert [".lock"] == [path.suffix for path in (folder / "local" / store_id(folder)).glob("*.lock")]
    assert ROWS == counts(batch(folder, "rocksdb", "run", 2))
    assert not has_copy(folder, "rocksdb")


@pytest.mark.slow
def test_executors_have_processes_of_their_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One may be of an application that ended, or have other code."""
    assert [] == batch(folder, "rocksdb", "run of another application", 0)
    first = state_process()
    with Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as executor:
        monkeypatch.setattr(parents, "parent", lambda: Parent.of(executor.pid))
        assert state_process() is None
        assert ROWS == counts(batch(folder, "rocksdb", "run", 1))
        second = state_process()
        assert second not in (None, first)
        executor.kill()
    assert second is not None
    assert has_ended(second)


@pytest.mark.slow
def test_what_is_no_request_is_refused(folder: Path) -> None:
    """The connection is closed, and the process works on for others."""
    assert [] == batch(folder, "memory", "run", 0)
    holder = state_process()
    address = socket_of(name_of_process())
    assert address is not None
    for message in (
        b"\xc1",
        msgpack.packb(7),
        msgpack.packb([messages._FORMAT, "run", "1", b"?", 0, 0, [], []]),
    ):
        with Connection.to(address, 60) as stranger:
            assert encode_answer(Ready()) == stranger.receive()
            stranger.send(message)
            with pytest.raises((EOFError, ConnectionError)):
                stranger.receive()
    assert ROWS == counts(batch(folder, "memory", "run", 1))
    assert holder == state_process()


OTHER, OWN = "the pointer of another state", "the bucket's pointer"
CHANGES = [["pointer", OWN]]
BAD_ANSWERS: dict[str, Any] = {
    "a number": 1,
    "nothing": [],
    "another kind": [7, CHANGES, {}, None],
    "a blob without a name": [0, None],
    "too little": [1, CHANGES],
    "no pointer": [1, [["x", b"y"]], {}, None],
    "no pointer's bytes": [1, [["pointer", b"?"]], {}, None],
    "a pointer that is removed": [1, [["pointer", None]], {}, None],
    "the pointer of another state": [1, [["pointer", OTHER]], {}, None],
    "a change of text": [1, [["x", "y"], *CHANGES], {}, None],
    "rows of text": [5, "row"],
    "rows in the message": [1, CHANGES, [], {}, None],
    "an answer out of turn": [6],
    "metrics of text": [1, CHANGES, {"rows": "1"}, None],
    "a timer of text": [1, CHANGES, {}, "soon"],
    "an error that is a number": [4, 1],
    "busy with something": [3, 1],
}


def answered(listener: socket.socket, answer: bytes | None) -> None:
    """Answer one request, or close the connection."""
    with Connection(listener.accept()[0], 60) as task:
        task.send(encode_answer(Ready()))
        task.receive()
        if answer is not None:
            task.send(answer)
            with suppress(EOFError, OSError):
                task.receive()


@pytest.mark.slow
@pytest.mark.parametrize("case", few([*BAD_ANSWERS, "no msgpack", "half a message", "closed"], 5))
def test_any_bad_answer_is_no_answer(folder: Path, case: str) -> None:
    """This process works itself, and nothing of the answer is written."""
    assert [] == batch(folder, "memory", "run", 0)
    own = stored(folder)
    pointers = {OWN: own.encode(), OTHER: replace(own, store_id="0" * 16).encode()}

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(item) for item in value]
        return pointers.get(value, value) if isinstance(value, str) else value

    others = {"no msgpack": b"\xc1", "half a message": msgpack.packb([1, CHANGES])[:-3], "closed": None}
    answer = others[case] if case in others else msgpack.packb(filled(BAD_ANSWERS[case]))
    holder = state_process()
    assert holder is not None
    os.kill(holder, signal.SIGKILL)
    assert has_ended(holder)
    place = listen(name_of_process())
    thread = Thread(target=answered, args=(place.listener, answer))
    thread.start()
    assert ROWS == counts(batch(folder, "memory", "run", 1))
    thread.join()
    assert has_copy(folder, "memory")
    place.close()
    where_held._resting.clear()
    assert ROWS == counts(batch(folder, "memory", "run", 2))
    assert not has_copy(folder, "memory")


@pytest.mark.slow
def test_messages_of_another_version_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker then has a copy of its own."""
    assert [] == batch(folder, "memory", "run", 0)
    monkeypatch.setattr(messages, "_FORMAT", 99)
    assert ROWS == counts(batch(folder, "memory", "run", 1))
    assert has_copy(folder, "memory")


@pytest.mark.parametrize("label", [7, np.int32(7)], ids=["PySpark 4.1", "PySpark 4.0"])
def test_the_label_of_a_bucket_can_be_sent(label: object) -> None:
    assert 7 == msgpack.unpackb(msgpack.packb(label_of((label,))))
