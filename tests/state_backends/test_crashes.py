"""Processes that are killed in the midst of commits leave a journal from which the state goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from state_backends.contract import crash_batch, crash_state
from state_backends.durable import Pointer, align, commit, read_pointer
from state_backends.journal import FileJournal
from state_backends.memory import MemoryBackend

ROOT = Path(__file__).parents[2]
COMMITTER = """
import sys
from pathlib import Path
from state_backends import durable
from state_backends.config import load_backend
from state_backends.contract import crash_batch
from state_backends.journal import FileJournal

durable.MIN_BASE_BYTES, durable.LOG_TO_BASE, durable._BASE_PART_BYTES = 20_000, 1, 10_000
journal = FileJournal(Path(sys.argv[1]) / "journal")
backend = load_backend(sys.argv[2]).open(Path(sys.argv[1]) / "store", {})
pointer = durable.read_pointer(journal) or durable.Pointer.fresh()
durable.align(backend, journal, pointer)
print("open", flush=True)
left = int(sys.argv[3])
while True:
    number = pointer.number
    pointer = durable.commit(backend, journal, pointer, crash_batch(number), {"number": number})
    left -= 1
    if left == 0:
        print("writing", flush=True)
"""


@pytest.mark.kill
@pytest.mark.parametrize("backend_name", ["memory", "rocksdb"])
def test_killed_commits_lose_nothing(tmp_path: Path, backend_name: str) -> None:
    """After each SIGKILL any copy reaches the pointer, and the next process goes on from it."""
    journal, numbers = FileJournal(tmp_path / "journal"), [0]
    for count in (25, 3, 40):
        command = [sys.executable, "-c", COMMITTER, str(tmp_path), backend_name, str(count)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout is not None
        with child.stdout:
            assert [b"open\n", b"writing\n"] == [child.stdout.readline(), child.stdout.readline()]
            child.kill()
        child.wait()
        pointer = read_pointer(journal)
        assert pointer is not None
        assert numbers[-1] + count <= pointer.number
        assert {"number": pointer.number - 1} == pointer.progress
        copy = MemoryBackend()
        align(copy, journal, pointer)
        found = {segment: dict(copy.iterate(segment)) for segment in copy.segments()}
        assert crash_state(pointer.number - 1) == found
        numbers.append(pointer.number)


def test_no_commit_at_all(tmp_path: Path) -> None:
    """A journal directory without a pointer is that of an empty state."""
    journal, copy = FileJournal(tmp_path), MemoryBackend()
    assert None is read_pointer(journal)
    pointer = commit(copy, journal, Pointer.fresh(), crash_batch(0), {})
    assert pointer == read_pointer(FileJournal(tmp_path))
