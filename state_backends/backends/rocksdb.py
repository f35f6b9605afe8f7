"""The backend that keeps pages in RocksDB, through rocksdict.

Key layout: b"p", the segment as 8 bytes big-endian with the sign bit flipped (so that bytes sort as numbers), the key.
Expiry is one range deletion. The write-ahead log is off: the changelog restores what a crash loses from the memtable.
RocksDB syncs its own files. This module syncs those of a restored snapshot, so that a power loss leaves no zeros among them.
"""

import shutil
import struct
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
from rocksdict import AccessType, BottommostLevelCompaction, Checkpoint, CompactOptions, Rdict, WriteOptions
from rocksdict import WriteBatch as RocksWriteBatch

from serializers import CorruptDataError
from serializers.arrays import fill
from state_backends.backends.page_names import page_keys, page_names
from state_backends.backends.rocksdb_manifest import check_manifest
from state_backends.backends.rocksdb_options import KNOWN_OPTIONS, rocks_options
from state_backends.chunks import Chunk, before, chunks, key_chunks
from state_backends.errors import DamagedCopyError, StateError, is_of_disk
from state_backends.interface import StateBackend, WriteBatch
from state_backends.synced import sync_tree

FORMAT = b"1"
_FORMAT_KEY, _VERSION_KEY = b"m:format", b"m:version"
_PAGES, _PAGES_END = b"p", b"q"
_SIGN = 1 << 63
_MIB = 1 << 20
_SIGNS_OF_DAMAGE = ("Corruption", "No such file or directory", "Input/output error")
_FREED_BYTES = 64 * _MIB
_TABLE = ".sst"
_READ_AT_ONCE = 4_096
_SEGMENT = struct.Struct(">Q")


def segment_prefix(segment: int) -> bytes:
    """Return the bytes that begin every key of the segment, in the order of the segments."""
    return _PAGES + _SEGMENT.pack(segment + _SIGN)


def segment_end(segment: int) -> bytes:
    """Return the bytes that come after every key of the segment, and before those of the next one."""
    return segment_prefix(segment + 1) if segment + 1 < _SIGN else _PAGES_END


def segment_of(key: bytes) -> int:
    """Return the segment of a stored key."""
    return int(_SEGMENT.unpack_from(key, 1)[0]) - _SIGN


