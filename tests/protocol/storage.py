"""A simulated folder, with the calls that the product makes of Arrow's file systems: an object store, or a disk."""

import io
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import blake2b
from typing import Any

from pyarrow import fs

from tests.protocol.tasks import Baton


@dataclass(slots=True)
class Content:
    """The bytes of a file; of a disk, whether they are synced. A second name of it is the same object."""

    data: bytes
    written: float
    synced: bool
    digest: bytes = b""

    def __post_init__(self) -> None:
        self.digest = blake2b(self.data, digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class Info:
    """What the storage says of a path."""

    path: str
    type: fs.FileType
    size: int = 0
    mtime: datetime | None = None


class Storage:
    """Files by path. With `disk`, names and bytes are safe from a power loss only once they are synced.

    Args:
        baton: stops the task that calls.
        world: tells the time of the one who calls, and hears of each change.
        disk: whether it is a disk; else an object store.
    """

    def __init__(self, baton: Baton, world: Any, *, disk: bool) -> None:
        self._call = baton.call
        self._touched = baton.touched
        self._world = world
        self.type_name = "local" if disk else "s3"
        self._disk = disk
        self.files: dict[str, Content] = {}
        self.safe: dict[str, Content] = {}
        """What the names are after a power loss, on a disk."""

    def state(self) -> Any:
        """All that later calls depend on."""
        safe = sorted((path, file.digest) for path, file in self.safe.items()) if self._disk else ()
        return sorted((p, f.digest, f.written, f.synced) for p, f in self.files.items()), safe

    def lose_power(self, kept_names: bool) -> None:
        """Lose what is not synced: names, or with `kept_names` only the bytes of files."""
        if not kept_names:
            self.files = dict(self.safe)
        for path, file in self.files.items():
            if not file.synced:
                self.files[path] = Content(b"", file.written, synced=True)
        self.safe = dict(self.files)

    def _changes(self, path: str) -> None:
        """A name has other bytes, or none. That it is there concerns those who list a folder above it."""
        folder = path.rpartition("/")[0]
        self._touched.use(path)
        self._touched.change(f"in {folder}", *(f"below {folder[:end]}/" for end in _ends(folder)))
        self._world.changed(path)

    # What the product calls.

    def open_output_stream(self, path: str) -> "_Stream":
        return _Stream(self, path)

    def _store(self, path: str, data: bytes) -> None:
        def act() -> None:
            self.files[path] = Content(data, self._world.storage_time(), synced=not self._disk)
            self._changes(path)

        self._call(("write", path), act, changes=True)

    def move(self, source: str, target: str) -> None:
        def act() -> None:
            self.files[target] = self._found(source)
            del self.files[source]
            self._changes(source)
            self._changes(target)

        self._call(("move", source, target), act, changes=True)

    def copy_file(self, source: str, target: str) -> None:
        def act() -> None:
            self.files[target] = Content(self._found(source).data, self._world.storage_time(), synced=True)
            self._changes(target)

        self._call(("copy", source, target), act, changes=True)

    def link(self, source: str, target: str, *, follow_symlinks: bool) -> None:
        del follow_symlinks

        def act() -> None:
            self._touched.read(target)
            if target in self.files:
                raise FileExistsError(target)
            self.files[target] = self._found(source)
            self._changes(target)

        self._call(("link", source, target), act, changes=True)

    def delete_file(self, path: str) -> None:
        def act() -> None:
            self._found(path)
            del self.files[path]
            self._changes(path)

        self._call(("delete", path), act, changes=True)

    def sync_file(self, path: str) -> None:
        def act() -> None:
            self._found(path).synced = True
            self._touched.change(f"bytes {path}")

        self._call(("sync", path), act, changes=True)

    def sync_folder(self, path: str) -> None:
        """The names in one folder are safe. Those of a lost one come with it: making a folder syncs those above."""

        def act() -> None:
            self._touched.read(f"in {path}")
            for name in {*self.files, *self.safe}:
                if name.rpartition("/")[0] == path:
                    if name in self.files:
                        self.safe[name] = self.files[name]
                    else:
                        del self.safe[name]

        self._call(("sync", path + "/"), act, changes=True)

    def get_file_info(self, what: Any) -> Any:
        if isinstance(what, str):
            return self._call(("look", what), lambda: self._info(what))
        below = what.base_dir.rstrip("/") + "/"

        def act() -> list[Info]:
            self._touched.read(f"below {below}")
            return [self._info(path) for path in sorted(self.files) if path.startswith(below)]

        return self._call(("list", below), act)

    def open_input_file(self, path: str) -> "_Input":
        return _Input(self._call(("read", path), lambda: self._found(path).data))

    def _info(self, path: str) -> Info:
        self._touched.read(path)
        file = self.files.get(path)
        if file is None:
            return Info(path, fs.FileType.NotFound)
        return Info(
            path, fs.FileType.File, len(file.data), datetime.fromtimestamp(file.written, timezone.utc)
        )

    def _found(self, path: str) -> Content:
        self._touched.read(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]


def _ends(folder: str) -> list[int]:
    """Where the path of a folder, and of each above it, ends."""
    return [place for place, letter in enumerate(folder + "/") if letter == "/"]


class _Input(io.BytesIO):
    """A file that is read."""

    def size(self) -> int:
        """Return how many bytes it has."""
        return len(self.getvalue())


class _Stream(io.BytesIO):
    """A file that appears when it is closed; closing counts as its write."""

    def __init__(self, storage: Storage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self._path = path

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._storage._store(self._path, data)

    def __del__(self) -> None:
        """Nothing: a file that nobody closed never appears."""
