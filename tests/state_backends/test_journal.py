"""Journals keep named blobs; files are replaced whole."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from state_backends.journal import FileJournal, Journal, MemoryJournal


@pytest.fixture(params=["memory", "file"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    """Each journal of the local runner, empty."""
    return MemoryJournal() if request.param == "memory" else FileJournal(tmp_path / "a" / "journal")


def test_blobs_by_name(journal: Journal) -> None:
    """A blob is there under its name until it is replaced or removed; an empty one is there too."""
    assert None is journal.get("log-1")
    journal.put("log-1", b"one")
    journal.put("log-10", b"")
    assert [b"one", b"", None] == [journal.get(name) for name in ("log-1", "log-10", "log-2")]
    journal.put("log-1", b"other")
    journal.remove("log-10")
    assert [b"other", None] == [journal.get(name) for name in ("log-1", "log-10")]


def test_blob_that_is_made_later(journal: Journal) -> None:
    """A blob may be given as what makes it, and reads like any other, as often as one likes."""
    journal.put("log-1", lambda: b"made")
    assert [b"made", b"made"] == [journal.get("log-1"), journal.get("log-1")]
    journal.put("log-1", b"other")
    assert b"other" == journal.get("log-1")


def test_removing_what_is_not_there(journal: Journal) -> None:
    """Removing an absent blob is no error."""
    journal.remove("log-1")
    journal.put("log-1", b"x")
    journal.remove("log-1")
    journal.remove("log-1")
    assert None is journal.get("log-1")


def test_files_outlive_the_journal(tmp_path: Path) -> None:
    """A second journal in the same directory sees the first one's blobs."""
    FileJournal(tmp_path).put("pointer", bytes(range(256)))
    again = FileJournal(tmp_path)
    assert bytes(range(256)) == again.get("pointer")


def test_failed_write_leaves_the_old_blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put that fails before its rename leaves the old blob, whole."""
    journal = FileJournal(tmp_path)
    journal.put("pointer", b"old")

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        journal.put("pointer", b"new")
    monkeypatch.undo()
    assert b"old" == FileJournal(tmp_path).get("pointer")
    journal.put("pointer", b"new")
    assert b"new" == journal.get("pointer")


WRITER = """
import sys
from pathlib import Path
from state_backends.journal import FileJournal
journal, number = FileJournal(Path(sys.argv[1])), 0
while True:
    journal.put("pointer", bytes([number % 256]) * 300_000)
    number += 1
    if number == 20:
        print("writing", flush=True)
"""


@pytest.mark.kill
def test_killed_process_leaves_one_whole_blob(tmp_path: Path) -> None:
    """A process that is killed while it replaces a blob leaves the old one or the new one, whole."""
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    with child.stdout:
        assert b"writing\n" == child.stdout.readline()
        child.send_signal(signal.SIGKILL)
    child.wait()
    blob = FileJournal(tmp_path).get("pointer") or b""
    assert blob[:1] * 300_000 == blob


ROOT = Path(__file__).parents[2]
