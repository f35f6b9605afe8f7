"""Tables of pages in PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from operators.sinks.pages import PageFinder, PageTable
from operators.sinks.postgres import PostgresSink


@dataclass(frozen=True, slots=True)
class PostgresPages(PostgresSink, PageTable):
    """A table of pages in PostgreSQL 12 or newer, for services on any machine. It needs the extra `postgres` (psycopg).

    An answer is one statement, so that it is of one batch, and needs no state of a session: PgBouncer may stand between.

    Args:
        conninfo, table, schema, create: as for `PostgresSink`.
    """

    @contextmanager
    def finder(self) -> Iterator[PageFinder]:
        found = self._database().finder()
        try:
            yield found
        finally:
            found.close()

    def remove(self, edition: int) -> None:
        self._database().remove(edition)