class RocksDBBackend(StateBackend):
    """Pages in a RocksDB database. State may be larger than memory."""

    snapshots = True

    def __init__(self, directory: Path, options: Mapping[str, str]) -> None:
        self._directory = directory
        self._options = dict(options)
        self._write_options = _without_log()
        self._written = 0
        self._walks: WeakSet[Generator[Any, None, None]] = WeakSet()
        self._open()

    @classmethod
    def open(cls, directory: Path, options: Mapping[str, str]) -> "RocksDBBackend":
        return cls(directory, options)

    @classmethod
    def known_options(cls) -> Mapping[str, str]:
        return KNOWN_OPTIONS

    @classmethod
    def check_options(cls, options: Mapping[str, str]) -> None:
        rocks_options(options)

    def _open(self) -> None:
        options = rocks_options(self._options)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            check_manifest(self._directory)
            self._db: Any = Rdict(str(self._directory), options)
        except Exception as error:
            raise _error_of(error)(
                f"RocksDB cannot open {self._directory}: {error}. If the disk is full, free some space. If another "
                "process uses the directory, stop that process. If the database is damaged, delete the directory: the state "
                "is restored from the changelog"
            ) from error
        try:
            self._check_format()
            self._version: bytes | None = self._read(_VERSION_KEY)
            self._segments = self._find_segments()
        except StateError:
            self.close()
            raise

    def _check_format(self) -> None:
        found = self._read(_FORMAT_KEY)
        if found is None and self._next_name(b"") is None:
            self._db.put(_FORMAT_KEY, FORMAT, self._write_options)
        elif found is None:
            raise StateError(
                f"{self._directory} contains a RocksDB database of another program: choose another directory"
            )
        elif found != FORMAT:
            raise StateError(
                f"{self._directory} contains state of format {found!r}, this version reads {FORMAT!r}: "
                "delete the directory, the state is restored from the changelog"
            )

    def _find_segments(self) -> set[int]:
        """Seek from each segment to the next: O(segments), whatever they hold."""
        found: set[int] = set()
        name = self._next_name(_PAGES)
        while name is not None and name[:1] == _PAGES:
            found.add(segment_of(name))
            name = self._next_name(segment_end(segment_of(name)))
        return found

    def _read(self, names: bytes | list[bytes]) -> Any:
        """Return what is stored under a name, or under each name.

        Raises:
            DamagedCopyError: it cannot be read.
        """
        try:
            return self._db.get(names)
        except Exception as error:
            raise self._unreadable(error) from error

    def _next_name(self, name: bytes) -> bytes | None:
        """Return the first stored name that is not before this one, or None.

        Raises:
            DamagedCopyError: the names cannot be read: rocksdict's iterators stop at an error as at the end, and only the
                status tells them apart.
        """
        iterator = self._db.iter()
        try:
            iterator.seek(name)
            if iterator.valid():
                found: bytes = iterator.key()
                return found
            iterator.status()
        except Exception as error:
            raise self._unreadable(error) from error
        finally:
            del iterator  # The error keeps this frame, and an iterator keeps the database open.
        return None

    def _unreadable(self, error: object) -> DamagedCopyError:
        return DamagedCopyError(
            f"RocksDB cannot read {self._directory}: {error}. The copy is rebuilt from the changelog; if that happens often, "
            "replace the disk, or set spark.windows.state.directory to a directory on another one"
        )

    @property
    def version(self) -> bytes | None:
        return self._version

    def get_many(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        if segment not in self._segments or not keys:
            return [None] * len(keys)
        # In order, neighbours share a block; and RocksDB holds every block that one call reads until it returns.
        names, order = page_names(segment_prefix(segment), keys)
        pages: list[bytes | None] = []
        for begin in range(0, len(names), _READ_AT_ONCE):
            pages += self._read(names[begin : begin + _READ_AT_ONCE])
        found = np.empty(len(keys), object)
        found[order] = fill(pages)
        return found.tolist()

    def write(self, batch: WriteBatch, version: bytes) -> None:
        changes = RocksWriteBatch(raw_mode=True)
        segments = set(self._segments)
        if batch.drop_segments_below is not None:
            changes.delete_range(_PAGES, segment_prefix(batch.drop_segments_below))
            segments = {number for number in segments if number >= batch.drop_segments_below}
        # RocksDB writes ascending names several times as fast as scattered ones.
        for segment, keys in batch.deletes.items():
            if keys:
                names, _ = page_names(segment_prefix(segment), list(keys))
                deque(map(changes.delete, names), maxlen=0)
        for segment, pages in batch.puts.items():
            if not pages:
                continue
            names, order = page_names(segment_prefix(segment), list(pages))
            deque(map(changes.put, names, fill(list(pages.values()))[order].tolist()), maxlen=0)
            self._written += sum(map(len, pages.values()))
            segments.add(segment)
        changes.put(_VERSION_KEY, version)
        self._apply(changes)
        self._segments = segments - {number for number in batch.deletes if self._is_empty(number)}
        self._version = version
        if batch.drop_segments_below is not None:
            self._free(batch.drop_segments_below)

    def _free(self, before: int) -> None:
        """Free the disk space of dropped segments, once enough was written since the last time.

        RocksDB only marks a range as deleted; a compaction removes the files.
        """
        if self._written > (_FREED_BYTES if self._segments else _MIB):
            self._act(lambda: self._db.compact_range(_PAGES, segment_prefix(before)))
            self._written = 0

    def _apply(self, changes: RocksWriteBatch) -> None:
        self._act(lambda: self._db.write(changes, self._write_options))

    def _act(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            # A compaction that finds damage lets all later writes fail.
            raise _error_of(error)(
                f"RocksDB cannot write to {self._directory}: {error}. Free some space or repair the disk, then restart "
                "the query: the state is restored from the changelog"
            ) from error

    def _is_empty(self, segment: int) -> bool:
        name = self._next_name(segment_prefix(segment))
        return name is None or name >= segment_end(segment)

    def iterate(self, segment: int) -> Iterator[tuple[bytes, bytes]]:
        prefix = segment_prefix(segment)
        for pairs in self._walk(self._db.items, segment):
            yield from ((name[len(prefix) :], page) for name, page in pairs)

    def scan(self, segment: int) -> Iterator[Chunk]:
        for names, pages in chunks(self._walk(self._db.items, segment)):
            yield page_keys(segment_prefix(segment), names), pages

    def scan_keys(self, segment: int) -> Iterator[list[bytes]]:
        for names in key_chunks(self._walk(self._db.keys, segment)):
            yield page_keys(segment_prefix(segment), names)

    def _walk(self, items: Callable[..., Iterator[Any]], segment: int) -> Iterator[list[Any]]:
        """Walk through a segment. The walk ends when the database is closed, which would stay open with it."""
        begin, end = segment_prefix(segment), segment_end(segment)

        def stopped(last: bytes | None) -> None:
            left = self._next_name(begin if last is None else last + b"\0")
            if left is not None and left < end:
                raise self._unreadable(f"reading stopped before the page {left.hex()}")

        walk = before(items(from_key=begin), end, stopped)
        self._walks.add(walk)
        return walk

    def segments(self) -> list[int]:
        return sorted(self._segments)

    def clear(self) -> None:
        changes = RocksWriteBatch(raw_mode=True)
        changes.delete_range(_PAGES, _PAGES_END)
        changes.delete(_VERSION_KEY)
        self._apply(changes)
        self._segments.clear()
        self._version = None

    def purge(self) -> None:
        """Compact all levels, and open the database anew, since its list of files has the first and last keys of older ones."""

        def compact() -> None:
            self._db.flush()
            # A file that alone makes its level would stay as it is, and with it the marks of deleted keys.
            options = CompactOptions()
            options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
            self._db.compact_range(None, None, options)

        self._act(compact)
        self.close()
        self._open()
        self._written = 0

    def snapshot(self, directory: Path) -> None:
        try:
            Checkpoint(self._db).create_checkpoint(str(directory))
        except Exception as error:
            raise _error_of(error)(f"RocksDB cannot write a snapshot to {directory}: {error}") from error

    def check_snapshot(self, directory: Path, files: Sequence[str]) -> None:
        # RocksDB's repair reads all blocks of the tables that it finds, and sets those aside that it cannot read. The open
        # database would be answered by its block cache.
        apart = directory.with_name(f"{directory.name}-checked")
        try:
            apart.mkdir()
            for name in files:
                if name.endswith(_TABLE):
                    _link(directory / name, apart / name)
            Rdict.repair(str(apart), rocks_options(self._options))
            if damaged := sorted(path.name for path in (apart / "lost").glob(f"*{_TABLE}")):
                raise self._unreadable(f"{', '.join(damaged)} cannot be read to the end")
            self._check_list(directory)
        finally:
            shutil.rmtree(apart, ignore_errors=True)

    def _check_list(self, directory: Path) -> None:
        """Refuse a snapshot whose list of tables, which RocksDB copies as it is on the disk, names others.

        RocksDB reads a list that was cut or has zeros as the list of an earlier state.
        """
        try:
            check_manifest(directory)
            db = Rdict(
                str(directory),
                rocks_options(self._options),
                access_type=AccessType.read_only(error_if_log_file_exist=False),
            )
            listed = {Path(table["name"]).name for table in db.live_files()}
            db.close()
        except Exception as error:
            raise self._unreadable(error) from error
        if listed != (there := {path.name for path in directory.glob(f"*{_TABLE}")}):
            raise self._unreadable(f"its list names {sorted(listed)} instead of {sorted(there)}")

    def restore(self, directory: Path) -> None:
        with suppress(StateError):  # Its last changes go anyway.
            self.close()
        self._version = None
        self._remove()
        sync_tree(directory)
        directory.replace(self._directory)
        try:
            self._open()
        except StateError as error:
            self._remove()
            self._open()
            if is_of_disk(error):  # The snapshot may be sound.
                raise
            raise CorruptDataError(f"the snapshot is not a database of this library: {error}") from error

    def _remove(self) -> None:
        """Remove all files, in an order in which RocksDB opens what a killed process leaves.

        Without its logs, which hold nothing here, a database is whole; without logs and CURRENT it is a new one.
        """
        for file in (*self._directory.glob("*.log"), self._directory / "CURRENT"):
            file.unlink(missing_ok=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    def close(self) -> None:
        db, self._db = self._db, None
        if db is None:
            return
        for walk in list(self._walks):
            walk.close()
        try:
            db.close()
        except Exception as error:
            raise StateError(
                f"RocksDB cannot write its last changes to {self._directory}: {error}. "
                "Nothing is lost: the state is restored from the changelog"
            ) from error


def _error_of(error: Exception) -> type[StateError]:
    """The error that RocksDB's error becomes, by its text."""
    return DamagedCopyError if any(sign in str(error) for sign in _SIGNS_OF_DAMAGE) else StateError


def _link(path: Path, name: Path) -> None:
    """Give a file another name, or copy it where the file system has no links."""
    try:
        name.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, name)


def _without_log() -> WriteOptions:
    options: Any = WriteOptions()
    options.disable_wal = True
    return options
