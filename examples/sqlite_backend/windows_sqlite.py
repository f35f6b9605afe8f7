"""A state backend for spark-stateful-windows that keeps pages in SQLite, with nothing but Python's standard library.

One file, `pages.db`, with a table of pages and one of names and values for the version. A write is one SQLite
transaction. Commits are not flushed to the disk: what a power failure loses is restored from the changelog.

SQLite has no checksums: of a damaged file it returns other bytes, or fewer rows, in silence. So each row has a CRC-32, and
the number of pages of each segment is stored beside the version. What does not fit is a `DamagedCopyError`.

The backend does not support snapshots. Each would be a copy of the whole file while the batch waits, and the library takes
snapshots of files often, since most files usually stay the same. Without them the library stores all pages, compressed, and
less often as they grow. Any backend can restore those, but they pass through the worker's memory.
"""

import sqlite3
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

from state_backends import StateBackend, StateError, WriteBatch
from state_backends.errors import DamagedCopyError

FORMAT = 2
APPLICATION = 0x53575351
"""Marks a file as one of this backend, in SQLite's header."""
_OPTIONS = {
    "cacheMb": "size of SQLite's page cache in MiB (default 16)",
    "synchronous": "normal (default), or off: faster, but after a power failure the directory may have to be deleted",
}
_SYNCHRONOUS = ("normal", "off")
_SCHEMA = f"""
    BEGIN;
    CREATE TABLE pages (
        segment INTEGER, key BLOB, page BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (segment, key)
    ) WITHOUT ROWID;
    CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL);
    PRAGMA application_id = {APPLICATION};
    PRAGMA user_version = {FORMAT};
    COMMIT;
"""
_VERSION, _SEGMENTS = "version", "segments"
_COUNT = struct.Struct("<qq")
"""A segment, and how many pages it has."""
_DISK_ERRORS = "disk I/O error", "Could not decode"
"""Texts of those OperationalErrors of SQLite that come of a damaged file or a failing disk."""


