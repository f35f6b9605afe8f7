"""Snapshots in a folder: manifests that share the large files which have not changed.

    STORE/NUMBER-TOKEN.json   a manifest: the SHA-256 of the rest in the first line, then JSON
    STORE/files/DIGEST-TOKEN  the files, by the SHA-256 of their bytes and the snapshot that first wrote them

STORE is the random name of one bucket's state, NUMBER the version and TOKEN random: no two attempts ever write the same
file. A snapshot names files of 1 MiB or more of the one before it where their bytes are equal; smaller ones are written again,
so that a damaged one leaves the snapshot before it. Files are written before the manifest that names them, and removed when no
manifest names them any more.

An attempt that broke off leaves files without a manifest. The next one has the storage copy those that it needs, under names of
its own: whoever removes what the broken one left takes nothing away from it.
"""

import hashlib
import re
import shutil
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from serializers import CorruptDataError
from serializers.shapes import count, instance, refusing, short
from state_backends.durability.folders import MOST_BYTES, Folder, stays_inside
from state_backends.durability.signed import decode_signed, encode_signed, fetch_checked, file_digest

MANIFEST_VERSION = 1
PAGES = "pages"
"""The kind of a snapshot that holds pages in changelog blobs; any other kind is the name of the backend that wrote it."""
_LEAST_SHARED, _LEAST_COPIED = 1 << 20, 64 << 10
"""Bytes of files that a snapshot has in common with the one before, and that the storage copies: others are sent."""
_ORPHAN_SECONDS = 3_600.0
_AT_ONCE = 4
_MOST_DIGESTS = 65_536
_NAMES = "(files/[0-9a-f]{64}-)?[0-9]{1,19}-[0-9a-z]{1,32}([.]json)?([.][0-9a-f]{8}[.]part)?"
"""Names in a store: of manifests, of files, and of those that were not completed; a regular expression."""

