"""The statements of the sink for PostgreSQL, composed by psycopg; values are part of them, so that a % in a name is one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from psycopg import Connection
from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from operators.sinks.interface import Changes, WrittenBatch
from operators.sinks.pages import FoundPage, Wanted
from operators.sinks.postgres_values import as_csv
from operators.sinks.tables import BATCHES, Layout, not_older, null_keys, quoted

Db = Connection[Any]
_NULLS_NOT_DISTINCT = 150_000
"""The first version of PostgreSQL whose unique constraints can take nulls for equal."""
_COLUMNS = SQL("""
    SELECT attname, attnotnull, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass({name}) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
""")
_UNIQUE = SQL("""
    SELECT array_agg(attname::text) FROM pg_index
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey[0:indnkeyatts - 1])
    WHERE indrelid = to_regclass({name}) AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL
    AND indexprs IS NULL GROUP BY indexrelid
""")
_NOTE = SQL("""
    INSERT INTO {batches} AS old (table_name, query, batch, fingerprint) VALUES ({values})
    ON CONFLICT (table_name, query) DO UPDATE SET batch = excluded.batch, fingerprint = excluded.fingerprint
    WHERE old.batch < excluded.batch RETURNING batch
""")
_BATCHES = SQL(
    "CREATE TABLE IF NOT EXISTS {batches} "
    "(table_name text, query text, batch bigint NOT NULL, fingerprint bigint, PRIMARY KEY (table_name, query))"
)


def run(db: Db, statement: SQL | Composed) -> list[tuple[Any, ...]]:
    """Run a statement, and return its rows, if it has any."""
    done = db.execute(statement)
    return done.fetchall() if done.description else []


def text_of(db: Db, composed: Composable) -> str:
    """Return a statement or a name as text, for messages and for functions that take a name as text."""
    return composed.as_string(db)


def exists(db: Db, name: Identifier) -> bool:
    """Return whether there is a table of this name."""
    asked = SQL("SELECT to_regclass({}) IS NOT NULL").format(text_of(db, name))
    return run(db, asked) == [(True,)]


def lock(db: Db) -> None:
    """Wait for others that create tables, until the transaction ends: two queries may start at once."""
    run(db, SQL("SELECT pg_advisory_xact_lock(hashtext({}))").format(BATCHES))


def columns_of(db: Db, name: Identifier) -> list[tuple[str, bool, str]]:
    """Return a table's columns, whether each refuses null, and their types; none if it does not exist."""
    return run(db, _COLUMNS.format(name=text_of(db, name)))  # type: ignore[return-value]


def layout_of(db: Db, name: Identifier) -> Layout:
    """Return a table as it is; without columns if it does not exist."""
    columns = columns_of(db, name)
    unique = [frozenset(names) for (names,) in run(db, _UNIQUE.format(name=text_of(db, name)))]
    required = {column: bool(needed) for column, needed, _ in columns}
    return Layout(required, unique, {column: type_ for column, _, type_ in columns})


def creation(db: Db, name: Identifier, changes: Changes, types: Mapping[str, str]) -> Composed:
    """Return the statement that creates a table of the changes' columns. A primary key refuses null."""
    schema = changes.upserts.schema
    needed = {key for key in changes.keys if not schema.field(key).nullable}
    if len(needed) == len(changes.keys):
        kind = "PRIMARY KEY"
    else:
        kind = "UNIQUE NULLS NOT DISTINCT" if db.info.server_version >= _NULLS_NOT_DISTINCT else "UNIQUE"
    columns = [
        SQL("{} {}{}").format(Identifier(column), SQL(type_), SQL(" NOT NULL" if column in needed else ""))  # type: ignore[arg-type]
        for column, type_ in types.items()
    ]
    return SQL("CREATE TABLE IF NOT EXISTS {} ({}, {} ({}))").format(
        name, SQL(", ").join(columns), SQL(kind), _list(changes.keys)
    )


def creation_of_batches(batches: Identifier) -> Composed:
    """Return the statement that creates the table of the batches' numbers."""
    return _BATCHES.format(batches=batches)


def note(db: Db, batches: Identifier, table: str, changes: Changes) -> bool:
    """Note a batch, unless it or a later one is noted; other writers of the query wait until this one is done."""
    values = SQL(", ").join(map(Literal, (table, changes.query, changes.batch, changes.fingerprint)))
    statement = _NOTE.format(batches=batches, values=values)
    return bool(run(db, statement))


def last_written(db: Db, batches: Identifier, table: str, query: str) -> WrittenBatch | None:
    """Return what is noted as the query's last batch."""
    if not exists(db, batches):
        return None
    asked = SQL("SELECT batch, fingerprint FROM {} WHERE table_name = {} AND query = {}")
    found = run(db, asked.format(batches, table, query))
    return WrittenBatch(*found[0]) if found else None


def delete_keys(db: Db, table: Identifier, keys: pa.Table) -> int:
    """Delete rows by key columns, and return how many."""
    if not keys.num_rows:
        return 0
    return _delete_same(db, table, _copy(db, table, "windows_deletes", keys), keys)