class SqliteBackend(StateBackend):
    """Pages in a SQLite database on local disk; memory holds its cache."""

    def __init__(self, directory: Path, options: Mapping[str, str]) -> None:
        self._file = directory / "pages.db"
        self._whole: set[int] = set()
        """Segments that were read to the end."""
        cache, synchronous = _parsed(options)
        with self._translated_errors("open"):
            directory.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self._file, check_same_thread=False)
        try:
            with self._translated_errors("open"):
                self._prepare()
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute(f"PRAGMA synchronous = {synchronous}")
                self._db.execute(f"PRAGMA cache_size = {-cache * 1024}")
        except BaseException:
            self._db.close()
            raise

    @classmethod
    def open(cls, directory: Path, options: Mapping[str, str]) -> "SqliteBackend":
        return cls(directory, options)

    @classmethod
    def known_options(cls) -> Mapping[str, str]:
        return _OPTIONS

    @classmethod
    def check_options(cls, options: Mapping[str, str]) -> None:
        _parsed(options)

    def _prepare(self) -> None:
        """Create the tables in a new file; refuse a file of another program."""
        if not self._value("SELECT count(*) FROM sqlite_master"):
            self._db.executescript(_SCHEMA)
        if self._value("PRAGMA application_id") != APPLICATION:
            raise StateError(f"{self._file} was not written by this backend: choose another directory")
        found = self._value("PRAGMA user_version")
        if found != FORMAT:
            raise StateError(
                f"{self._file} has format {found}, this version reads {FORMAT}: "
                "delete the directory, the state is restored from the changelog"
            )
        if self.version is None and self._value("SELECT EXISTS (SELECT * FROM pages)"):
            raise self._damaged("it has pages, and no version")

    def _meta(self, name: str) -> bytes | None:
        """Return what is stored under a name, or None for a new store."""
        with self._translated_errors("read"):
            rows = self._db.execute("SELECT name, value, crc FROM meta ORDER BY name").fetchall()
        found = {row[0]: row[1] for row in rows if _check(*row[:2]) == row[2]}
        if len(found) < len(rows) or (rows and set(found) != {_SEGMENTS, _VERSION}):
            raise self._damaged("the version is damaged")
        return found.get(name)

    def _set_meta(self, name: str, value: bytes) -> None:
        self._db.execute("REPLACE INTO meta VALUES (?, ?, ?)", (name, value, _check(name, value)))

    def _counts(self) -> dict[int, int]:
        """Return how many pages each segment has."""
        return dict(_COUNT.iter_unpack(self._meta(_SEGMENTS) or b""))

    def _value(self, query: str) -> Any:
        row = self._db.execute(query).fetchone()
        return row[0] if row else None

    @property
    def version(self) -> bytes | None:
        return self._meta(_VERSION)

    def get_many(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        query = "SELECT key, page, crc FROM pages WHERE segment = ? AND key = ?"
        with self._translated_errors("read"):
            rows = [self._db.execute(query, (segment, key)).fetchone() for key in keys]
        pages = [self._checked(segment, *row)[1] if row else None for row in rows]
        if None in pages and segment not in self._whole:
            deque(self.iterate(segment), maxlen=0)  # Is the row not there, or lost?
        return pages

    def write(self, batch: WriteBatch, version: bytes) -> None:
        # The connection is one transaction: committed at the end, rolled back after an error.
        with self._translated_errors("write"), self._db:
            counts = self._counts()
            if batch.drop_segments_below is not None:
                self._db.execute("DELETE FROM pages WHERE segment < ?", (batch.drop_segments_below,))
                counts = {n: count for n, count in counts.items() if n >= batch.drop_segments_below}
            for segment in {*batch.deletes, *batch.puts}:
                pages = batch.puts.get(segment, {})
                gone = self._delete(segment, {*batch.deletes.get(segment, ()), *pages})
                counts[segment] = counts.get(segment, 0) + len(pages) - gone
                rows = ((segment, key, page, _check(segment, key, page)) for key, page in pages.items())
                self._db.executemany("INSERT INTO pages VALUES (?, ?, ?, ?)", rows)
            stored = (_COUNT.pack(*number) for number in sorted(counts.items()) if number[1])
            self._set_meta(_SEGMENTS, b"".join(stored))
            self._set_meta(_VERSION, version)

    def _delete(self, segment: int, keys: set[bytes]) -> int:
        """Delete pages, and return how many there were."""
        gone = self._db.executemany(
            "DELETE FROM pages WHERE segment = ? AND key = ?", ((segment, key) for key in keys)
        )
        return max(0, gone.rowcount)  # Of no keys it is -1.

    def iterate(self, segment: int) -> Iterator[tuple[bytes, bytes]]:
        expected, count, last = self._counts().get(segment, 0), 0, None
        with self._translated_errors("read"):
            # In the order of the primary key, so that nothing is sorted.
            query = "SELECT key, page, crc FROM pages WHERE segment = ? ORDER BY segment, key"
            pages = self._db.execute(query, (segment,))
            while some := pages.fetchmany(4):
                for row in some:
                    key, page = self._checked(segment, *row)
                    if last is not None and key <= last:
                        raise self._damaged("keys are not in their order")
                    last = key
                    count += 1
                    yield key, page
        if count != expected:
            raise self._damaged(f"segment {segment} has {count} pages instead of {expected}")
        self._whole.add(segment)

    def _checked(self, segment: int, key: Any, page: Any, crc: Any) -> tuple[bytes, bytes]:
        """Return key and page of a row.

        Raises:
            DamagedCopyError: its bytes have changed.
        """
        if not (isinstance(key, bytes) and isinstance(page, bytes)) or _check(segment, key, page) != crc:
            raise self._damaged(f"a row of segment {segment} is damaged")
        return key, page

    def segments(self) -> list[int]:
        return sorted(self._counts())

    def clear(self) -> None:
        with self._translated_errors("clear"), self._db:
            self._db.execute("DELETE FROM pages")
            self._db.execute("DELETE FROM meta")

    def purge(self) -> None:
        with self._translated_errors("purge"):
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        with self._translated_errors("close"):
            self._db.close()

    @contextmanager
    def _translated_errors(self, what: str) -> Iterator[None]:
        """Raise an error of SQLite or of the disk as one that says what failed, and the way out."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            damaged = type(error) is sqlite3.DatabaseError or any(text in str(error) for text in _DISK_ERRORS)
            raise (DamagedCopyError if damaged else StateError)(
                f"cannot {what} {self._file}: {error}. If the disk is full, free some space. If the file is damaged, "
                "delete its directory: the state is restored from the changelog"
            ) from error

    def _damaged(self, why: str) -> DamagedCopyError:
        return DamagedCopyError(f"{self._file} is damaged: {why}. The state is restored from the changelog")


def _check(of: int | str, *values: bytes) -> int:
    """Return the CRC-32 of values that are stored under a segment or a name."""
    found = crc32(repr(of).encode())
    for value in values:
        found = crc32(value, crc32(b"%d:" % len(value), found))
    return found


def _parsed(options: Mapping[str, str]) -> tuple[int, str]:
    """Return the size of the cache in MiB, and how SQLite waits for the disk.

    Raises:
        ValueError: an option has a value that cannot be used.
    """
    cache = options.get("cacheMb", "16")
    if not cache.isdecimal() or not 1 <= int(cache) <= 65_536:
        raise ValueError(f"sqlite.cacheMb is {cache!r}: it must be a whole number of MiB from 1 to 65536")
    synchronous = options.get("synchronous", "normal")
    if synchronous not in _SYNCHRONOUS:
        raise ValueError(
            f"sqlite.synchronous is {synchronous!r}: it must be one of {', '.join(_SYNCHRONOUS)}"
        )
    return int(cache), synchronous