_FILE = re.compile("([0-9a-f]{64})-([0-9]{1,19})-[0-9a-z]{1,32}")
"""The digest in the name of a file, and the version that it was written for."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a snapshot.

    Attributes:
        name: the file's name in the snapshot.
        file: its name in the folder of files.
        digest: SHA-256 of its bytes, in hex.
        size: how many bytes.
    """

    name: str
    file: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot is made of.

    Attributes:
        store_id: the id of the state.
        version: the version of the state, in hex.
        kind: PAGES, or the name of the backend whose files these are.
        parts: the files.
    """

    store_id: str
    version: str
    kind: str
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(part.size for part in self.parts)

    def encode(self) -> bytes:
        return encode_signed(asdict(self), MANIFEST_VERSION)

    @classmethod
    def decode(cls, blob: bytes, where: str) -> "Manifest":
        """Return the manifest that `encode` wrote.

        Raises:
            CorruptDataError: it is truncated or altered; names the file.
            NewerFormatError: a newer version wrote it.
        """
        what = f"the manifest {where}"
        values = decode_signed(blob, MANIFEST_VERSION, what)
        with refusing(what):
            store_id, version, kind = (
                instance(str, values[name]) for name in ("store_id", "version", "kind")
            )
            parts = tuple(_part(what, **part) for part in values["parts"])
            if len({part.name for part in parts}) < len(parts):
                raise CorruptDataError(f"{what} names two files by the same name")
            if kind == PAGES and max((part.size for part in parts), default=0) > MOST_BYTES:
                raise CorruptDataError(f"{what} has pages in a file of more than {MOST_BYTES} bytes")
            return cls(store_id, version, kind, parts)


def _part(what: str, name: Any, file: Any, digest: Any, size: Any) -> Part:
    for one in (instance(str, name), instance(str, file)):
        if "/" in one or not stays_inside(one):
            raise CorruptDataError(f"{what} names a file outside its folder: {short(one)}")
    return Part(name, file, instance(str, digest), count(size))


class SnapshotFolder:
    """The snapshots of one store in a folder."""

    def __init__(self, folder: Folder, store_id: str) -> None:
        self.folder = folder
        self.store_id = store_id

    def _manifest(self, name: str) -> str:
        return f"{self.store_id}/{name}.json"

    def _file(self, part: Part) -> str:
        return f"{self.store_id}/files/{part.file}"

    def has(self, name: str) -> bool:
        """Return whether the snapshot is complete."""
        return self.folder.has(self._manifest(name))

    def confirm(self, name: str) -> None:
        """Wait until a snapshot that another process has completed is on the disk: that process may have died before."""
        self.folder.confirm(self._manifest(name))

    def where(self, name: str) -> str:
        """Return the path of a snapshot's manifest, for messages."""
        return self.folder.where(self._manifest(name))

    def manifest(self, name: str) -> Manifest:
        """Return the manifest of a snapshot.

        Raises:
            CorruptDataError: it is missing, damaged, or of another store.
            NewerFormatError: a newer version wrote it.
        """
        where = self.where(name)
        blob = self.folder.read(self._manifest(name))
        if blob is None:
            raise CorruptDataError(f"the manifest {where} is missing")
        manifest = Manifest.decode(blob, where)
        if manifest.store_id != self.store_id:
            raise CorruptDataError(f"the manifest {where} belongs to another state, {manifest.store_id}")
        return manifest

    def write(
        self,
        name: str,
        version: bytes,
        kind: str,
        files: Iterable[tuple[str, bytes | Path]],
        earlier: Manifest | None,
    ) -> Manifest:
        """Write a snapshot: its files, but for large ones that an earlier one has, then its manifest.

        What an attempt has stored which broke off since is copied by the storage where it can.

        Args:
            name: the name of the snapshot, never used before.
            version: the version of the state.
            kind: PAGES or a backend's name.
            files: name and content of each.
            earlier: a snapshot that is kept at least as long as this one.
        """
        there = {path: size for path, _, size in self.folder.list(self.store_id)}
        broken = self._left_by_broken(there)
        stored: dict[str, str] = {}
        if earlier is not None:
            # Some may have been removed since by a lifecycle rule of the storage, or by hand.
            stored = {
                part.digest: part.file
                for part in earlier.parts
                if part.size >= _LEAST_SHARED and self._file(part) in there
            }

        def put(item: tuple[str, bytes | Path]) -> Part:
            part_name, data = item
            digest, size = digest_and_size(data)
            part = Part(part_name, stored.get(digest, f"{digest}-{name}"), digest, size)
            left = broken.get((digest, size))
            if digest not in stored and not (left and self.folder.copy(left, self._file(part))):
                self.folder.write(self._file(part), data)
            return part

        parts: list[Part] = []
        rest = iter(files)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            # A few at a time: each is encoded when it is read, and all of them may not fit in memory.
            while group := list(islice(rest, _AT_ONCE)):
                parts += pool.map(put, group)
        manifest = Manifest(self.store_id, version.hex(), kind, tuple(parts))
        self.folder.write(self._manifest(name), manifest.encode())
        return manifest

    def _left_by_broken(self, there: Mapping[str, int]) -> dict[tuple[str, int], str]:
        """Files of attempts that are newer than every complete snapshot, by digest and bytes.

        One that is not whole has fewer bytes. Those of complete snapshots may be damaged, which may be why this one is written.

        Args:
            there: bytes of each file of the store.
        """
        newest = max((_number(_name(path)) for path in there if path.endswith(".json")), default=-1)
        left = {}
        for path, size in there.items():
            file = _FILE.fullmatch(path.rpartition("/")[2])
            if file and size >= _LEAST_COPIED and int(file[2]) > newest:
                left[file[1], size] = path
        return left

    def last_stored(self, name: str) -> float | None:
        """Return when the last file of a snapshot was stored, in seconds since the epoch; None if none is there."""
        found = self.folder.list(f"{self.store_id}/files")
        times = [written.timestamp() for path, written, _ in found if written and path.endswith(f"-{name}")]
        return max(times, default=None)

    def fetch(self, manifest: Manifest, directory: Path) -> None:
        """Copy the snapshot's files into a new local directory, checking each.

        Raises:
            CorruptDataError: a file is missing, truncated or altered; names it.
        """
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)

        def get(part: Part) -> None:
            file = self._file(part)
            what = f"the snapshot file {self.folder.where(file)} ({part.name})"
            fetch_checked(self.folder, file, directory / part.name, part.size, part.digest, what)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(get, manifest.parts):
                pass

    def clean(self, kept: Collection[str], gone: Collection[str]) -> None:
        """Remove snapshots, and what failed attempts left behind an hour ago or longer.

        What is as new as the newest snapshot that is needed, or newer, stays: a process that was suspended for hours does not
        know what the one that took its place has written since. So does what has no name that a snapshot has, and what is only
        linked into the store.

        Args:
            kept: names of the snapshots that are needed, including one that is being written.
            gone: names of the others.

        Raises:
            CorruptDataError: a manifest that is needed cannot be read, so that the files it needs are unknown.
        """
        named = re.compile(f"{re.escape(self.store_id)}/{_NAMES}")
        found = {path: time for path, time, _ in self.folder.list(self.store_id) if named.fullmatch(path)}
        # A list may be late: of a snapshot that it leaves out, the files may be needed all the same.
        needed = {path for name in kept if (path := self._manifest(name)) in found or self.has(name)}
        ended = {path for path in found if path.endswith(".json")} - needed
        newest = max(map(_number, kept), default=-1)

        def is_left_over(path: str, writer: str) -> bool:
            return _number(writer) < newest and _is_old(found[path])

        ended = {path for path in ended if is_left_over(path, _name(path))}
        ended |= {self._manifest(name) for name in gone}
        left = {*found, *needed} - ended
        used = {file for path in left if path.endswith(".json") for file in self._files(path)}
        for path in sorted(ended & set(found)):
            for file in self._files(path, damaged_too=True):
                if file not in used and file in found:
                    self._remove(file)
            self._remove(path)
        for path in found:
            # A needed snapshot without a manifest is being written, perhaps for longer than that.
            writer = path.rpartition("/")[2].partition("-")[2]
            if (
                not path.endswith(".json")
                and path not in used
                and writer not in kept
                and is_left_over(path, writer)
            ):
                self._remove(path)

    def _remove(self, path: str) -> None:
        """Remove a file that lies in the store itself, not behind a link."""
        if not self.folder.is_linked(path):
            self.folder.remove(path)

    def _files(self, path: str, *, damaged_too: bool = False) -> list[str]:
        """The files that a manifest names; with `damaged_too`, an empty list for one that cannot be read."""
        try:
            manifest = self.manifest(_name(path))
        except CorruptDataError:
            if damaged_too:
                return []
            raise
        return [self._file(part) for part in manifest.parts]


def _name(path: str) -> str:
    """The name of the snapshot whose manifest this is."""
    return path.rpartition("/")[2].removesuffix(".json")


def _number(name: str) -> int:
    """The version that a snapshot of this name holds; names that no snapshot has are the oldest."""
    number = name.partition("-")[0]
    return int(number) if number.isdecimal() else -1


def _is_old(written: datetime | None) -> bool:
    return written is not None and time.time() - written.timestamp() > _ORPHAN_SECONDS


def digest_and_size(data: bytes | Path) -> tuple[str, int]:
    """The SHA-256 of the content in hex, and its bytes.

    A linked file is read once, whatever its name next time. A file without links may be deleted soon, and its number be
    used by another file.
    """
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest(), len(data)
    status = data.stat()
    identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    digest = _digests.get(identity) if status.st_nlink > 1 else None
    if digest is None:
        digest = file_digest(data)
        if len(_digests) >= _MOST_DIGESTS:
            _digests.clear()
        _digests[identity] = digest
    return digest, status.st_size


_digests: dict[tuple[int, int, int, int], str] = {}
