"""Snapshots written and read by one local copy: on a separate thread, so that no batch waits for storage."""

import logging
import os
import re
import shutil
import socket
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

from serializers import CorruptDataError, SerializationError
from serializers.changes import Puts, decode_changes, encode_changes
from state_backends.durability.pages_in_parts import Pages, fill, page_parts
from state_backends.durability.pointer import Snapshot
from state_backends.durability.scratch import Scratch
from state_backends.durability.snapshots import PAGES, Manifest, SnapshotFolder, digest_and_size
from state_backends.errors import DamagedCopyError, StateError, is_of_disk
from state_backends.interface import StateBackend
from state_backends.registry import BUILT_IN, load_backend

_NUMBER = re.compile("[0-9]{1,9}")
_LOG = logging.getLogger(__name__)


class Uploads:
    """Writes and reads the snapshots of one copy of a store.

    Args:
        backend: the copy.
        kind: the backend's name in the configuration.
        scratch: local directory for temporary files; what a killed process left there is removed.
        background: whether to write on a thread.
    """

    def __init__(self, backend: StateBackend, kind: str, scratch: Path, *, background: bool) -> None:
        self._backend = backend
        self._kind = kind if backend.snapshots else PAGES
        self.scratch = Scratch(scratch)
        self._background = background
        self._pool = ThreadPoolExecutor(1, "snapshots")
        self._writing: dict[str, Future[Manifest]] = {}
        self._manifests: dict[str, Manifest] = {}

    def begin(self, folder: SnapshotFolder, snapshot: Snapshot, earlier: Snapshot) -> None:
        """Start to write the backend's state, whose version was just written.

        Args:
            folder: to write to.
            snapshot: that is written.
            earlier: the newest one so far, whose files it may share.
        """
        directory, parts = Path(), list[Pages]()
        if self._backend.snapshots:
            directory = self.scratch.folder / snapshot.name
            try:
                self._backend.snapshot(directory)
            except (StateError, OSError):
                shutil.rmtree(directory, ignore_errors=True)
                raise
        else:
            parts += page_parts(self._backend)

        def write() -> Manifest:
            try:
                known = self._earlier(folder, earlier)
                if self._backend.snapshots:
                    self._check(directory, known)
                files = _local_files(directory) if self._backend.snapshots else _encode_parts(parts)
                return folder.write(snapshot.name, snapshot.version, self._kind, files, known)
            finally:
                if self._backend.snapshots:
                    shutil.rmtree(directory, ignore_errors=True)

        self._writing = {snapshot.name: self._pool.submit(write)}

    def _check(self, directory: Path, known: Manifest | None) -> None:
        """Have the backend read the files that the storage does not have yet."""
        stored = {part.digest for part in known.parts} if known is not None else set[str]()
        new = [name for name, path in _local_files(directory) if digest_and_size(path)[0] not in stored]
        self._backend.check_snapshot(directory, new)

    def _earlier(self, folder: SnapshotFolder, earlier: Snapshot) -> Manifest | None:
        if not earlier.name or earlier.folder != folder.folder.uri:
            return None
        if earlier.name not in self._manifests:
            try:
                self._manifests = {earlier.name: folder.manifest(earlier.name)}
            except SerializationError as error:
                _LOG.warning("%s. The next snapshot writes all of its files", error)
                return None
        return self._manifests[earlier.name]

    def has_begun(self, name: str) -> bool:
        """Return whether this copy has begun to write a snapshot of that name."""
        return name in self._writing

    def manifest(self, name: str) -> Manifest | None:
        """Return the manifest of a snapshot that this copy writes, or None until it is complete.

        Without a background thread this waits for it.

        Raises:
            Exception: the error that stopped it.
        """
        future = self._writing[name]
        if self._background and not future.done():
            return None
        found = future.result()
        self._manifests = {name: found}
        return found

    def wait(self) -> None:
        """Wait until nothing is being written."""
        for future in self._writing.values():
            future.exception()

    def clean(self, folder: SnapshotFolder, kept: Collection[str], gone: Collection[str]) -> None:
        """Remove snapshots that are no longer needed, in the background; a failure is tried again with the next one."""

        def remove() -> None:
            try:
                folder.clean(kept, gone)
            except (StateError, SerializationError) as error:
                _LOG.warning("state %s: cannot remove old snapshots: %s", folder.store_id, error)

        future = self._pool.submit(remove)
        if not self._background:
            future.result()

    def restore(self, folder: SnapshotFolder, snapshot: Snapshot, *, check: bool = False) -> None:
        """Replace what the backend holds by a snapshot.

        Args:
            folder: the folder of the snapshot.
            snapshot: what to restore.
            check: whether to have the backend read all files first: their bytes are those that were stored, but a copy that
                was made of them was damaged.

        Raises:
            CorruptDataError: something of it is missing or damaged; names the file.
            StateError: the storage fails.
        """
        manifest, where = folder.manifest(snapshot.name), folder.where(snapshot.name)
        if manifest.version != snapshot.version.hex():
            raise CorruptDataError(f"the manifest {where} belongs to another version, {manifest.version}")
        directory = self.scratch.folder / f"restored-{os.urandom(4).hex()}"
        try:
            folder.fetch(manifest, directory)
            if manifest.kind == self._kind != PAGES:
                if check:
                    with _reading(where):
                        self._backend.check_snapshot(directory, [part.name for part in manifest.parts])
                self._backend.restore(directory)
            else:
                fill(self._backend, _pages_of(manifest, directory, where), snapshot.version)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        if self._backend.version != snapshot.version:
            raise CorruptDataError(f"the snapshot {where} has another version than its manifest")
        self._manifests = {snapshot.name: manifest}

    def close(self) -> None:
        """Wait for what is being written, so that no file of the backend is removed meanwhile."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.scratch.close()


def _local_files(directory: Path) -> Iterator[tuple[str, Path]]:
    return ((path.name, path) for path in sorted(directory.iterdir()))


def _encode_parts(parts: Iterable[Puts]) -> Iterator[tuple[str, bytes]]:
    for number, puts in enumerate(parts):
        yield f"part-{number}", encode_changes(puts, {}, None)


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Raise what a backend says of a snapshot's files that it cannot read as damage of that snapshot."""
    try:
        yield
    except DamagedCopyError as error:
        if is_of_disk(error):
            raise
        raise CorruptDataError(f"the snapshot {where} cannot be read: {error.__cause__ or error}") from error


