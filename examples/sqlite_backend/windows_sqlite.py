"""A state backend for spark-stateful-windows that keeps pages in SQLite, with nothing but Python's standard library.

One file, `pages.db`, with a table of pages and one of names and values for the version. A write is one SQLite
transaction. Commits are not flushed to the disk: what a power failure loses is restored from the changelog.

The backend does not support snapshots. Each would be a copy of the whole file while the batch waits, and the library takes
snapshots of files often, since most files usually stay the same. Without them the library stores all pages, compressed, and
less often as they grow. Any backend can restore those, but they pass through the worker's memory.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from state_backends import StateBackend, StateError, WriteBatch

FORMAT = 1
APPLICATION = 0x53575351
"""Marks a file as one of this backend, in SQLite's header."""
_OPTIONS = {
    "cacheMb": "size of SQLite's page cache in MiB (default 16)",
    "synchronous": "normal (default), or off: faster, but after a power failure the directory may have to be deleted",
}
_SYNCHRONOUS = ("normal", "off")
_SCHEMA = f"""
    BEGIN;
    CREATE TABLE pages (segment INTEGER, key BLOB, page BLOB NOT NULL, PRIMARY KEY (segment, key)) WITHOUT ROWID;
    CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL);
    PRAGMA application_id = {APPLICATION};
    PRAGMA user_version = {FORMAT};
    COMMIT;
"""
# From each segment to the next by the primary key: one look-up per segment, whatever its size.
_SEGMENTS = """
    WITH RECURSIVE found(segment) AS (
        SELECT min(segment) FROM pages
        UNION ALL
        SELECT (SELECT min(segment) FROM pages WHERE segment > found.segment) FROM found WHERE segment IS NOT NULL
    )
    SELECT segment FROM found WHERE segment IS NOT NULL
"""


class SqliteBackend(StateBackend):
    """Pages in a SQLite database on local disk; memory holds its cache."""

    def __init__(self, directory: Path, options: Mapping[str, str]) -> None:
        self._file = directory / "pages.db"
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

    def _value(self, query: str) -> Any:
        row = self._db.execute(query).fetchone()
        return row[0] if row else None

    @property
    def version(self) -> bytes | None:
        with self._translated_errors("read"):
            found: bytes | None = self._value("SELECT value FROM meta WHERE name = 'version'")
        return found

    def get_many(self, segment: int, keys: Sequence[bytes]) -> list[bytes | None]:
        query = "SELECT page FROM pages WHERE segment = ? AND key = ?"
        with self._translated_errors("read"):
            rows = [self._db.execute(query, (segment, key)).fetchone() for key in keys]
        return [row[0] if row else None for row in rows]

    def write(self, batch: WriteBatch, version: bytes) -> None:
        deletes = ((segment, key) for segment, keys in batch.deletes.items() for key in keys)
        puts = ((segment, key, page) for segment, pages in batch.puts.items() for key, page in pages.items())
        # The connection is one transaction: committed at the end, rolled back after an error.
        with self._translated_errors("write"), self._db:
            if batch.drop_segments_below is not None:
                self._db.execute("DELETE FROM pages WHERE segment < ?", (batch.drop_segments_below,))
            self._db.executemany("DELETE FROM pages WHERE segment = ? AND key = ?", deletes)
            self._db.executemany("REPLACE INTO pages VALUES (?, ?, ?)", puts)
            self._db.execute("REPLACE INTO meta VALUES ('version', ?)", (version,))

    def iterate(self, segment: int) -> Iterator[tuple[bytes, bytes]]:
        with self._translated_errors("read"):
            pages = self._db.execute("SELECT key, page FROM pages WHERE segment = ?", (segment,))
            while some := pages.fetchmany(4):
                yield from some

    def segments(self) -> list[int]:
        with self._translated_errors("read"):
            return [segment for (segment,) in self._db.execute(_SEGMENTS)]

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
            raise StateError(
                f"cannot {what} {self._file}: {error}. If the disk is full, free some space. If the file is damaged, "
                "delete its directory: the state is restored from the changelog"
            ) from error


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
