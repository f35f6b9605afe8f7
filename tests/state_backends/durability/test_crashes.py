"""Processes that are killed in the midst of commits leave a journal from which the state goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from state_backends.backends.memory import MemoryBackend
from state_backends.contract import crash_batch, crash_state
from state_backends.durability.durable import Durable
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress
from state_backends.registry import load_backend
from state_backends.sqlite_journal import SqliteJournal

ROOT = Path(__file__).parents[3]
COMMITTER = """
import sys
from pathlib import Path
from state_backends.durability import durable, pages_in_parts, schedule
from state_backends.registry import load_backend
from state_backends.contract import crash_batch
from state_backends.sqlite_journal import SqliteJournal
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress

home, name, left, folder = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] or None
schedule.LOG_TO_SNAPSHOT, pages_in_parts.PART_BYTES = 1, 10_000
journal = SqliteJournal(home / "journal")
policy = SnapshotPolicy(folder, bytes=20_000, retain=5)
copy = durable.Durable(load_backend(name).open(home / "store", {}), name, home / "scratch", policy)
pointer = copy.align(journal, read_pointer(journal) or Pointer.fresh()).pointer
print("open", flush=True)
while True:
    number = pointer.number
    pointer = copy.commit(journal, pointer, crash_batch(number), Progress(close_time=number))
    left -= 1
    if left == 0:
        print("writing", flush=True)
"""


@pytest.mark.kill
@pytest.mark.parametrize(
    ("backend_name", "folder"),
    [("memory", False), ("memory", True), ("rocksdb", False), ("rocksdb", True), ("spark", False)],
)
def test_killed_commits_lose_nothing(tmp_path: Path, backend_name: str, *, folder: bool) -> None:
    """After each SIGKILL a copy of the same sort or another reaches the pointer, and the next process goes on from it."""
    journal, numbers = SqliteJournal(tmp_path / "journal"), [0]
    snapshots = str(tmp_path / "snapshots") if folder else ""
    for count in (25, 3, 40):
        command = [sys.executable, "-c", COMMITTER, str(tmp_path), backend_name, str(count), snapshots]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout is not None
        with child.stdout:
            assert [b"open\n", b"writing\n"] == [child.stdout.readline(), child.stdout.readline()]
            child.kill()
        child.wait()
        pointer = read_pointer(journal)
        assert pointer is not None
        assert numbers[-1] + count <= pointer.number
        assert Progress(close_time=pointer.number - 1) == pointer.progress
        for name in ("memory", "rocksdb", "spark"):
            backend = load_backend(name).open(tmp_path / f"{name}-{count}", {})
            copy = Durable(backend, name, tmp_path / "other", SnapshotPolicy(snapshots or None))
            copy.align(journal, pointer)
            found = {segment: dict(backend.iterate(segment)) for segment in backend.segments()}
            assert crash_state(pointer.number - 1) == found
            copy.close()
            journal.rollback()
        numbers.append(pointer.number)
    journal.close()


def test_no_commit_at_all(tmp_path: Path) -> None:
    """A journal without a pointer is that of an empty state."""
    journal, copy = SqliteJournal(tmp_path / "a"), Durable(MemoryBackend(), "memory", tmp_path / "b")
    assert None is read_pointer(journal)
    pointer = copy.commit(journal, Pointer.fresh(), crash_batch(0), Progress())
    assert pointer == read_pointer(SqliteJournal(tmp_path / "a"))
