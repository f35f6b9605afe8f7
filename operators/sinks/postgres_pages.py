"""Tables of pages in PostgreSQL."""

from contextlib import AbstractContextManager, closing
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

    def finder(self) -> AbstractContextManager[PageFinder]:
        return closing(self._database().finder())

    def remove(self, edition: int) -> None:
        self._database().remove(edition)
