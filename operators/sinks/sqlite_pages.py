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

_MOST_AT_ONCE = 16
"""Rows of wanted pages in one statement. So there are few statements, which SQLite keeps prepared."""


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
        self._table = quoted(pages.table)

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
        if len(wanted) <= _MOST_AT_ONCE:
            return self._select(connection, 0, wanted)
        connection.execute("BEGIN")
        try:
            parts = (wanted[at : at + _MOST_AT_ONCE] for at in range(0, len(wanted), _MOST_AT_ONCE))
            return [
                row
                for n, part in enumerate(parts)
                for row in self._select(connection, n * _MOST_AT_ONCE, part)
            ]
        finally:
            connection.execute("ROLLBACK")

    def _select(
        self, connection: sqlite3.Connection, first: int, wanted: Sequence[Wanted]
    ) -> list[FoundPage]:
        """The rows that are wanted, in one statement. The first one that is wanted has this number."""
        values = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(wanted))
        given = [value for number, one in enumerate(wanted, first) for value in (number, *one)]
        found = connection.execute(
            f"WITH wanted (number, edition, bucket, key, low, high) AS (VALUES {values}) "
            f"SELECT wanted.number, pages.segment, pages.start, pages.page FROM wanted CROSS JOIN {self._table} pages "
            "WHERE pages.edition = wanted.edition AND pages.bucket = wanted.bucket AND pages.key = wanted.key "
            "AND pages.segment BETWEEN wanted.low AND wanted.high",
            given,
        )
        return [FoundPage(*row) for row in found]

    def refusal(self, error: Any) -> SinkError:
        return SinkError(
            f"SQLite cannot read the table {self._pages.table!r} in {os.fspath(self._pages.path)}: {error}"
        )
