"""The process that has a bucket's copy works for the others; if it cannot, they work themselves."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Client
from pathlib import Path

import msgpack
import numpy as np
import pytest

from operators.spark import owners
from operators.spark.copies import drop_copy, has_free_copy, held_copy
from operators.spark.processor import label_of
from state_backends.durability.pointer import read_pointer
from state_backends.journal import MemoryJournal
from state_backends.sqlite_journal import SqliteJournal
from tests.feeds import committed
from tests.operators.spark.bucket_worker import batch, job

ROWS = [("a", 2), ("b", 1)]
"""Keys and counts of each batch but the first."""


@contextmanager
def owner(folder: Path, backend: str, run: str = "run") -> Iterator[subprocess.Popen[str]]:
    """A process that has worked on the first batch and has the bucket's copy."""
    command = [sys.executable, "-m", "tests.operators.spark.bucket_worker", str(folder), backend, run, "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "[]\n"
            yield process
        finally:
            process.kill()


def counts(rows: list[tuple[object, ...]]) -> list[tuple[object, object]]:
    """Key and count of each row."""
    return sorted((key, count) for key, _, count in rows)


def has_copy(folder: Path, backend: str) -> bool:
    """Whether this process has a copy of the bucket."""
    return has_free_copy(job(folder, backend).config, store_id(folder))


def store_id(folder: Path) -> str:
    """The name of the bucket's state."""
    journal = SqliteJournal(folder / "journal")
    pointer = read_pointer(journal)
    journal.close()
    assert pointer is not None
    return pointer.store_id


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; this process's copies in it are closed afterwards."""
    yield tmp_path
    for backend in ("memory", "rocksdb", "spark"):
        drop_copy(job(tmp_path, backend).config, store_id(tmp_path))


@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_the_process_that_has_the_copy_works(folder: Path, backend: str) -> None:
    """This process opens no copy while that one lives, and goes on exactly where that one was when it is dead."""
    with owner(folder, backend) as other:
        for number in (1, 2, 3):
            assert ROWS == counts(batch(folder, backend, "run", number))
        assert not has_copy(folder, backend)
        other.kill()
        other.wait()
        assert ROWS == counts(batch(folder, backend, "run", 4))
    assert has_copy(folder, backend)
    assert ROWS == counts(batch(folder, backend, "run", 5))


def test_a_process_that_dies_at_work_is_replaced(folder: Path) -> None:
    """Nothing was written by then, so this process works on the batch from its start."""
    with owner(folder, "rocksdb") as other:
        (folder / "fate").write_text(f"{os.getpid()} killed")
        assert ROWS == counts(batch(folder, "rocksdb", "run", 1))
        assert -9 == other.wait()
    assert has_copy(folder, "rocksdb")


def test_a_process_that_stands_still_is_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked whether it is alive, and not waited for. A slow one is."""
    monkeypatch.setattr(owners, "_PATIENCE_S", 0.3)
    with owner(folder, "memory") as other:
        (folder / "slow").touch()
        assert ROWS == counts(batch(folder, "memory", "run", 1))
        assert not has_copy(folder, "memory")
        (folder / "slow").unlink()
        other.send_signal(signal.SIGSTOP)
        assert ROWS == counts(batch(folder, "memory", "run", 2))
        assert has_copy(folder, "memory")


def test_an_error_of_the_operator_is_raised_here(folder: Path) -> None:
    """It is the error of the user's function, as if there were no other process; the batch can be repeated."""
    with owner(folder, "memory"):
        (folder / "fate").write_text("0 fails")
        with pytest.raises(Exception, match="not in this process"):
            batch(folder, "memory", "run", 1)
        (folder / "fate").unlink()
        assert ROWS == counts(batch(folder, "memory", "run", 1))


def test_a_later_run_takes_the_directory_over(folder: Path) -> None:
    """The other process has the functions of an earlier run, which may differ: it closes its copy, and this one opens it."""
    with owner(folder, "rocksdb", "earlier run"):
        assert ROWS == counts(batch(folder, "rocksdb", "run", 1))
        assert has_copy(folder, "rocksdb")
        assert [".lock"] == [path.suffix for path in (folder / "local" / store_id(folder)).glob("*.lock")]


@pytest.mark.parametrize(
    "message", [b"", b"\xc1", msgpack.packb(7), msgpack.packb([1, ["query", "run"], b"?", 0, 0, [], []])]
)
def test_what_is_no_request_is_refused(folder: Path, message: bytes) -> None:
    """The connection is closed, and the process works on for others."""
    with owner(folder, "memory"):
        address = (folder / "local" / store_id(folder) / "owner").read_text()
        with Client(address, "AF_UNIX") as stranger:
            stranger.send_bytes(message)
            with pytest.raises(EOFError):
                stranger.recv_bytes()
        assert ROWS == counts(batch(folder, "memory", "run", 1))
        assert not has_copy(folder, "memory")


def test_a_copy_that_a_thread_holds_is_left_to_it(tmp_path: Path) -> None:
    """As two attempts of a task may work on a bucket at once, the second has a copy for itself, which does not stay."""
    one = job(tmp_path, "memory")
    journal = MemoryJournal()
    table = one.program.inputs.empty()
    with held_copy(one.program, one.config, "bucket") as first:
        committed(first, journal, 0, [table])
        assert not has_free_copy(one.config, "bucket")
        drop_copy(one.config, "bucket")
        with held_copy(one.program, one.config, "bucket") as second:
            assert second is not first
            committed(second, journal, 0, [table])
    with held_copy(one.program, one.config, "bucket") as again:
        assert again is first
    drop_copy(one.config, "bucket")
    assert not has_free_copy(one.config, "bucket")


def test_sockets_are_in_a_folder_of_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of processes that ended are removed; a folder that others can enter is not used."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = owners._sockets()
    assert 0o700 == folder.stat().st_mode & 0o777
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    (folder / f"{process.pid}-dead").touch()
    (folder / f"{os.getpid()}-alive").touch()
    owners._sockets()
    assert [f"{os.getpid()}-alive"] == [path.name for path in folder.iterdir()]
    folder.chmod(0o755)
    with pytest.raises(PermissionError, match="not a folder that only this user can enter"):
        owners._sockets()


def test_messages_of_another_version_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process then works with its own copy."""
    with owner(folder, "memory"):
        monkeypatch.setattr(owners, "_FORMAT", 99)
        assert ROWS == counts(batch(folder, "memory", "run", 1))
        assert has_copy(folder, "memory")


@pytest.mark.parametrize("label", [7, np.int32(7)], ids=["PySpark 4.1", "PySpark 4.0"])
def test_the_label_of_a_bucket_can_be_sent(label: object) -> None:
    assert 7 == msgpack.unpackb(msgpack.packb(label_of((label,))))
