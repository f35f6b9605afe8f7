"""What a role needs so that a batch can be written, as the statements that give it."""

from collections.abc import Sequence
from typing import Any

from psycopg import Connection
from psycopg.sql import SQL, Composed, Identifier

from operators.sinks.postgres_statements import exists, run, text_of

Db = Connection[Any]
_OF_COLUMNS = ("SELECT", "INSERT", "UPDATE")
"""Rights that a role may have on single columns."""
_GRANT = SQL("GRANT {} ON {} TO {}")


def has_schema(db: Db, schema: str) -> bool:
    """Return whether the database has the schema."""
    asked = SQL("SELECT to_regnamespace({}) IS NOT NULL").format(text_of(db, Identifier(schema)))
    return run(db, asked) == [(True,)]


def missing_rights(
    db: Db, schema: str, tables: Sequence[tuple[Identifier, Sequence[str]]], *, create: bool
) -> list[Composed]:
    """Return the statements that give the connection's role what a batch needs and the role lacks.

    Args:
        db: the connection.
        schema: the schema of the tables; it must exist.
        tables: the tables, with the rights that each needs.
        create: whether tables that do not exist are to be created.
    """
    ((user, database),) = run(db, SQL("SELECT current_user, current_database()"))
    role, in_schema = Identifier(user), SQL("SCHEMA {}").format(Identifier(schema))
    lacking = []
    if not _may(db, "database", database, "TEMPORARY"):
        lacking.append(_GRANT.format(SQL("TEMPORARY"), SQL("DATABASE {}").format(Identifier(database)), role))
    if not _may(db, "schema", schema, "USAGE"):  # without it, nobody can ask for the tables
        return [*lacking, _GRANT.format(SQL("USAGE, CREATE" if create else "USAGE"), in_schema, role)]
    there = [(name, needed) for name, needed in tables if exists(db, name)]
    if create and len(there) < len(tables) and not _may(db, "schema", schema, "CREATE"):
        lacking.append(_GRANT.format(SQL("CREATE"), in_schema, role))
    for name, needed in there:
        rights = [SQL(right) for right in needed if not _may_on_table(db, name, right)]  # type: ignore[arg-type]
        if rights:
            lacking.append(_GRANT.format(SQL(", ").join(rights), SQL("TABLE {}").format(name), role))
    return lacking


def _may_on_table(db: Db, name: Identifier, right: str) -> bool:
    return _may(db, "any_column" if right in _OF_COLUMNS else "table", text_of(db, name), right)


def _may(db: Db, kind: str, name: str, right: str) -> bool:
    asked = SQL("SELECT {}({}, {})").format(Identifier(f"has_{kind}_privilege"), name, right)
    return run(db, asked) == [(True,)]
