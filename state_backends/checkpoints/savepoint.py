"""Savepoints: state as Parquet files and a JSON header, for any backend, any number of buckets and later versions.

    savepoint.json        what the state is of, up to when, and which files belong to it; with a checksum
    entries/N-TOKEN.parquet   the entries of one bucket, sorted by the CRC-32 of their keys

The columns of a file: `crc` of the key (int64), `key` (as `serializers.keys` has it), and c0, c1, ... as the entries have them;
objects are msgpack. Rows of one key are in the order of time.
"""

import base64
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from serializers import CorruptDataError, pack_value, unpack_value
from serializers.arrays import fill
from serializers.keys import crc_range
from serializers.pages import Column
from state_backends.checkpoints.bucket import Bucket, Stored
from state_backends.durability.folders import Folder
from state_backends.durability.signed import decode_signed, encode_signed
from state_backends.errors import StateError
from state_backends.store.schema import StoredSchema
from state_backends.store.window_store import Entries

SAVEPOINT_VERSION = 1
HEADER = "savepoint.json"
_ARROW = {"i8": pa.int64(), "f8": pa.float64(), "object": pa.binary()}
_ROW_GROUP = 65_536


@dataclass(frozen=True, slots=True)
class SavedBucket:
    """One bucket's file.

    Attributes:
        file: its name.
        rows: entries in it.
        digest: SHA-256 of its bytes, in hex.
        close: close time that the bucket had reached, in ticks.
    """

    file: str
    rows: int
    digest: str
    close: int


@dataclass(frozen=True)
class Savepoint:
    """A savepoint that is complete.

    Attributes:
        uri: its folder.
        identity: what its state depends on, as the operator tells it.
        schema: what its entries are.
        close: close time in ticks that the state counts from: the latest that any bucket or the query had reached.
        buckets: the files.
        origin: of a query, for people: the checkpoint, its batch, and where the sources stood; of a local runner, the stream
            time and the highest event time in ticks, from which a new one goes on.
    """

    uri: str
    identity: dict[str, Any]
    schema: StoredSchema
    close: int
    buckets: tuple[SavedBucket, ...]
    origin: dict[str, Any]

    def groups(self, bucket: int, buckets: int) -> Iterator[tuple[int, list[bytes], Entries]]:
        """Yield the entries of one of so many new buckets: for each old bucket its close time, the keys, and their entries.

        Raises:
            CorruptDataError: a file is not there, truncated or altered; names it.
        """
        low, high = crc_range(bucket, buckets)
        for saved in self.buckets:
            if not saved.rows:
                continue
            table = self._read(saved, low, high)
            if table.num_rows:
                yield saved.close, *_entries(table, self.schema)

    def _read(self, saved: SavedBucket, low: int, high: int) -> pa.Table:
        """Rows of a file with low <= crc < high."""
        folder = Folder(self.uri)
        where = folder.where(saved.file)
        with tempfile.TemporaryDirectory(prefix="windows-savepoint-") as directory:
            local, found = Path(directory, "entries.parquet"), hashlib.sha256()
            if not folder.fetch(saved.file, local, found.update):
                raise CorruptDataError(
                    f"the savepoint's file {where} is not there: bring it back, or make a new savepoint"
                )
            if found.hexdigest() != saved.digest:
                raise CorruptDataError(
                    f"the savepoint's file {where} is truncated or altered: bring it back, or make a new savepoint"
                )
            return pq.read_table(local, filters=(pc.field("crc") >= low) & (pc.field("crc") < high))


def _entries(table: pa.Table, schema: StoredSchema) -> tuple[list[bytes], Entries]:
    encoded = table.column("key").combine_chunks().dictionary_encode()
    key = encoded.indices.to_numpy().astype(np.int64)
    codes = schema.layout.codes
    columns = tuple(_column(table.column(f"c{n}"), code) for n, code in enumerate(codes))
    order = np.lexsort((columns[0], key))
    return encoded.dictionary.to_pylist(), Entries(key, columns).take(order)


def _column(column: pa.ChunkedArray, code: str) -> Column:
    if code == "object":
        return fill([unpack_value(value) for value in column.to_pylist()])
    return column.to_numpy()


