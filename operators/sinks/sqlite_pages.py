"""Tables of pages in a SQLite file."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from operators.sinks.interface import SinkError
from operators.sinks.pages import FoundPage, PageFinder, PageTable, Wanted
from operators.sinks.sqlite import SQLiteSink
from operators.sinks.tables import quoted


@dataclass(frozen=True, slots=True)
class SQLitePages(SQLiteSink, PageTable):
    """A table of pages in a SQLite file, for services on the driver's machine.

    Readers see the batch before while one is written, and neither waits for the other.

    Args:
        path, table, create, timeout: as for `SQLiteSink`.
    """

    @contextmanager
    def finder(self) -> Iterator[PageFinder]:
        found = _Finder(self)
        try:
            yield found
        finally:
            found.close()

    def remove(self, edition: int) -> None:
        with self._open() as db:
            db.execute(f"DELETE FROM {quoted(self.table)} WHERE edition = ?", (edition,))


class _Finder:
    """Finds rows over one connection, which is opened again in a forked process."""

    def __init__(self, pages: SQLitePages) -> None:
        self._pages = pages
        self._db: sqlite3.Connection | None = None
        self._process = 0
        self._turn = Lock()
        self._statement = (
            f"SELECT segment, start, page FROM {quoted(pages.table)} WHERE edition = ? AND bucket = ? AND key = ? AND "
            "segment BETWEEN ? AND ?"
        )

    def find(self, wanted: Sequence[Wanted]) -> list[FoundPage]:
        """Return all rows that are wanted, in one transaction."""
        with self._turn:
            try:
                return self._find(self._connected(), wanted)
            except sqlite3.Error as error:
                self._disconnect()
                if "no such table" in str(error):
                    return []
                raise SinkError(
                    f"SQLite cannot read the table {self._pages.table!r} in {os.fspath(self._pages.path)}: {error}"
                ) from error

    def _find(self, db: sqlite3.Connection, wanted: Sequence[Wanted]) -> list[FoundPage]:
        db.execute("BEGIN")
        try:
            return [
                FoundPage(number, *row)
                for number, one in enumerate(wanted)
                for row in db.execute(self._statement, one)
            ]
        finally:
            db.execute("ROLLBACK")

    def _connected(self) -> sqlite3.Connection:
        if self._db is not None and self._process != os.getpid():
            self._db = None  # It belongs to the process that this one was forked from: not even closed here.
        if self._db is None:
            path = Path(self._pages.path).absolute()
            if not path.exists():
                raise sqlite3.OperationalError("no such table: the file does not exist")
            self._db = sqlite3.connect(
                f"{path.as_uri()}?mode=ro",
                uri=True,
                timeout=self._pages.timeout,
                isolation_level=None,
                check_same_thread=False,
            )
            self._process = os.getpid()
        return self._db

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None and self._process == os.getpid():
            db.close()

    def close(self) -> None:
        """Release the connection."""
        with self._turn:
            self._disconnect()
