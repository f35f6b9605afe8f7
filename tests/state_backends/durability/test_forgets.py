"""Batches after which nothing may be left of what was deleted: log, snapshots, and one that another process still writes."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from state_backends.backends.memory import MemoryBackend
from state_backends.durability.durable import Durable
from state_backends.durability.folders import Folder
from state_backends.durability.pointer import Pending, Pointer, Snapshot
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress
from state_backends.durability.snapshots import PAGES, SnapshotFolder
from state_backends.interface import WriteBatch
from state_backends.journal import MemoryJournal
from state_backends.registry import load_backend
from tests.key_bytes import holding

GONE, KEPT = b"forgotten key", b"kept key"


def put(n: int) -> WriteBatch:
    """A batch that writes both keys."""
    return WriteBatch({1: {GONE: b"page %d" % n, KEPT: b"page %d" % n}})


def test_a_snapshot_that_another_process_writes_is_removed_when_it_is_complete(tmp_path: Path) -> None:
    """It was begun before the batch, and is retired like those that are complete."""
    policy = SnapshotPolicy(str(tmp_path / "folder"), batches=1_000, retain=2, background=False)
    journal, copy = MemoryJournal(), Durable(MemoryBackend(), "memory", tmp_path / "scratch", policy)
    pointer = copy.commit(journal, Pointer.fresh(), put(0), Progress(), 0)
    name = f"{pointer.number}-0123456789abcdef"
    snapshot = Snapshot(pointer.number, pointer.version, 0, policy.folder or "", name)
    pointer = replace(pointer, pending=Pending(snapshot, pointer.log_bytes, time.time(), "elsewhere:1:2"))
    pointer = copy.commit(journal, pointer, WriteBatch(deletes={1: {GONE}}), Progress(), 1, forgets=True)
    assert [name] == [one.name for one in pointer.retired]
    folder = SnapshotFolder(Folder(str(tmp_path / "folder")), pointer.store_id)
    folder.write(name, snapshot.version, PAGES, [("part-0", GONE)], None)
    assert holding(tmp_path / "folder", GONE.decode())
    for clock in range(2, 5):
        pointer = copy.commit(journal, pointer, WriteBatch(), Progress(), clock)
    assert not holding(tmp_path / "folder", GONE.decode())
    assert folder.has(pointer.newest.name)
    copy.close()


@pytest.mark.parametrize("folder", [None, "folder"])
@pytest.mark.parametrize("kind", ["memory", "rocksdb", "spark"])
def test_other_copies_go_on_from_the_new_snapshot(kind: str, folder: str | None, tmp_path: Path) -> None:
    """One that is behind, and one that is ahead because the batch failed after it was written, show what counts."""
    policy = SnapshotPolicy(folder and str(tmp_path / folder), background=False)
    journal, pointer = MemoryJournal(), Pointer.fresh()
    first, second = (
        Durable(load_backend(kind).open(tmp_path / name, {}), kind, tmp_path / f"{name}-s", policy)
        for name in ("first", "second")
    )
    for copy in (first, second):
        pointer = copy.align(journal, pointer).pointer
        pointer = copy.commit(journal, pointer, put(pointer.number), Progress())
    deleting = WriteBatch(deletes={1: {GONE}})
    committed, journal.commit = journal.commit, lambda: None  # type: ignore[method-assign]
    first.commit(journal, first.align(journal, pointer).pointer, deleting, Progress(), forgets=True)
    journal.commit = committed  # type: ignore[method-assign]
    journal.rollback()
    pointer = first.align(journal, pointer).pointer
    assert [b"page 1", b"page 1"] == first.backend.get_many(1, [GONE, KEPT])
    pointer = first.commit(journal, pointer, deleting, Progress(), forgets=True)
    assert not [name for name in journal._blobs if name.startswith("log-")]
    for copy in (second, first):
        pointer = copy.align(journal, pointer).pointer
        assert [None, b"page 1"] == copy.backend.get_many(1, [GONE, KEPT])
        copy.close()
