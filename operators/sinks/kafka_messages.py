"""From the changes of a batch to messages: their bytes are made before a transaction begins."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import pyarrow as pa
import pyarrow.types as pat

from operators.errors import DefinitionError
from operators.sinks.interface import Changes, SinkError
from operators.sinks.json_rows import is_json, json_objects, json_values
from operators.sinks.tables import declared_types
from serializers.arrays import one_array

_BOUNDS = ("window_start", "window_end")
_BYTES = pa.large_binary()
_ROWS = 50_000
"""Messages of a piece."""
Headers = list[tuple[str, bytes]]
Message = tuple[bytes, bytes | None, Headers, bytes]
"""Key, value (None removes the key), headers of this message alone, and the bytes whose hash gives its partition."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages of a batch in columns: a million of them as Python objects would be work for the garbage collector.

    Attributes:
        change: what the header `change` of all of them says.
        keys: key of each.
        values: value of each, or None if all remove their keys.
        sequences: what the header `sequence` of each says; null, or None for all of them, if there is no such header.
        placed_by: the bytes of each whose hash gives its partition.
    """

    change: bytes
    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray | None
    sequences: pa.LargeBinaryArray | None
    placed_by: pa.LargeBinaryArray

    def __iter__(self) -> Iterator[Message]:
        """Yield each message."""
        change = ("change", self.change)
        columns = (self.keys, self.values, self.sequences, self.placed_by)
        parts = (repeat(None, len(self.keys)) if one is None else one.to_pylist() for one in columns)
        for key, value, sequence, by in zip(*parts, strict=True):
            yield key, value, [change] if sequence is None else [change, ("sequence", sequence)], by


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a batch.

    Attributes:
        batch, fingerprint: the number and fingerprint of the batch.
        keys, columns: the key columns, and all columns, of its rows.
        pieces: upserts, then deletes.
    """

    batch: int
    fingerprint: int
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    pieces: list[Piece]


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
    names = sorted(changes.keys, key=lambda name: (_BOUNDS.index(name) + 1 if name in _BOUNDS else 0, name))
    placing = [name for name in names if by_message or name not in _BOUNDS]
    written = changes.upserts if value is None else changes.upserts.select(names)
    declared_types(written.schema, is_json, "a message in JSON")
    own = None if value is None else _given(changes.upserts, value)
    updates, retracts = _sequences(changes.upserts), _sequences(changes.retracts)
    pieces = list[Piece]()
    for start in range(0, written.num_rows, _ROWS):
        part, sequences = written.slice(start, _ROWS), _slice(updates, start)
        texts = json_values(part)
        keys = json_objects(texts, names)
        values = json_objects(texts, part.column_names) if own is None else _slice(own, start)
        pieces.append(Piece(b"update", keys, values, sequences, _placed_by(texts, placing, keys)))
    for start in range(0, changes.deletes.num_rows, _ROWS):
        texts, sequences = json_values(changes.deletes.slice(start, _ROWS)), _slice(retracts, start)
        keys = json_objects(texts, names)
        pieces.append(Piece(b"retract", keys, None, sequences, _placed_by(texts, placing, keys)))
    columns = tuple(changes.upserts.column_names)
    return Messages(changes.batch, changes.fingerprint, tuple(names), columns, pieces)


def _placed_by(
    texts: Mapping[str, pa.Array], placing: Sequence[str], keys: pa.LargeBinaryArray
) -> pa.LargeBinaryArray:
    return json_objects(texts, placing) if placing else pa.repeat(pa.scalar(b"{}", _BYTES), len(keys))


def _slice(column: pa.ChunkedArray | None, start: int) -> pa.LargeBinaryArray | None:
    return None if column is None else one_array(column.slice(start, _ROWS))


def _sequences(rows: pa.Table | None) -> pa.ChunkedArray | None:
    if rows is None or "sequence" not in rows.column_names:
        return None
    return rows.column("sequence").cast(pa.large_string()).cast(_BYTES)


def _given(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """Return the values of a column that the user has made."""
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
    return column.cast(_BYTES)
