"""Tables in a SQLite file."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from operators.columns.arrow import plain_array, plain_table
from operators.sinks.interface import Changes, Sink, SinkError, WrittenBatch
from operators.sinks.sqlite_values import arrow_type, declared_type, plain
from operators.sinks.tables import (
    BATCHES,
    Layout,
    cast_keys,
    check_layout,
    create_table,
    declared_types,
    listed,
    not_older,
    null_keys,
    quoted,
)
from serializers.arrays import take_rows

if TYPE_CHECKING:
    from sqlite3 import Connection

_HEAD = b"SQLite format 3\0"
_NOTE = (
    f"INSERT INTO {BATCHES} (table_name, query, batch, fingerprint) VALUES (?, ?, ?, ?) ON CONFLICT (table_name, query) "
    "DO UPDATE SET batch = excluded.batch, fingerprint = excluded.fingerprint WHERE batch < excluded.batch"
)


@dataclass(frozen=True, slots=True)
class SQLiteSink(Sink):
    """A table in a SQLite file on the driver's machine, for development, tests and small results.

    Values: integers, floats (NaN becomes null, as SQLite has none), text and bytes as they are; booleans as 0 and 1;
    timestamps and dates as ISO text, which sorts by time and which SQLite's date functions read; decimals as text;
    nested values as JSON text. The names of types in a new table tell them apart, such as DECIMAL_TEXT(10, 2). Rows are
    bound one by one, in C: about 2 us per value.

    Args:
        path: the file; it is created if it does not exist. Its directory must be a local one.
        table: name of the table.
        create: whether the first batch creates the table if it does not exist.
        timeout: seconds to wait for other writers.
    """

    keeps_latest: ClassVar[bool] = True
    path: str | os.PathLike[str]
    table: str
    create: bool = True
    timeout: float = 60.0

    def check(self) -> None:
        path = Path(self.path).absolute()
        if not path.parent.is_dir():
            raise SinkError(f"there is no folder {path.parent} for the SQLite file {path.name}: create it")
        for place in (path.parent, path):
            if place.exists() and not os.access(place, os.W_OK):
                raise SinkError(f"SQLite cannot write to {place}: this user has no right to")
        if path.exists() and not _is_sqlite(path):
            raise SinkError(f"{path} is not a file of SQLite: give another path")

    def write(self, changes: Changes) -> bool:
        types = declared_types(changes.upserts.schema, declared_type, "SQLite")
        rows, gone = plain(changes.upserts), plain(changes.deletes)
        _refuse_nan(changes.upserts.select(changes.keys))
        with self._open() as db, _transaction(db):
            self._ensure(db, changes, types)
            noted = self.table, changes.query, changes.batch, changes.fingerprint
            if db.execute(_NOTE, noted).rowcount < 1:
                return False
            deleted = self._delete(db, gone)
            if changes.latest_by is not None:
                rows = self._without_older(db, changes, rows)
            self._delete(db, null_keys(rows, changes.keys))
            self._upsert(db, changes, rows)
        if deleted > 0:
            self._empty_log()
        return True

    def last_batch(self, query: str) -> WrittenBatch | None:
        with self._open() as db:
            if not _layout(db, BATCHES).required:
                return None
            asked = f"SELECT batch, fingerprint FROM {BATCHES} WHERE table_name = ? AND query = ?"
            found = db.execute(asked, (self.table, query)).fetchone()
        return None if found is None else WrittenBatch(*found)

    def forget(self, keys: pa.Table) -> int:
        with self._open() as db, _transaction(db):
            columns = _layout(db, self.table).types
            if not columns:
                return 0
            types = {name: arrow_type(declared) for name, declared in columns.items()}
            keys = cast_keys(quoted(self.table), keys, types)
            _refuse_nan(keys)
            deleted = self._delete(db, plain(keys))
        self._empty_log()
        return deleted

    def _empty_log(self) -> None:
        """Have SQLite's log give up what deleted rows held, unless somebody reads at this moment.

        The log has older pages, as the file does until they are copied from it. Whoever closes the last connection empties it,
        too; a service may keep one open for weeks.
        """
        with self._open() as db:
            db.execute("PRAGMA busy_timeout = 1000")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _open(self) -> "Iterator[Connection]":
        """Open a connection; SQLite's errors don't say which file is meant."""
        import sqlite3

        try:
            with closing(sqlite3.connect(self.path, timeout=self.timeout, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode = WAL")
                # A batch that Spark takes for written must outlive a power cut.
                db.execute("PRAGMA synchronous = FULL")
                # Erasure has to erase: SQLite marks the space of deleted rows as free, and leaves their bytes in it.
                db.execute("PRAGMA secure_delete = ON").fetchall()
                yield db
        except sqlite3.Error as error:
            self.check()
            raise SinkError(
                f"SQLite cannot use the table {self.table!r} in {os.fspath(self.path)}: {error}"
            ) from error

    def _ensure(self, db: "Connection", changes: Changes, types: dict[str, str]) -> None:
        """Create what is missing, or refuse a table that does not fit."""
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {BATCHES} "
            "(table_name TEXT, query TEXT, batch INTEGER NOT NULL, fingerprint INTEGER, PRIMARY KEY (table_name, query))"
        )
        layout = _layout(db, self.table)
        if layout.required:
            check_layout(quoted(self.table), layout, changes, types)
            return
        statement = create_table(quoted(self.table), changes, types, "PRIMARY KEY")
        if not self.create:
            raise SinkError(
                f"table {self.table!r} does not exist in {os.fspath(self.path)}: pass create=True, or run {statement}"
            )
        db.execute(statement)

    def _delete(self, db: "Connection", keys: pa.Table) -> int:
        where = " AND ".join(f"{quoted(name)} IS ?" for name in keys.column_names)
        return db.executemany(f"DELETE FROM {quoted(self.table)} WHERE {where}", _tuples(keys)).rowcount

    def _without_older(self, db: "Connection", changes: Changes, rows: pa.Table) -> pa.Table:
        """Return the rows that are not older than those of their keys in the table."""
        latest = str(changes.latest_by)
        where = " AND ".join(f"{quoted(name)} IS ?" for name in changes.keys)
        asked = f"SELECT 1 FROM {quoted(self.table)} WHERE {where} AND NOT coalesce({not_older(quoted(latest), '?')}, FALSE)"
        times = rows.column(latest).to_pylist()
        values = zip(_tuples(rows.select(changes.keys)), times, strict=True)
        newer = [db.execute(asked, (*key, at)).fetchone() is None for key, at in values]
        return rows.filter(pa.array(newer, pa.bool_()))

    def _upsert(self, db: "Connection", changes: Changes, rows: pa.Table) -> None:
        places = ", ".join("?" * rows.num_columns)
        values = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in changes.values)
        action = f"UPDATE SET {values}" if values else "NOTHING"
        statement = (
            f"INSERT INTO {quoted(self.table)} AS old ({listed(rows.column_names)}) VALUES ({places}) "
            f"ON CONFLICT ({listed(changes.keys)}) DO {action}"
        )
        db.executemany(statement, _tuples(_by_key(rows, changes.keys)))


def _by_key(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows in the order of the table's index, so that it is changed from one end to the other, not at random."""
    plain_keys = plain_table(rows.select(keys))
    columns = pa.table([plain_array(column) for column in plain_keys.columns], names=keys)
    order = pc.sort_indices(columns, [(name, "ascending") for name in keys])
    return take_rows(rows, order.to_numpy())


