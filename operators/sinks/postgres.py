"""Tables in PostgreSQL."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from operators.sinks.interface import Changes, Sink, SinkError, WrittenBatch
from operators.sinks.postgres_arguments import check_conninfo, check_table, wrong_name
from operators.sinks.postgres_values import sql_type
from operators.sinks.tables import declared_types

if TYPE_CHECKING:
    from operators.sinks.postgres_database import Database


@dataclass(frozen=True, slots=True)
class PostgresSink(Sink):
    """A table in PostgreSQL 12 or newer. It needs the extra `postgres` (psycopg).

    A batch is copied into temporary tables with COPY, as text that Arrow writes in one go, and goes from there into
    the table by a DELETE and an INSERT ... ON CONFLICT DO UPDATE, in one transaction with the batch's number. Each
    batch opens a connection.

    Values: numbers, text, booleans, dates, timestamps (with and without zone), decimals and bytes have their own
    types; unsigned 64-bit integers are numeric; nested values are jsonb, with one call of Python per value. Text with
    the character NUL is refused.

    Args:
        conninfo: how to connect, such as "host=db dbname=flights user=writer" or a postgresql:// URI. Leave the
            password to ~/.pgpass or PGPASSWORD on the driver.
        table: name of the table, without its schema.
        schema: name of the schema that the table is in; it must exist.
        create: whether the first batch creates the table if it does not exist.

    Raises:
        DefinitionError: `conninfo` is not one, or PostgreSQL would cut a name, or read it as another one.
    """

    keeps_latest: ClassVar[bool] = True
    conninfo: str = field(repr=False)
    table: str
    schema: str = "public"
    create: bool = True

    def __post_init__(self) -> None:
        check_conninfo(self.conninfo)
        check_table(self.schema, self.table)

    def check(self) -> None:
        self._database().check()

    def write(self, changes: Changes) -> bool:
        types = declared_types(changes.upserts.schema, sql_type, "PostgreSQL")
        for name in types:
            if wrong := wrong_name(name):
                raise SinkError(
                    f"PostgreSQL cannot have the column {name!r}, which {wrong}: rename or drop it"
                )
        return self._database().write(changes, types)

    def last_batch(self, query: str) -> WrittenBatch | None:
        return self._database().last_batch(query)

    def forget(self, keys: pa.Table) -> int:
        return self._database().forget(keys)

    def _database(self) -> "Database":
        try:
            from operators.sinks.postgres_database import Database
        except ImportError as missing:
            raise ImportError(
                "PostgresSink needs psycopg: pip install 'spark-stateful-windows[postgres]'"
            ) from missing
        return Database(self.conninfo, self.schema, self.table, create=self.create)
