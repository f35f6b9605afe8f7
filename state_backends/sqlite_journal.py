"""A journal in one SQLite file."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from state_backends.errors import StateError
from state_backends.journal import Blob, blob_bytes
from state_backends.synced import make_folder, sync_file, sync_folder

JOURNAL_VERSION = 1
_APPLICATION_ID = int.from_bytes(b"SWJR", "big")
_KEPT_LOG_BYTES = 64 << 20


class SqliteJournal:
    """Blobs in one SQLite file. One owner at a time may change it, from any thread.

    A process may be killed at any point: the file then shows the last commit, whole. So it does after a power loss, on a disk
    that keeps what it has acknowledged; where commits do not wait, it shows that commit or an earlier one, whole.

    SQLite keeps a log and its index in two more files, `-wal` and `-shm`: a copy of a journal that is open, or whose process
    was killed, must include them. The space of removed blobs is reused, but the file does not shrink. The directory must be
    on a local disk: SQLite's log needs memory shared between processes.

    Args:
        path: the file. It and its directory are created if they are missing.
        waits: whether a commit waits until it is on the disk.

    Raises:
        StateError: here and from each method: the file is damaged, of another program, of a newer version, held by another
            process, or on a disk that is full or cannot be written. After an error in put or remove, roll back.
    """

    def __init__(self, path: Path, *, waits: bool = True) -> None:
        self._path = path
        self._waits = waits
        if path.is_dir():
            raise StateError(
                f"the journal {path} is a directory, which an earlier version of this library wrote: choose another "
                "directory for this state, or delete this one"
            )
        try:
            make_folder(path.parent)
        except OSError as error:
            raise StateError(
                f"cannot create the directory {path.parent}: {error}. Choose another directory for this state"
            ) from error
        with self._translated_errors():
            if not path.exists():
                _create(path)
            # Transactions begin and end only in this class: whether Python begins them depends on its version.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            with self._translated_errors():
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        """Check that the file is a journal before anything is written to it."""
        # A commit appends to the log. NORMAL syncs the log only before its content moves to the file: what was passed to the
        # system outlives the process, and a power loss can take the last commits but tear none. FULL syncs each commit.
        self._db.execute(f"PRAGMA synchronous = {'FULL' if self._waits else 'NORMAL'}")
        self._check_format()
        self._pragma("journal_mode = WAL")
        self._pragma(f"journal_size_limit = {_KEPT_LOG_BYTES}")

    def _check_format(self) -> None:
        if not self._path.stat().st_size:  # SQLite would take it for a new one.
            raise StateError(self._damaged("it is empty"))
        if self._pragma("application_id") != _APPLICATION_ID:
            raise StateError(
                f"{self._path} is an SQLite database of another program: choose another directory for this state"
            )
        found = self._pragma("user_version")
        if found != JOURNAL_VERSION:
            raise StateError(
                f"the journal {self._path} has format version {found}, this version reads {JOURNAL_VERSION}: "
                "upgrade spark-stateful-windows on this machine, or choose another directory for this state"
            )

    def _pragma(self, name: str) -> Any:
        return self._db.execute(f"PRAGMA {name}").fetchall()[0][0]

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:  # of a message that quotes what it found
            raise StateError(self._damaged(error)) from error
        except sqlite3.OperationalError as error:
            raise StateError(
                f"cannot read or write the journal {self._path}: {error}. If another process uses it, stop that process. "
                "Otherwise make sure that the disk works and has free space, and that the file and its directory are writable"
            ) from error
        except sqlite3.DatabaseError as error:
            if type(error) is not sqlite3.DatabaseError:
                raise  # Not about the file: a closed journal, a blob beyond 1 GB.
            raise StateError(self._damaged(error)) from error

    def get(self, name: str) -> bytes | None:
        with self._translated_errors():
            # All rows are fetched: an open cursor would hold the log.
            found = self._db.execute("SELECT blob FROM blobs WHERE name = ?", (name,)).fetchall()
        if not found:
            return None
        if type(found[0][0]) is not bytes:
            raise StateError(self._damaged(f"{name!r} is not a blob"))
        return bytes(found[0][0])

    def check_empty(self) -> None:
        """Refuse a journal that has blobs, or pages that are damaged: where its pointer was lost, it is not a new one.

        Raises:
            StateError: it is not empty, or damaged.
        """
        with self._translated_errors():
            found = self._pragma("integrity_check")
            (blobs,) = self._db.execute("SELECT count(*) FROM blobs").fetchone()
        if blobs or found != "ok":
            raise StateError(self._damaged(f"it has {blobs} blobs and no state pointer; {found}"))

    def _damaged(self, why: object) -> str:
        return (
            f"the journal {self._path} is damaged, or not a journal: {why}. "
            "Restore it from a copy, or choose another directory for this state"
        )

    def put(self, name: str, blob: Blob) -> None:
        self._change("INSERT OR REPLACE INTO blobs VALUES (?, ?)", name, blob_bytes(blob))

    def remove(self, name: str) -> None:
        self._change("DELETE FROM blobs WHERE name = ?", name)

    def begin(self) -> None:
        """Hold the file until the next commit or rollback, so that nobody else changes it between reads and changes.

        Raises:
            StateError: another owner has held it for five seconds.
        """
        with self._translated_errors():
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")

    def _change(self, statement: str, *values: object) -> None:
        self.begin()
        with self._translated_errors():
            self._db.execute(statement, values)

    def commit(self) -> None:
        with self._translated_errors():
            if self._db.in_transaction:
                self._db.execute("COMMIT")

    def sync(self) -> None:
        """Wait until all commits are on the disk, where they do not wait themselves."""
        log = self._path.with_name(f"{self._path.name}-wal")
        if not self._waits and log.exists():
            # No lock is on this file: to close another descriptor of a locked one would release its locks.
            sync_file(log)
            sync_folder(log.parent)

    def shrink(self) -> None:
        """Write the file anew, without the bytes of blobs that were removed or replaced, and empty its log. O(blobs).

        Raises:
            StateError: there is no space for a second copy, or another owner holds the file.
        """
        with self._translated_errors():
            self._db.execute("VACUUM")
            busy = self._pragma("wal_checkpoint(TRUNCATE)")
        if busy:
            raise StateError(
                f"the log of the journal {self._path} cannot be emptied, since another process reads the journal: stop it, "
                "and try again"
            )

    def rollback(self) -> None:
        with self._translated_errors():
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def close(self) -> None:
        """Release the file; what was not committed is undone. May be called twice."""
        self._db.close()


def _create(path: Path) -> None:
    """Make a journal under another name first: a file of its own name is a whole one, or damaged."""
    aside = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.new")
    try:
        with closing(sqlite3.connect(aside, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("BEGIN IMMEDIATE")
            db.execute("CREATE TABLE blobs (name TEXT PRIMARY KEY, blob BLOB NOT NULL)")
            db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {JOURNAL_VERSION}")
            db.execute("COMMIT")
        try:
            path.hardlink_to(aside)
        except FileExistsError:
            pass  # Another process was faster.
        except OSError:  # no links here
            aside.replace(path)
        sync_folder(path.parent)
    finally:
        aside.unlink(missing_ok=True)