def check_new(folder: Folder) -> None:
    """Refuse a folder that has a savepoint.

    Raises:
        StateError: it has.
    """
    if folder.has(HEADER):
        raise StateError(f"there is a savepoint in {folder.uri} already: name a new folder")


def write_bucket(folder: Folder, number: int, bucket: Bucket) -> SavedBucket:
    """Write the file of one bucket.

    Cost: its entries are in memory at once; sorted by key.
    """
    name = f"entries/{number}-{os.urandom(4).hex()}.parquet"
    table = pa.concat_tables(
        [_table(stored, bucket.schema) for stored in bucket.entries()] or [_empty(bucket.schema)]
    )
    with tempfile.TemporaryDirectory(prefix="windows-savepoint-") as directory:
        local = Path(directory, "entries.parquet")
        # Stable by segments, which come in their order: a key's entries stay sorted by time.
        rows = table.take(pc.sort_indices(table.column("crc"))) if table.num_rows else table
        pq.write_table(rows, local, row_group_size=_ROW_GROUP, compression="zstd")
        folder.write(name, local)
        digest = hashlib.sha256(local.read_bytes()).hexdigest()
    return SavedBucket(name, table.num_rows, digest, bucket.close)


def _fields(schema: StoredSchema) -> pa.Schema:
    columns = [(f"c{n}", _ARROW[code]) for n, code in enumerate(schema.layout.codes)]
    return pa.schema([("crc", pa.int64()), ("key", pa.binary()), *columns])


def _empty(schema: StoredSchema) -> pa.Table:
    return _fields(schema).empty_table()


def _table(stored: Stored, schema: StoredSchema) -> pa.Table:
    crcs = np.fromiter(map(zlib.crc32, stored.keys), np.int64, len(stored.keys))
    arrays = [pa.array(crcs[stored.key]), pa.array(stored.keys, pa.binary()).take(pa.array(stored.key))]
    for code, column in zip(schema.layout.codes, stored.columns, strict=True):
        values = [pack_value(value) for value in column.tolist()] if code == "object" else column
        arrays.append(pa.array(values, _ARROW[code]))
    return pa.Table.from_arrays(arrays, schema=_fields(schema))


def write_header(
    folder: Folder,
    identity: dict[str, Any],
    schema: StoredSchema,
    close: int,
    buckets: Iterable[SavedBucket],
    origin: dict[str, Any],
) -> Savepoint:
    """Write the header, which makes a savepoint of the files that are there.

    Args:
        folder: the savepoint's.
        identity, schema, origin: see `Savepoint`.
        close: the latest close time that is known, in ticks.
        buckets: the files.
    """
    saved = tuple(buckets)
    latest = max([close, *(one.close for one in saved)])
    plain = schema.plain() | {"keys": base64.b64encode(schema.plain()["keys"]).decode()}
    values = {
        "identity": identity,
        "schema": plain,
        "close": latest,
        "buckets": [asdict(one) for one in saved],
        "origin": origin,
    }
    folder.write(HEADER, encode_signed(values, SAVEPOINT_VERSION))
    return Savepoint(folder.uri, identity, schema, latest, saved, origin)


def read_header(uri: str) -> Savepoint:
    """Return the savepoint of a folder.

    Raises:
        StateError: there is none, or the storage fails.
        CorruptDataError: its header is damaged; names it.
        NewerFormatError: a newer version wrote it.
    """
    folder = Folder(uri)
    blob = folder.read(HEADER)
    if blob is None:
        raise StateError(
            f"there is no savepoint in {uri}: {HEADER} is missing. It is written last, so the export may not have ended"
        )
    values = decode_signed(blob, SAVEPOINT_VERSION, f"the savepoint's header {folder.where(HEADER)}")
    plain = values["schema"] | {"keys": base64.b64decode(values["schema"]["keys"])}
    return Savepoint(
        uri,
        values["identity"],
        StoredSchema.of(plain),
        values["close"],
        tuple(SavedBucket(**one) for one in values["buckets"]),
        values["origin"],
    )
