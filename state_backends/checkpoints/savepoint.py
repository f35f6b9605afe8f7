"""Savepoints: state as Parquet files and a JSON header, for any backend, any number of buckets and later versions.

    savepoint.json        the operator, the close time and the list of files; with a checksum
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from serializers import CorruptDataError
from serializers.columns import ARROW_TYPES, from_arrow, to_arrow
from serializers.keys import crc_range
from state_backends.checkpoints.bucket import Bucket, EntryBatch
from state_backends.durability.folders import Folder
from state_backends.durability.signed import decode_signed, encode_signed, fetch_checked
from state_backends.errors import StateError
from state_backends.store.schema import StoredSchema
from state_backends.store.window_store import Entries

SAVEPOINT_VERSION = 1
HEADER = "savepoint.json"
_ROW_GROUP = 65_536


@dataclass(frozen=True, slots=True)
class SavedBucket:
    """One bucket's file.

    Attributes:
        file: its name.
        rows: entries in it.
        digest: SHA-256 of its bytes, in hex.
        close_time: that the bucket had reached, in ticks.
    """

    file: str
    rows: int
    digest: str
    close_time: int


@dataclass(frozen=True)
class Savepoint:
    """A savepoint that is complete.

    Attributes:
        uri: its folder.
        identity: what its state depends on, as the operator describes it.
        schema: of its entries.
        close_time: in ticks, from which a new query continues: the latest that any bucket or the query had reached.
        buckets: the files.
        origin: of a query, for information: the checkpoint, its batch, and the offsets of the sources; of a local runner, the
            stream time and the highest event time in ticks, from which a new one continues.
    """

    uri: str
    identity: dict[str, Any]
    schema: StoredSchema
    close_time: int
    buckets: tuple[SavedBucket, ...]
    origin: dict[str, Any]

    def groups(self, bucket: int, buckets: int) -> Iterator[tuple[int, list[bytes], Entries]]:
        """Yield the entries of one new bucket of `buckets`: for each old bucket its close time, the keys, and their entries.

        Raises:
            CorruptDataError: a file is missing, truncated or altered; names it.
        """
        low, high = crc_range(bucket, buckets)
        for saved in self.buckets:
            if not saved.rows:
                continue
            table = self._read(saved, low, high)
            if table.num_rows:
                yield saved.close_time, *_entries(table, self.schema)

    def _read(self, saved: SavedBucket, low: int, high: int) -> pa.Table:
        """Rows of a file with low <= crc < high."""
        folder = Folder(self.uri)
        where = folder.where(saved.file)
        with tempfile.TemporaryDirectory(prefix="windows-savepoint-") as directory:
            local = Path(directory, "entries.parquet")
            try:
                fetch_checked(folder, saved.file, local, saved.digest, f"the savepoint's file {where}")
            except CorruptDataError as error:
                raise CorruptDataError(f"{error}: restore the file, or write a new savepoint") from error
            return pq.read_table(local, filters=(pc.field("crc") >= low) & (pc.field("crc") < high))


def _entries(table: pa.Table, schema: StoredSchema) -> tuple[list[bytes], Entries]:
    encoded = table.column("key").combine_chunks().dictionary_encode()
    key = encoded.indices.to_numpy().astype(np.int64)
    codes = schema.layout.codes
    columns = tuple(from_arrow(table.column(f"c{n}"), code) for n, code in enumerate(codes))
    order = np.lexsort((columns[0], key))
    return encoded.dictionary.to_pylist(), Entries(key, columns).take(order)


def check_new(folder: Folder) -> None:
    """Refuse a folder that contains a savepoint.

    Raises:
        StateError: the folder contains one.
    """
    if folder.has(HEADER):
        raise StateError(f"the folder {folder.uri} already contains a savepoint: choose a new folder")


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
    return SavedBucket(name, table.num_rows, digest, bucket.close_time)


def _fields(schema: StoredSchema) -> pa.Schema:
    columns = [(f"c{n}", ARROW_TYPES[code]) for n, code in enumerate(schema.layout.codes)]
    return pa.schema([("crc", pa.int64()), ("key", pa.binary()), *columns])


def _empty(schema: StoredSchema) -> pa.Table:
    return _fields(schema).empty_table()


def _table(stored: EntryBatch, schema: StoredSchema) -> pa.Table:
    crcs = np.fromiter(map(zlib.crc32, stored.keys), np.int64, len(stored.keys))
    arrays = [pa.array(crcs[stored.key]), pa.array(stored.keys, pa.binary()).take(pa.array(stored.key))]
    arrays += map(to_arrow, stored.columns)
    return pa.Table.from_arrays(arrays, schema=_fields(schema))


def write_header(
    folder: Folder,
    identity: dict[str, Any],
    schema: StoredSchema,
    close_time: int,
    buckets: Iterable[SavedBucket],
    origin: dict[str, Any],
) -> Savepoint:
    """Write the header, which completes a savepoint.

    Args:
        folder: the savepoint's.
        identity, schema, origin: see `Savepoint`.
        close_time: the latest that is known, in ticks.
        buckets: the files.
    """
    saved = tuple(buckets)
    latest = max([close_time, *(one.close_time for one in saved)])
    plain = schema.plain() | {"keys": base64.b64encode(schema.plain()["keys"]).decode()}
    values = {
        "identity": identity,
        "schema": plain,
        "close": latest,
        "buckets": [_plain(one) for one in saved],
        "origin": origin,
    }
    folder.write(HEADER, encode_signed(values, SAVEPOINT_VERSION))
    return Savepoint(folder.uri, identity, schema, latest, saved, origin)


def _plain(saved: SavedBucket) -> dict[str, Any]:
    return {"file": saved.file, "rows": saved.rows, "digest": saved.digest, "close": saved.close_time}


def read_header(uri: str) -> Savepoint:
    """Return the savepoint of a folder.

    Raises:
        StateError: the folder contains none, or the storage fails.
        CorruptDataError: its header is damaged; names it.
        NewerFormatError: a newer version wrote it.
    """
    folder = Folder(uri)
    blob = folder.read(HEADER)
    if blob is None:
        raise StateError(
            f"the folder {uri} contains no savepoint: {HEADER} is missing. It is written last, so the export may be incomplete"
        )
    values = decode_signed(blob, SAVEPOINT_VERSION, f"the savepoint's header {folder.where(HEADER)}")
    plain = values["schema"] | {"keys": base64.b64decode(values["schema"]["keys"])}
    return Savepoint(
        uri,
        values["identity"],
        StoredSchema.from_plain(plain),
        values["close"],
        tuple(
            SavedBucket(one["file"], one["rows"], one["digest"], one["close"]) for one in values["buckets"]
        ),
        values["origin"],
    )