def _delete_same(db: Db, table: Identifier, new: Identifier, keys: pa.Table) -> int:
    """Delete the rows that have the key of a row of `new`, and return how many."""
    statement = SQL("DELETE FROM {} AS old USING {} AS new WHERE {}")
    return sum(db.execute(statement.format(table, new, same)).rowcount for same in _same_keys(keys))


def _same_keys(keys: pa.Table) -> list[Composed]:
    """Return the conditions under which the rows `old` and `new` have the same key, one for each set of null columns.

    An index serves `=` and IS NULL, not IS NOT DISTINCT FROM.
    """
    return [
        SQL(" AND ").join(
            SQL("old.{0} IS NULL AND new.{0} IS NULL" if null else "old.{0} = new.{0}").format(
                Identifier(name)
            )
            for name, null in zip(keys.column_names, nulls, strict=True)
        )
        for nulls in sorted(_null_patterns(keys))
    ]


def _null_patterns(keys: pa.Table) -> set[tuple[bool, ...]]:
    """Return which columns are null together in some row."""
    flags = pa.table([column.is_null() for column in keys.columns], names=keys.column_names)
    return {tuple(row.values()) for row in flags.group_by(keys.column_names).aggregate([]).to_pylist()}


def upsert(db: Db, table: Identifier, changes: Changes) -> None:
    """Insert rows, or replace those of the same key."""
    if not changes.upserts.num_rows:
        return
    new, replaced = _copy(db, table, "windows_upserts", changes.upserts), Composed([])
    if changes.latest_by is not None:
        for same in _same_keys(changes.upserts.select(changes.keys)):
            statement = SQL("DELETE FROM {} AS new USING {} AS old WHERE {} AND NOT coalesce({}, false)")
            run(db, statement.format(new, table, same, _not_older(changes.latest_by, "new")))
        replaced = SQL(" WHERE {}").format(_not_older(changes.latest_by, "excluded"))
    # Unique constraints take two nulls for different values.
    _delete_same(db, table, new, null_keys(changes.upserts, changes.keys))
    columns = _list(changes.upserts.column_names)
    values = [SQL("{0} = excluded.{0}").format(Identifier(name)) for name in changes.values]
    action = SQL("UPDATE SET {}{}").format(SQL(", ").join(values), replaced) if values else SQL("NOTHING")
    # The table has another name here: it may be called "excluded". In order of the keys, the index is changed from one end to
    # the other, not at random.
    statement = SQL("INSERT INTO {} AS old ({}) SELECT {} FROM {} ORDER BY {} ON CONFLICT ({}) DO {}")
    keys = _list(changes.keys)
    run(db, statement.format(table, columns, columns, new, keys, keys, action))


def _not_older(column: str, new: str) -> SQL:
    """Return the condition under which a row of `new` replaces one of `old`."""
    return SQL(not_older(*(f"{quoted(name)}.{quoted(column)}" for name in ("old", new))))  # type: ignore[arg-type]


def _copy(db: Db, table: Identifier, name: str, rows: pa.Table) -> Identifier:
    """Copy rows into a temporary table whose columns have the types of the table's, and return its name.

    The name has its schema: with a search path that has others before it, it would be that of a table there.
    """
    new = Identifier("pg_temp", name)
    create = SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA")
    run(db, create.format(new, _list(rows.column_names), table))
    with db.cursor() as cursor, cursor.copy(SQL("COPY {} FROM STDIN (FORMAT csv)").format(new)) as copy:
        for part in as_csv(rows):
            copy.write(part)
    return new


def _list(names: Iterable[str]) -> Composed:
    return SQL(", ").join(map(Identifier, names))


def find_pages(db: Db, table: Identifier, wanted: Sequence[Wanted]) -> list[FoundPage]:
    """Return the rows of pages that are wanted. Each is looked up by the key: a join might read the whole table."""
    found = SQL(
        "SELECT w.n - 1, p.segment, p.start, p.page FROM unnest({}::bigint[], {}::int[], {}::bytea[], {}::bigint[], "
        "{}::bigint[]) WITH ORDINALITY AS w (edition, bucket, key, first, last, n), LATERAL (SELECT segment, start, page "
        "FROM {} AS q WHERE q.edition = w.edition AND q.bucket = w.bucket AND q.key = w.key "
        "AND q.segment BETWEEN w.first AND w.last OFFSET 0) AS p"
    )
    edition, bucket, key, first, last = zip(*wanted, strict=True)
    # As text: psycopg takes ten times as long for a list.
    columns = edition, bucket, [f'"\\\\x{one.hex()}"' for one in key], first, last
    arrays = [Literal(f"{{{','.join(map(str, column))}}}") for column in columns]
    with db.cursor(binary=True) as cursor:
        cursor.execute(found.format(*arrays, table))
        return [FoundPage(*row) for row in cursor.fetchall()]


def server_time(db: Db) -> int:
    """Return the time by the server's clock, in microseconds since the epoch."""
    ((now,),) = run(db, SQL("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
    return int(now)


def delete_edition(db: Db, table: Identifier, edition: int) -> None:
    """Delete the rows of an edition of pages."""
    run(db, SQL("DELETE FROM {} WHERE edition = {}").format(table, Literal(edition)))
