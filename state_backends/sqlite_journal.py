"""A journal in one SQLite file."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from state_backends.errors import StateError
from state_backends.journal import Blob, blob_bytes

JOURNAL_VERSION = 1
_APPLICATION_ID = int.from_bytes(b"SWJR", "big")
_KEPT_LOG_BYTES = 64 << 20


class SqliteJournal:
    """Blobs in one SQLite file, which one owner at a time may change, from any thread.

    A process may be killed at any point: the file then shows the last commit, whole. After a power loss it shows that
    commit or an earlier one, whole. Beside the file stand its log and the log's index, `-wal` and `-shm`: a copy of a
    journal that is open, or whose process was killed, has to take these too. Room of removed blobs is used again, but the
    file does not shrink. The directory must be on a local disk: SQLite's log needs memory shared between processes.

    Args:
        path: the file, which may be absent; so may its directory.

    Raises:
        StateError: here and from each method: the file is damaged, of another program, of a newer version, held by another
            process, or on a disk that is full or cannot be written. After an error in put or remove, roll back.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_dir():
            raise StateError(
                f"{path} is a directory; a journal is a file, and directories are of an earlier version: "
                "name another directory for this state, or remove that one"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(
                f"the directory {path.parent} cannot be made: {error}. Name another directory for this state"
            ) from error
        with self._translated_errors():
            # Transactions are begun and ended here alone: Python would begin them in some versions and not in others.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            with self._translated_errors():
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        """Check whose file it is before anything is written to it, and make the table in a new one."""
        # A commit appends to the log and syncs nothing: what was handed to the system outlives the process. The log is
        # synced before its content moves to the file, so that a power loss can take the last commits but tear none.
        self._db.execute("PRAGMA synchronous = NORMAL")
        # A file of a few bytes counts no pages, and SQLite would take it for a new one.
        if self._pragma("page_count") or self._path.stat().st_size:
            self._check_format()
        else:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("CREATE TABLE IF NOT EXISTS blobs (name TEXT PRIMARY KEY, blob BLOB NOT NULL)")
            self._db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            self._db.execute(f"PRAGMA user_version = {JOURNAL_VERSION}")
            self._db.execute("COMMIT")
        self._pragma("journal_mode = WAL")
        self._pragma(f"journal_size_limit = {_KEPT_LOG_BYTES}")

    def _check_format(self) -> None:
        if self._pragma("application_id") != _APPLICATION_ID:
            raise StateError(
                f"{self._path} is an SQLite database of another program: name another directory for this state"
            )
        found = self._pragma("user_version")
        if found != JOURNAL_VERSION:
            raise StateError(
                f"the journal {self._path} has format version {found}, this version reads {JOURNAL_VERSION}: "
                "upgrade spark-stateful-windows on this machine, or name another directory for this state"
            )

    def _pragma(self, name: str) -> Any:
        return self._db.execute(f"PRAGMA {name}").fetchall()[0][0]

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StateError(
                f"the journal {self._path} cannot be read or written: {error}. If another process holds it, stop that "
                "one; else see to it that its disk has room and that the file and its directory can be written"
            ) from error
        except sqlite3.DatabaseError as error:
            if type(error) is not sqlite3.DatabaseError:
                raise  # Not about the file: a closed journal, a blob beyond 1 GB.
            raise StateError(
                f"the journal {self._path} is damaged, or no journal: {error}. "
                "Put a copy of it in its place, or name another directory for this state"
            ) from error

    def get(self, name: str) -> bytes | None:
        with self._translated_errors():
            # All rows of the answer are taken: one that waits for its next row would hold the log.
            found = self._db.execute("SELECT blob FROM blobs WHERE name = ?", (name,)).fetchall()
        return found[0][0] if found else None

    def put(self, name: str, blob: Blob) -> None:
        self._change("INSERT OR REPLACE INTO blobs VALUES (?, ?)", name, blob_bytes(blob))

    def remove(self, name: str) -> None:
        self._change("DELETE FROM blobs WHERE name = ?", name)

    def _change(self, statement: str, *values: object) -> None:
        with self._translated_errors():
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(statement, values)

    def commit(self) -> None:
        with self._translated_errors():
            if self._db.in_transaction:
                self._db.execute("COMMIT")

    def rollback(self) -> None:
        with self._translated_errors():
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def close(self) -> None:
        """Release the file; what was not committed is undone. May be called twice."""
        self._db.close()
