"""What the sinks that speak SQL share: names, statements, and tables that do not fit."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from operators.columns.checks import list_columns, refuse_twice
from operators.errors import DefinitionError
from operators.sinks.interface import Changes, SinkError

BATCHES = "windows_batches"
"""The table of the batches' numbers."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A table as it is in the database.

    Attributes:
        required: each column, and whether it refuses null.
        unique: the sets of columns on which the table has a unique index.
        types: the SQL type of each column, if it is known.
    """

    required: Mapping[str, bool]
    unique: Sequence[frozenset[str]]
    types: Mapping[str, str] = field(default_factory=dict)


def check_key_names(function: str, keys: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse keys that are missing, named twice, or no columns of the rows.

    Args:
        function: the name of the function that users called.
        keys: names of the key columns, those of the window among them.
        columns: names of the rows' columns.

    Raises:
        DefinitionError: names the key.
    """
    if not keys:
        raise DefinitionError(
            f"{function} needs keys: the rows have no window, so name the columns that identify a row"
        )
    refuse_twice("key column", tuple(keys))
    for key in keys:
        if key not in columns or key == "change":
            listed_columns = list_columns(key, [name for name in columns if name != "change"])
            raise DefinitionError(
                f"key column {key!r} does not exist; the rows have the columns {listed_columns}"
            )


def quoted(name: str) -> str:
    """Return an identifier as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Return identifiers with commas between them."""
    return ", ".join(map(quoted, names))


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return a name that begins with this one and is none of those that are taken; Delta and Spark ignore case."""
    lower = {one.lower() for one in taken}
    while name in lower:
        name += "_"
    return name


def declared_types(
    schema: pa.Schema, declare: Callable[[pa.DataType], str | None], database: str
) -> dict[str, str]:
    """Return the SQL type of each column.

    Raises:
        SinkError: the database has none for a column's type; names all such columns.
    """
    types = {column.name: declare(column.type) for column in schema}
    if missing := [f"{name!r} ({schema.field(name).type})" for name, found in types.items() if found is None]:
        raise SinkError(f"{database} cannot hold the columns {', '.join(missing)}: cast or drop them first")
    return {name: found for name, found in types.items() if found is not None}


def create_table(table: str, changes: Changes, types: Mapping[str, str], key: str) -> str:
    """Return the statement that creates a table of the changes' columns.

    Args:
        table: its name, quoted.
        changes: have the columns.
        types: the types of the columns.
        key: the words before the key columns, such as PRIMARY KEY.
    """
    schema = changes.upserts.schema
    needed = {name for name in changes.keys if not schema.field(name).nullable}
    columns = [
        f"{quoted(name)} {type_}{' NOT NULL' if name in needed else ''}" for name, type_ in types.items()
    ]
    return f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)}, {key} ({listed(changes.keys)}))"


def check_layout(table: str, layout: Layout, changes: Changes, types: Mapping[str, str]) -> None:
    """Refuse a table that cannot take the changes.

    Args:
        table: its name, for messages.
        layout: how it is.
        changes: what it should take.
        types: SQL types of the changes' columns, for messages.

    Raises:
        SinkError: names the missing columns, the other key, or the key columns that have nulls.
    """
    if missing := [name for name in changes.upserts.column_names if name not in layout.required]:
        # One statement for each column: SQLite takes no more.
        added = "; ".join(f"ALTER TABLE {table} ADD COLUMN {quoted(name)} {types[name]}" for name in missing)
        raise SinkError(
            f"table {table} has no columns {', '.join(missing)}; it has {', '.join(layout.required)}: "
            f"drop them from the rows, or add them with {added}"
        )
    if frozenset(changes.keys) not in layout.unique:
        others = " or ".join(f"({', '.join(sorted(one))})" for one in set(layout.unique)) or "no columns"
        raise SinkError(
            f"table {table} has a unique key on {others}, not on ({', '.join(changes.keys)}): "
            "upsert_to(..., keys=...) must name the table's key columns without the window's columns, or the table "
            "needs a PRIMARY KEY or UNIQUE constraint on these columns"
        )
    _refuse_nulls(table, layout, changes)


def cast_keys(table: str, keys: pa.Table, columns: Mapping[str, pa.DataType | None]) -> pa.Table:
    """Return distinct keys to forget, in the types of a table's columns.

    Args:
        table: its name, for messages.
        keys: as they were given.
        columns: the type of the values in each column of the table; None if it is not known.

    Raises:
        SinkError: the table lacks a column, or the type of its values is not known.
        DefinitionError: a key has another type than its column; names the column.
    """
    from operators.runtime.keys_to_forget import cast_key  # imports more than a sink needs for a batch

    names = keys.column_names
    if missing := [name for name in names if name not in columns]:
        raise SinkError(
            f"table {table} has no columns {', '.join(missing)}, by which rows are to be deleted; it has {', '.join(columns)}"
        )
    cast = list[pa.ChunkedArray]()
    for name in names:
        type_ = columns[name]
        if type_ is None:
            raise SinkError(
                f"the sink has not chosen the type of column {name!r} in table {table}, and cannot tell how a key is stored "
                "there: delete the rows yourself"
            )
        cast.append(cast_key(keys, name, type_, "table"))
    return pa.table(cast, names).group_by(names).aggregate([])


def _refuse_nulls(table: str, layout: Layout, changes: Changes) -> None:
    for key in changes.keys:
        if layout.required[key] and (nulls := changes.upserts.column(key).null_count):
            raise SinkError(
                f"key column {key!r} is null in {nulls} rows, and table {table} refuses null there: drop or replace "
                "these values before the operator (dropna, coalesce), or replace the PRIMARY KEY by a UNIQUE "
                "constraint without NOT NULL"
            )


def not_older(old: str, new: str) -> str:
    """Return the condition under which a new row replaces a stored one, by the columns that say how new they are.

    Null is less than any value.
    """
    return f"({old} <= {new} OR {old} IS NULL)"


def null_keys(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the keys of the rows that have a null in their key."""
    found = pa.array([False] * table.num_rows, pa.bool_())
    for key in keys:
        found = pc.or_(found, table.column(key).is_null())
    return table.select(keys).filter(found)
