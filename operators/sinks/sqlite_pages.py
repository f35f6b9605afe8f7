"""Tables of pages in a SQLite file."""

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operators.sinks.interface import SinkError
from operators.sinks.page_connection import ConnectedFinder
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

    def finder(self) -> AbstractContextManager[PageFinder]:
        return closing(_Finder(self))

    def remove(self, edition: int) -> None:
        with self._open() as db:
            db.execute(f"DELETE FROM {quoted(self.table)} WHERE edition = ?", (edition,))
        self._empty_log()


class _Finder(ConnectedFinder):
    """Finds rows in a file."""

    errors = sqlite3.Error, ()

    def __init__(self, pages: SQLitePages) -> None:
        super().__init__()
        self._pages = pages
        self._path = Path(pages.path).absolute()
        self._statement = (
            f"SELECT segment, start, page FROM {quoted(pages.table)} WHERE edition = ? AND bucket = ? AND key = ? AND "
            "segment BETWEEN ? AND ?"
        )

    def find(self, wanted: Sequence[Wanted]) -> list[FoundPage]:
        if not self._is_connected and not self._path.exists():
            return []
        try:
            return super().find(wanted)
        except SinkError as error:
            if "no such table" in str(error.__cause__):
                return []
            raise

    def now_us(self) -> int:
        return time.time_ns() // 1_000  # The file has no server: all who use it are on one machine.

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self._path.as_uri()}?mode=ro",
            uri=True,
            timeout=self._pages.timeout,
            isolation_level=None,
            check_same_thread=False,
        )

    def find_over(self, connection: sqlite3.Connection, wanted: Sequence[Wanted]) -> list[FoundPage]:
        connection.execute("BEGIN")
        try:
            return [
                FoundPage(number, *row)
                for number, one in enumerate(wanted)
                for row in connection.execute(self._statement, one)
            ]
        finally:
            connection.execute("ROLLBACK")

    def refusal(self, error: Any) -> SinkError:
        return SinkError(
            f"SQLite cannot read the table {self._pages.table!r} in {os.fspath(self._pages.path)}: {error}"
        )