def _pages_of(manifest: Manifest, directory: Path, where: str) -> Iterator[Pages]:
    """The pages of a snapshot that any kind of backend wrote.

    Raises:
        CorruptDataError: a file of it cannot be read.
    """
    if manifest.kind == PAGES:
        for part in manifest.parts:
            yield decode_changes((directory / part.name).read_bytes())[0]
        return
    if manifest.kind not in BUILT_IN:  # A name in a file must not import a module.
        raise StateError(
            f"the snapshot was written by the backend {manifest.kind!r}: open it with that backend, "
            "or move the state with a savepoint"
        )
    with _reading(where), closing(load_backend(manifest.kind).open(directory, {})) as other:
        yield from page_parts(other)


def this_process() -> str:
    """Return a name of this process: its host, its number, and when it began."""
    return f"{socket.gethostname()}:{os.getpid()}:{_beginning(os.getpid()) or ''}"


def is_dead(owner: str) -> bool:
    """Return whether a process is known to have ended; False for one on another host.

    A container that starts again has the name of the one before, and its processes have the same numbers. So one that did not
    begin when the owner did is another one.
    """
    host, number, beginning = (*owner.split(":"), "", "")[:3]
    if host != socket.gethostname() or not _NUMBER.fullmatch(number):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    found = _beginning(int(number))
    return bool(beginning and found) and beginning != found


def _beginning(number: int) -> str | None:
    """When a process began: the boot of its machine, and the ticks since then; None where the system does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        status = Path(f"/proc/{number}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the name of the program, in brackets; it may have spaces and brackets itself.
    return f"{boot}-{status.rpartition(b')')[2].split()[19].decode()}"
