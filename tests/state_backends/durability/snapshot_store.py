"""A state with its journal and its folder of snapshots, for tests."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from state_backends import WriteBatch, load_backend
from state_backends.contract import Pages, applied, crash_batch
from state_backends.durability.durable import Durable
from state_backends.durability.folders import Folder
from state_backends.durability.pointer import Pointer
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.progress import Progress
from state_backends.durability.snapshots import SnapshotFolder
from state_backends.journal import MemoryJournal

KINDS = ["memory", "rocksdb"]


class Store:
    """One state with its journal, its folder, and a record of what it was after each version."""

    def __init__(self, home: Path, uri: str | None = None, **policy: object) -> None:
        self.home = home
        self.uri = uri or str(home / "folder")
        given = {"bytes": 300, "retain": 5, "background": False} | policy
        self.policy = SnapshotPolicy(self.uri, **given)  # type: ignore[arg-type]
        self.journal = MemoryJournal()
        self.pointer = Pointer.fresh()
        self.states: list[Pages] = [{}]
        self._opened: list[Durable] = []

    @property
    def files(self) -> Path:
        """The folder of this state, if it is a local one."""
        return Path(self.uri) / self.pointer.store_id

    @property
    def folder(self) -> SnapshotFolder:
        """The snapshots of this state."""
        return SnapshotFolder(Folder(self.uri), self.pointer.store_id)

    @property
    def pages(self) -> Pages:
        """What counts now."""
        return self.states[-1]

    def copy(self, kind: str, name: str = "") -> Durable:
        """A local copy of that kind, by default a new one."""
        name = name or os.urandom(4).hex()
        backend = load_backend(kind).open(self.home / f"copy-{name}", {})
        self._opened.append(Durable(backend, kind, self.home / f"copy-{name}-scratch", self.policy))
        return self._opened[-1]

    def commit(self, copy: Durable, batch: WriteBatch | None = None, host_batch: int | None = None) -> None:
        """Align the copy and commit the batch through it; by default the one of this number in `crash_batch`."""
        pointer = copy.align(self.journal, self.pointer).pointer
        batch = crash_batch(pointer.number) if batch is None else batch
        self.pointer = copy.commit(self.journal, pointer, batch, Progress(), host_batch)
        self.states.append(applied(self.pages, batch))

    def snapshots(self, copy: Durable, count: int) -> None:
        """Commit until so many more snapshots were written, at least, and the log alone does not do any more."""
        while count > 0 or self.pointer.oldest == 1:
            newest = self.pointer.newest
            self.commit(copy)
            count -= newest != self.pointer.newest
            if self.pointer.number % 100 == 0:
                copy._uploads.wait()  # Commits are faster by far than what is written in the background.
            assert self.pointer.number < 5_000

    def assert_restores(self, kind: str) -> None:
        """A new copy of that kind gets the state that counts."""
        assert_holds(self, self.journal, self.pointer, kind, self.pages)

    def committed(self) -> MemoryJournal:
        """A copy of the journal as it was last committed."""
        copied = MemoryJournal()
        copied._blobs = dict(self.journal._blobs)
        return copied

    def close(self) -> None:
        """Close all copies."""
        for copy in self._opened:
            copy.close()


def assert_holds(store: Store, journal: MemoryJournal, pointer: Pointer, kind: str, pages: Pages) -> None:
    """A new copy of that kind is brought to the pointer's version and has these pages."""
    copy = store.copy(kind)
    assert not copy.align(journal, pointer).current
    assert (pointer.version, pages) == (copy.backend.version, pages_of(copy))
    copy.close()
    assert not copy._uploads.scratch.parent.exists()


def rot(folder: SnapshotFolder, name: str) -> None:
    """Change bytes of a snapshot's largest file, and its manifest so that these are the bytes that were stored.

    Such a snapshot was made of a local copy whose disk had changed them.
    """
    manifest = folder.manifest(name)
    largest = max(manifest.parts, key=lambda part: part.size)
    file = Path(folder.where(name)).parent / "files" / largest.file
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 16] = bytes(byte ^ 255 for byte in data[middle : middle + 16])
    file.write_bytes(data)
    rotten = replace(largest, digest=hashlib.sha256(data).hexdigest())
    parts = tuple(rotten if part == largest else part for part in manifest.parts)
    Path(folder.where(name)).write_bytes(replace(manifest, parts=parts).encode())


def pages_of(copy: Durable) -> Pages:
    """All pages of a copy."""
    return {segment: dict(copy.backend.iterate(segment)) for segment in copy.backend.segments()}


def names(folder: Path) -> set[str]:
    """The files of a local folder, by their path in it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
