"""The judge: what must hold in every run, whoever dies, stands still or comes back."""

from typing import TYPE_CHECKING

from serializers import CorruptDataError
from state_backends.contract import Pages, applied
from state_backends.durability.durable import Durable
from state_backends.durability.folders import Folder
from state_backends.durability.pointer import Pointer, Snapshot, read_pointer
from state_backends.durability.progress import Progress
from state_backends.durability.snapshots import SnapshotFolder
from state_backends.journal import MemoryJournal
from tests.protocol.state import batch_of, folds, pages_of, without_mark

if TYPE_CHECKING:
    from tests.protocol.world import World

_MOST_STEPS = 3_000
_FURTHER = 12
"""Batches after a run until nothing must be left over."""
_HOURS, _DAYS = 7_200.0, 259_200.0
"""How long a further batch takes, and the pause in their middle, in seconds."""


class Failure(AssertionError):  # noqa: N818 - of the product
    """The product broke a promise."""


class Judge:
    """Looks at one run.

    Args:
        world: of the run.
    """

    def __init__(self, world: "World") -> None:
        from tests.protocol.world import Process

        self._world = world
        self._folds = folds(world.scenario.batches + _FURTHER)
        self.process: Process = Process("judge", "elsewhere", 1_000)
        self._needed: list[dict[str, bytes]] = [{}]
        """Of each committed batch, the files that its snapshots have, with their digests."""
        self.digests: list[str] = []
        self.pages: list[Pages] = [{}]
        """After each committed batch."""
        self.found: Failure | None = None
        """The first broken promise: raised in a task, it would be taken for an error of the storage."""
        self._is_over = False
        self.name, self.tokens = "judge", 0

    def _report(self, what: str) -> None:
        self.found = self.found or Failure(what)

    def begins(self, copy: Durable, batch: int, expected: Pages) -> None:
        """An attempt has brought its copy to where the batch begins."""
        found = pages_of(copy.backend)
        if found != expected or without_mark(found) != without_mark(self._folds[batch - 1]):
            self._report(f"batch {batch} begins with {found}, not with {expected}")

    def attempt_fails(self, batch: int, line: int, error: Exception) -> None:
        """An attempt ended with an error of the product's own."""
        world = self._world
        world.baton.touched.read("latest")
        late = batch < world.latest or line < world.line
        if not late and not set(world.struck) & {"failure", "lost answer"}:
            self._report(f"batch {batch} fails without a cause: {error}")

    def reading_fails(self, batch: int, error: Exception) -> None:
        """A reader could not read a batch that the host may return to, or may not return to any more."""
        world = self._world
        world.baton.touched.read("latest", "journal")
        if batch in self._window() and not set(world.struck) & {"failure", "lost answer"}:
            self._report(f"batch {batch} cannot be read: {error}")

    def reader_writes(self, path: str) -> None:
        """A reader has changed a file."""
        self._report(f"the reader changes {path}")

    def committed(self, batch: int, pages: Pages) -> None:
        """The driver has taken a batch, after which the state has these pages."""
        self.pages.append(pages)
        journal = self.journal(batch)
        pointer = read_pointer(journal)
        needed: dict[str, bytes] = {}
        for snapshot in pointer.snapshots:
            if snapshot.name:
                try:
                    needed |= self._files(pointer, snapshot)
                except (CorruptDataError, KeyError) as error:
                    self._report(f"batch {batch} has a snapshot that is not complete: {error}")
        self._needed.append(needed)
        self.digests.append(repr((batch, pointer)))
        self.look_at_all()

    def _files(self, pointer: Pointer, snapshot: Snapshot) -> dict[str, bytes]:
        """The files of a snapshot that is complete, by path."""
        folder = SnapshotFolder(Folder(snapshot.folder), pointer.store_id)
        running, self._world.baton.running = self._world.baton.running, None
        try:
            parts = folder.manifest(snapshot.name).parts
        finally:
            self._world.baton.running = running
        base = folder.folder._place[1]
        paths = [
            f"{base}/{folder._manifest(snapshot.name)}",
            *(f"{base}/{folder._file(part)}" for part in parts),
        ]
        self._world.baton.touched.read(*paths)
        return {path: self._world.storage.files[path].digest for path in paths}

    def returned(self) -> None:
        """The driver went back to an earlier batch."""
        del self._needed[len(self._world.committed) :]
        del self.pages[len(self._world.committed) :]
        del self.digests[len(self._world.committed) - 1 :]

    def goes_on(self, step: int) -> None:
        """The run has not ended after so many steps."""
        if step >= _MOST_STEPS:
            raise Failure(f"no end after {step} steps")

    def look(self, path: str) -> None:
        """A file was written or removed: what a batch needs that the host may return to is still there."""
        if self._is_over:
            return
        file = self._world.storage.files.get(path)
        if any(path in needed for needed in self._needed):
            self._world.baton.touched.read("latest")
        for batch in self._window():
            digest = self._needed[batch].get(path)
            if digest is not None and (file is None or file.digest != digest):
                self._report(f"batch {batch} needs {path}, which is gone or altered")

    def look_at_all(self) -> None:
        """All files that are needed are there."""
        for path in {path for batch in self._window() for path in self._needed[batch]}:
            self.look(path)

    def _window(self) -> range:
        """The batches that the host may return to."""
        return range(max(self._world.latest - 1 - self._world.scenario.retain, 0), len(self._needed))

    def journal(self, batch: int) -> MemoryJournal:
        """What the host has of the state after a batch."""
        journal = MemoryJournal()
        journal._blobs = dict(self._world.committed[batch])
        return journal

    def ends(self) -> None:
        """The run is over: all tasks have ended."""
        world = self._world
        stuck = [task.name for one in world.everyone for task in one.tasks if not task.done]
        if stuck:
            raise Failure(f"waits for ever: {stuck}")
        if len(world.committed) <= world.scenario.batches:
            raise Failure(f"batch {len(world.committed)} was never committed")
        for batch in self._window():
            if batch:
                self._restores(batch)
        self._is_over = True
        self._goes_on()
        if self.found is not None:
            raise self.found

    def _restores(self, batch: int) -> None:
        journal = self.journal(batch)
        self._restored(journal, read_pointer(journal), batch, self.pages[batch])

    def _restored(self, journal: MemoryJournal, pointer: Pointer, batch: int, pages: Pages) -> None:
        """A new process can restore the state after a batch."""
        copy = self._world.copy(self.process)
        try:
            copy.align(journal, pointer)
        except Exception as error:
            raise Failure(f"batch {batch} cannot be restored: {error}") from error
        self.begins(copy, batch + 1, pages)
        copy.close()

    def _goes_on(self) -> None:
        """Some further batches in a quiet world: the changelog stays short, and no file is left that they do not need."""
        world = self._world
        batch = len(world.committed) - 1
        journal, pages = self.journal(batch), self.pages[batch]
        copy = world.copy(self.process)
        # By the clock that is behind the others.
        self.process.skew = min(one.skew for one in world.processes)
        pointer = read_pointer(journal)
        for further in range(_FURTHER):
            batch += 1
            world.elapsed += _HOURS
            if further == _FURTHER // 2:
                self._is_short(pointer, journal)
                self._survives_damage(journal, pointer, batch - 1, pages)
                self.process.skew = 0.0
                world.elapsed += _DAYS
            pointer = copy.align(journal, pointer).pointer
            self.begins(copy, batch, pages)
            changes = batch_of(batch, copy.backend, b"judge")
            pages = applied(pages, changes)
            pointer = copy.commit(journal, pointer, changes, Progress(), batch)
        copy.close()
        self._is_clean(pointer)

    def _is_clean(self, pointer: Pointer) -> None:
        """The folder has what the pointer needs of its state, and no more."""
        pending = [pointer.pending.snapshot] if pointer.pending else []
        needed: dict[str, bytes] = {}
        for snapshot in (*pointer.snapshots, *pointer.retired, *pending):
            needed |= self._files(pointer, snapshot)
        left = {path for path in self._world.storage.files if pointer.store_id in path} - {*needed}
        if left:
            raise Failure(f"files that nobody needs stay: {sorted(left)}")

    def _is_short(self, pointer: Pointer, journal: MemoryJournal) -> None:
        """The changelog reaches back to the snapshot before the newest, and that is not far."""
        entries = [name for name in journal._blobs if name.startswith("log-")]
        most = 3 * self._world.scenario.every + 1
        if len(entries) > most or not pointer.newest.name:
            raise Failure(f"the changelog has {len(entries)} entries, more than {most}")

    def _survives_damage(self, journal: MemoryJournal, pointer: Pointer, batch: int, pages: Pages) -> None:
        """Without its newest snapshot, the state is restored from the one before."""
        files = self._world.storage.files
        name = next(path for path in files if path.endswith(f"/{pointer.newest.name}.json"))
        lost = files.pop(name)
        copied = MemoryJournal()
        copied._blobs = dict(journal._blobs)
        self._restored(copied, pointer, batch, pages)
        files[name] = lost
