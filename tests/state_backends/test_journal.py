"""Journals keep named blobs, whose changes become durable together or not at all."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from state_backends.journal import Journal, MemoryJournal
from state_backends.sqlite_journal import SqliteJournal

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """Each journal of the local runner, empty."""
    if request.param == "memory":
        yield MemoryJournal()
        return
    with closing(SqliteJournal(tmp_path / "a" / "journal")) as journal:
        yield journal


def test_blobs_by_name(journal: Journal) -> None:
    """A blob is there under its name until it is replaced or removed; an empty one is there too."""
    assert None is journal.get("log-1")
    journal.put("log-1", b"one")
    journal.put("log-10", b"")
    assert [b"one", b"", None] == [journal.get(name) for name in ("log-1", "log-10", "log-2")]
    journal.put("log-1", b"other")
    journal.remove("log-10")
    assert [b"other", None] == [journal.get(name) for name in ("log-1", "log-10")]
    journal.commit()
    assert [b"other", None] == [journal.get(name) for name in ("log-1", "log-10")]


def test_blob_that_is_made_later(journal: Journal) -> None:
    """A blob may be given as what makes it, and reads like any other, as often as one likes."""
    journal.put("log-1", lambda: b"made")
    assert [b"made", b"made"] == [journal.get("log-1"), journal.get("log-1")]
    journal.commit()
    assert b"made" == journal.get("log-1")
    journal.put("log-1", b"other")
    assert b"other" == journal.get("log-1")


def test_memory_makes_only_what_is_read() -> None:
    """A blob in memory that nobody reads is never made, through commits too."""
    calls = []
    journal = MemoryJournal()
    for name in ("log-1", "log-2"):
        journal.put(name, lambda name=name: calls.append(name) or b"made")
        journal.commit()
    assert [] == calls
    assert b"made" == journal.get("log-2")
    assert ["log-2"] == calls


def test_removing_what_is_not_there(journal: Journal) -> None:
    """Removing an absent blob is no error."""
    journal.remove("log-1")
    journal.put("log-1", b"x")
    journal.remove("log-1")
    journal.remove("log-1")
    assert None is journal.get("log-1")
    journal.commit()
    journal.remove("log-1")
    assert None is journal.get("log-1")


def test_rollback_undoes_all_since_the_commit(journal: Journal) -> None:
    """New blobs, replaced ones and removed ones are as the last commit left them; commits stay."""
    journal.put("kept", b"1")
    journal.put("replaced", b"1")
    journal.commit()
    journal.put("new", b"2")
    journal.put("replaced", b"2")
    journal.remove("kept")
    found = [journal.get(name) for name in ("new", "replaced", "kept")]
    assert [b"2", b"2", None] == found
    journal.rollback()
    found = [journal.get(name) for name in ("new", "replaced", "kept")]
    assert [None, b"1", b"1"] == found
    journal.put("new", b"3")
    journal.commit()
    journal.rollback()
    assert b"3" == journal.get("new")


def test_nothing_to_commit_or_undo(journal: Journal) -> None:
    """A commit or a rollback without changes is no error, and neither is a second one."""
    for _ in range(2):
        journal.commit()
        journal.rollback()
    journal.put("a", b"1")
    journal.commit()
    journal.commit()
    assert b"1" == journal.get("a")


def test_large_blobs(journal: Journal) -> None:
    """Blobs of many MiB come back as they were."""
    blob = bytes(range(256)) * (9 << 12)
    journal.put("base", blob)
    journal.commit()
    assert blob == journal.get("base")
