"""What a sink does in its database, and what the database refuses, in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
import pyarrow as pa
from psycopg import Connection
from psycopg.sql import Composed, Identifier

from operators.errors import DefinitionError
from operators.sinks import postgres_statements as to
from operators.sinks.interface import Changes, SinkError, WrittenBatch
from operators.sinks.page_connection import ConnectedFinder
from operators.sinks.pages import FoundPage, Wanted
from operators.sinks.postgres_rights import has_schema, missing_rights
from operators.sinks.postgres_values import arrow_type
from operators.sinks.tables import BATCHES, cast_keys, check_layout, quoted

Db = Connection[Any]
T = TypeVar("T")
_ON_TABLE = "SELECT", "INSERT", "UPDATE", "DELETE"
_ON_BATCHES = "SELECT", "INSERT", "UPDATE"
_OF_VALUES = "22"
"""Class of the error codes of values that do not fit the type of their column."""
_PASSING = (None, "08", "40", "53", "55", "57", "58")
"""Classes of operational errors that may be gone at the next try; a connection that ended has no code."""
_LONG_NAMES = {"timestamptz": "timestamp with time zone", "timestamp": "timestamp without time zone"}


@dataclass(frozen=True, slots=True)
class Database:
    """The table of a sink. Each call opens a connection, and is one transaction."""

    conninfo: str
    schema: str
    table: str
    create: bool

    def check(self) -> None:
        """Refuse a database in which no batch can be written: it has no such schema, or the role lacks rights."""
        self._in_words(self._check, "the check of rights")

    def write(self, changes: Changes, types: Mapping[str, str]) -> bool:
        """Write a batch, as `Sink.write` does.

        Args:
            changes: the changes of the batch.
            types: SQL types of its columns.
        """

        def act(db: Db) -> bool:
            self._ensure(db, changes, types)
            if not to.note(db, self._batches, self.table, changes):
                return False
            to.delete_keys(db, self._name, changes.deletes)
            to.upsert(db, self._name, changes)
            return True

        return self._in_words(act, f"batch {changes.batch} of query {changes.query!r}", types)

    def last_batch(self, query: str) -> WrittenBatch | None:
        """Return the query's last batch, as `Sink.last_batch` does."""
        return self._in_words(
            lambda db: to.last_written(db, self._batches, self.table, query),
            f"the question for the last batch of query {query!r}",
        )

    def forget(self, keys: pa.Table) -> int:
        """Delete all rows of keys, as `Sink.forget` does."""

        def act(db: Db) -> int:
            found = to.columns_of(db, self._name)
            if not found:
                return 0
            given = {field.name: field.type for field in keys.schema}
            types = {name: arrow_type(sql, given.get(name, pa.null())) for name, _, sql in found}
            return to.delete_keys(db, self._name, cast_keys(self._shown, keys, types))

        return self._in_words(act, f"the deletion of {keys.num_rows} keys")

    def finder(self) -> "RowFinder":
        """Return what finds rows of pages."""
        return RowFinder(self)

    def find(self, db: Db, wanted: Sequence[Wanted]) -> list[FoundPage]:
        """Return the rows that are wanted, by one statement."""
        try:
            return to.find_pages(db, self._name, wanted)
        except psycopg.errors.UndefinedTable:
            return []

    def remove(self, edition: int) -> None:
        """Delete the rows of an edition of pages."""
        self._in_words(lambda db: to.delete_edition(db, self._name, edition), "the deletion of an edition")

    @property
    def _name(self) -> Identifier:
        return Identifier(self.schema, self.table)

    @property
    def _batches(self) -> Identifier:
        return Identifier(self.schema, BATCHES)

    @property
    def _shown(self) -> str:
        """The table's name for messages."""
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    def connect(self) -> Db:
        """Open a connection, which commits when its block ends, rolls back if that fails, and closes.

        What psycopg says of a wrong `conninfo` may be a part of the password.
        """
        try:
            # Poolers such as PgBouncer do not know prepared statements.
            return psycopg.connect(self.conninfo, prepare_threshold=None)
        except psycopg.ProgrammingError:
            raise DefinitionError(
                "conninfo has a parameter that PostgreSQL does not know, or a value with spaces that is not in quotes"
            ) from None
        except psycopg.OperationalError as error:
            raise SinkError(
                f"PostgreSQL cannot be reached: {_message_of(error)}. Check host, port, dbname and user in conninfo, and that "
                "the server runs and lets this machine in; a client of Spark Connect calls upsert_to after it has made "
                "its session"
            ) from None

    def _in_words(self, act: Callable[[Db], T], what: str, types: Mapping[str, str] | None = None) -> T:
        """Do something in a transaction; if the database refuses it, say why."""
        try:
            with self.connect() as db:
                return act(db)
        except psycopg.Error as error:
            raise self._refusal(error, what, types or {}) from error

    def _refusal(self, error: psycopg.Error, what: str, types: Mapping[str, str]) -> SinkError:
        kind = error.sqlstate and error.sqlstate[:2]
        if isinstance(error, psycopg.OperationalError) and kind in _PASSING:
            return SinkError(
                f"PostgreSQL gave up {what}: {_message_of(error)}. Start the query again: nothing is lost or written twice"
            )
        try:
            with self.connect() as db:
                self._check(db)
                others = self._other_types(db, types) if kind == _OF_VALUES else []
        except psycopg.Error:
            others = []
        except SinkError as found:
            return found
        advice = f". The table has other types than the rows: {'; '.join(others)}" if others else ""
        return SinkError(
            f"PostgreSQL refused {what} for the table {self._shown}: {_message_of(error)}{advice}"
        )

    def _check(self, db: Db) -> None:
        """Refuse a schema that does not exist, and rights that are missing."""
        if not has_schema(db, self.schema):
            raise SinkError(
                f"the database {db.info.dbname!r} has no schema {self.schema!r}: give another schema, or run "
                f"CREATE SCHEMA {quoted(self.schema)}"
            )
        tables = [(self._name, _ON_TABLE), (self._batches, _ON_BATCHES)]
        if lacking := missing_rights(db, self.schema, tables, create=self.create):
            raise SinkError(
                f"the role {db.info.user!r} lacks rights for the table {self._shown} in the database "
                f"{db.info.dbname!r}: as their owner, run {'; '.join(to.text_of(db, one) for one in lacking)}"
            )

    def _other_types(self, db: Db, types: Mapping[str, str]) -> list[str]:
        """Return, for each column that has another type than the rows, both types and the statement that changes it."""
        has = to.layout_of(db, self._name).types
        return [
            f"{name!r} is {has[name]}, and {type_} in the rows: cast it in the rows, or run ALTER TABLE {self._shown} "
            f"ALTER COLUMN {quoted(name)} TYPE {type_}"
            for name, type_ in types.items()
            if has.get(name) != _LONG_NAMES.get(type_, type_.replace(", ", ","))
        ]

    def _ensure(self, db: Db, changes: Changes, types: Mapping[str, str]) -> None:
        """Create what is missing, or refuse a table that does not fit."""
        if not (to.exists(db, self._batches) and to.exists(db, self._name)):
            to.lock(db)
            self._make(db, self._name, to.creation(db, self._name, changes, types))
            self._make(db, self._batches, to.creation_of_batches(self._batches))
        check_layout(self._shown, to.layout_of(db, self._name), changes, types)

    def _make(self, db: Db, name: Identifier, statement: Composed) -> None:
        if self.create:
            to.run(db, statement)
        elif not to.exists(db, name):
            name_, text = to.text_of(db, name), to.text_of(db, statement)
            raise SinkError(f"table {name_} does not exist: pass create=True, or run {text}")


class RowFinder(ConnectedFinder):
    """Finds rows by one statement.

    Args:
        database: has the table.
    """

    errors = psycopg.Error, (psycopg.OperationalError,)

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    def connect(self) -> Db:
        db = self._database.connect()
        db.autocommit = True
        return db

    def find_over(self, connection: Db, wanted: Sequence[Wanted]) -> list[FoundPage]:
        return self._database.find(connection, wanted)

    def now_us(self) -> int:
        return self.answer(to.server_time)

    def refusal(self, error: Any) -> SinkError:
        return SinkError(f"PostgreSQL cannot read pages: {_message_of(error)}. Ask again")


def _message_of(error: psycopg.Error) -> str:
    """Return what the database says, and its hint, as a sentence without the period."""
    said = [error.diag.message_primary or str(error), error.diag.message_hint or ""]
    return ". ".join(" ".join(part.split()).rstrip(".") for part in said if part)