def _is_sqlite(path: Path) -> bool:
    """Whether a file is one of SQLite, or empty, as SQLite makes it."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_HEAD)) in (b"", _HEAD)


@contextmanager
def _transaction(db: "Connection") -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _layout(db: "Connection", table: str) -> Layout:
    """Return the table as it is; without columns if it does not exist."""
    columns = db.execute(
        'SELECT name, "notnull", pk, upper(type) FROM pragma_table_info(?)', (table,)
    ).fetchall()
    indexes = 'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial'
    unique = [
        frozenset(name for (name,) in db.execute("SELECT name FROM pragma_index_info(?)", index))
        for index in db.execute(indexes, (table,)).fetchall()
    ]
    primary = {name: type_ for name, _, place, type_ in columns if place}
    numbered = (
        primary if list(primary.values()) == ["INTEGER"] else {}
    )  # SQLite makes up a key for null there
    required = {name: bool(needed) or name in numbered for name, needed, _, _ in columns}
    types = {name: type_ for name, _, _, type_ in columns}
    return Layout(required, [*unique, *([frozenset(primary)] if primary else [])], types)


def _refuse_nan(keys: pa.Table) -> None:
    """Refuse keys that SQLite would take for null."""
    for key, column in zip(keys.column_names, keys.columns, strict=True):
        if pat.is_floating(column.type) and (found := pc.sum(pc.is_nan(column)).as_py()):
            raise SinkError(
                f"key column {key!r} is NaN in {found} rows, which SQLite does not know: drop or replace them"
            )


def _tuples(table: pa.Table) -> "zip[tuple[Any, ...]]":
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
