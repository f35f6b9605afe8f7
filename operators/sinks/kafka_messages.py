"""From the changes of a batch to messages: their bytes are made before a transaction begins."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pat

from operators.errors import DefinitionError
from operators.sinks.interface import Changes, SinkError
from operators.sinks.json_rows import is_json, json_rows
from operators.sinks.tables import declared_types

_BOUNDS = ("window_start", "window_end")
Headers = list[tuple[str, bytes]]


Message = tuple[bytes, bytes | None, Headers, bytes]
"""Key, value (None removes the key), headers of this message alone, and the bytes whose hash gives its partition."""


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a batch.

    Attributes:
        batch, fingerprint: the number and fingerprint of the batch.
        keys, columns: the key columns, and all columns, of its rows.
        rows: upserts, then deletes.
    """

    batch: int
    fingerprint: int
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    rows: list[Message]


def messages_of(changes: Changes, value: str | None, *, by_message: bool) -> Messages:
    """Return the messages of a batch.

    Args:
        changes: the changes of the batch.
        value: the column that has each message's value, or None for JSON of the row.
        by_message: whether the whole key of a message gives its partition.

    Raises:
        SinkError: JSON has no form for a column, or a value is null, which would delete the row.
        DefinitionError: the column of values does not exist, or has neither bytes nor text.
    """
    written = changes.upserts if value is None else changes.upserts.select(changes.keys)
    declared_types(written.schema, is_json, "a message in JSON")
    names = sorted(changes.keys, key=lambda name: (_BOUNDS.index(name) + 1 if name in _BOUNDS else 0, name))
    values = json_rows(changes.upserts) if value is None else _given(changes.upserts, value)
    rows = [
        *_made(changes.upserts, names, values, b"update", changes.upserts, by_message=by_message),
        *_made(changes.deletes, names, None, b"retract", changes.retracts, by_message=by_message),
    ]
    return Messages(
        changes.batch, changes.fingerprint, tuple(names), tuple(changes.upserts.column_names), rows
    )


def _made(
    rows: pa.Table,
    names: list[str],
    values: Iterator[bytes] | None,
    change: bytes,
    sequences: pa.Table | None,
    *,
    by_message: bool,
) -> Iterator[Message]:
    count = rows.num_rows
    placing = [name for name in names if by_message or name not in _BOUNDS]
    keys = json_rows(rows.select(names))
    placed = json_rows(rows.select(placing)) if placing else iter([b"{}"] * count)
    texts = _sequences(sequences, count)
    for key, by, value, text in zip(keys, placed, values or iter([None] * count), texts, strict=True):
        headers = [("change", change)] if text is None else [("change", change), ("sequence", text)]
        yield key, value, headers, by


def _sequences(rows: pa.Table | None, count: int) -> list[bytes | None]:
    if rows is None or "sequence" not in rows.column_names:
        return [None] * count
    return rows.column("sequence").cast(pa.string()).cast(pa.binary()).to_pylist()


def _given(rows: pa.Table, name: str) -> Iterator[bytes]:
    """Yield the values of a column that the user has made."""
    if name not in rows.column_names:
        raise DefinitionError(
            f"value names {name!r}, which does not exist; the rows have {', '.join(rows.column_names)}"
        )
    column = rows.column(name)
    kinds = pat.is_binary, pat.is_large_binary, pat.is_string, pat.is_large_string
    if not any(is_kind(column.type) for is_kind in kinds):
        raise DefinitionError(f"value names {name!r}, which is of type {column.type}: it takes bytes or text")
    if column.null_count:
        raise SinkError(
            f"column {name!r} is null in {column.null_count} rows, and a message without a value removes its key: the "
            "expression of the column must give each row a value"
        )
    yield from column.cast(pa.large_binary()).to_pylist()
