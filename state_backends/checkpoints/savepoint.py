"""Savepoints: state as Parquet files and a JSON header, for any backend, any number of buckets and later versions.

    savepoint.json        the operator, the close time and the list of files; with a checksum
    entries/N-TOKEN.parquet   the entries of one bucket, sorted by the CRC-32 of their keys

The columns of a file: `crc` of the key (int64), `key` (as `serializers.keys` has it), and c0, c1, ... as the entries have them;
objects are msgpack. Rows of one key are in the order of time.
"""

import base64
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from serializers import CorruptDataError
from serializers.arrays import fill
from serializers.columns import ARROW_TYPES, from_arrow, to_arrow
from serializers.keys import crc_range
from serializers.pages import Column
from serializers.shapes import count, instance, int64, refusing, short
from serializers.values import unpack_value
from state_backends.checkpoints.entries_file import read_entries, write_file
from state_backends.checkpoints.stored_bucket import Bucket
from state_backends.durability.folders import Folder, stays_inside
from state_backends.durability.progress import checked_inputs, checked_schema
from state_backends.durability.signed import decode_signed, encode_signed, fetch_checked, file_digest
from state_backends.errors import StateError
from state_backends.store.entries import Entries
from state_backends.store.schema import StoredSchema

SAVEPOINT_VERSION = 1
HEADER = "savepoint.json"
SAVED = pa.schema(
    [
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("digest", pa.string()),
        ("close_time", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
    ]
)
"""The columns in which a task describes the file that it wrote: those of `SavedBucket`."""
_ROWS_AT_ONCE, _KEY_BYTES = 65_536, 64 << 20
_ALL_CRCS = 1 << 32
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class SavedBucket:
    """One bucket's file.

    Attributes:
        file: its name.
        rows: entries in it.
        digest: SHA-256 of its bytes, in hex.
        close_time: that the bucket had reached, in ticks.
        low, high: CRC-32s of the keys in it, from the first to the one after the last.
    """

    file: str
    rows: int
    digest: str
    close_time: int
    low: int = 0
    high: int = _ALL_CRCS

    def table(self) -> pa.Table:
        """Return this as a row of `SAVED`."""
        columns = [pa.array([value], type_) for value, type_ in zip(astuple(self), SAVED.types, strict=True)]
        return pa.Table.from_arrays(columns, schema=SAVED)


@dataclass(frozen=True)
class Savepoint:
    """A savepoint that is complete.

    Attributes:
        uri: its folder.
        identity: what its state depends on, as the operator describes it.
        schema: of its entries.
        close_time: in ticks, from which a new query continues: the latest that any bucket had reached, or with which the next
            batch of the query would have begun.
        buckets: the files.
        origin: of a query, for information: the checkpoint, its batch, and the offsets of the sources; of a local runner, the
            stream time and the highest event times in ticks, from which a new one continues. Of both, `sequence`.
    """

    uri: str
    identity: dict[str, Any]
    schema: StoredSchema
    close_time: int
    buckets: tuple[SavedBucket, ...]
    origin: dict[str, Any]

    def __str__(self) -> str:
        """Return what it is in a few lines: how much it holds, up to when, and from where."""
        (closed,) = self.schema.instants(np.array([self.close_time])).to_pylist()
        said = {
            "closed up to": f"{self.close_time} ticks"
            if closed is None
            else f"{closed:%Y-%m-%d %H:%M:%S} UTC",
            "entries": f"{sum(bucket.rows for bucket in self.buckets):,}",
            "files": len(self.buckets),
            **self.origin,
        }
        lines = [f"{name}: {_cut(str(value))}" for name, value in said.items()]
        return "\n  ".join([f"savepoint {self.uri}", *lines])

    @property
    def sequence(self) -> int:
        """The number of the next batch; the first savepoints have none."""
        return int(self.origin.get("sequence", 0))

    def groups(self, bucket: int, buckets: int) -> Iterator[tuple[int, list[bytes], Entries]]:
        """Yield the entries of one new bucket of `buckets` in parts: the close time of their old bucket, keys, and entries.

        Each part has all entries of its keys that are in an old bucket.

        Raises:
            CorruptDataError: a file is missing, truncated or altered; names it.

        Cost: a file's entries pass through memory some MiB at a time, those of one key together.
        """
        low, high = crc_range(bucket, buckets)
        for saved in self.buckets:
            if saved.rows and low < saved.high and saved.low < high:
                for table in self._read(saved, low, high):
                    yield saved.close_time, *_entries(table, self.schema)

    def _read(self, saved: SavedBucket, low: int, high: int) -> Iterator[pa.Table]:
        """Rows of a file with low <= crc < high."""
        folder = Folder(self.uri)
        where = folder.where(saved.file)
        with tempfile.TemporaryDirectory(prefix="windows-savepoint-") as directory:
            local = Path(directory, "entries.parquet")
            try:
                fetch_checked(folder, saved.file, local, saved.digest, f"the savepoint's file {where}")
            except CorruptDataError as error:
                raise CorruptDataError(f"{error}: restore the file, or write a new savepoint") from error
            try:
                yield from read_entries(local, saved.rows, saved_columns(self.schema), low, high)
            except CorruptDataError as error:
                raise CorruptDataError(f"{where}: {error}") from error


def _entries(table: pa.Table, schema: StoredSchema) -> tuple[list[bytes], Entries]:
    if any(table.column(number).null_count for number in range(table.num_columns)):
        raise CorruptDataError("an entry of a savepoint lacks a value")
    keys, key = _distinct(table.column("key"))
    columns = []
    for number, code in enumerate(schema.layout.codes):
        column = table.column(f"c{number}")
        columns.append(_objects(column) if code == "object" else from_arrow(column, code))
    order = np.lexsort((columns[0], key))
    return keys, Entries(key, tuple(columns)).take(order)


def _distinct(column: pa.ChunkedArray) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    """The distinct values of a column of dictionaries, and which of them each row has."""
    chunks = column.unify_dictionaries().chunks
    numbers = np.concatenate([chunk.indices.to_numpy().astype(np.int64) for chunk in chunks])
    used, key = np.unique(numbers, return_inverse=True)
    values = chunks[-1].dictionary.to_pylist()
    return [values[number] for number in used.tolist()], key.reshape(-1)


def _objects(column: pa.ChunkedArray) -> Column:
    """The objects of a column of dictionaries: each row has its own."""
    found: list[Any] = []
    for chunk in column.chunks:
        values = chunk.dictionary.to_pylist()
        found += [unpack_value(values[number]) for number in chunk.indices.to_pylist()]
    return fill(found)


def check_new(folder: Folder) -> None:
    """Refuse a folder that contains a savepoint.

    Raises:
        StateError: the folder contains one.
    """
    if folder.has(HEADER):
        raise StateError(f"the folder {folder.shown} already contains a savepoint: choose a new folder")


def write_bucket(
    folder: Folder, number: int, bucket: Bucket, form: StoredSchema | None = None
) -> SavedBucket:
    """Write the file of one bucket.

    Args:
        folder: the savepoint's.
        number: of the bucket.
        bucket: its state.
        form: the columns that its entries get, as `common_form` returns them; by default those that the bucket has.

    Cost: its entries are in memory at once; sorted by key.
    """
    form = form or bucket.schema
    stored = list(bucket.entries(form))
    keys = [name for part in stored for name in part.keys]
    before = np.cumsum([0, *(len(part.keys) for part in stored)]).tolist()
    key = np.concatenate(
        [np.empty(0, np.int64), *(part.key + n for part, n in zip(stored, before, strict=False))]
    )
    columns = [np.concatenate(parts) for parts in zip(*(part.columns for part in stored), strict=True)]
    # Stable: segments come in their order, and in each the entries of a key in order of time.
    order = np.argsort(_crcs(keys)[key], kind="stable")
    schema = saved_columns(form)
    tables = saved_entries(keys, key[order], [column[order] for column in columns], schema)
    return write_entries(folder, number, schema, tables, bucket.close_time)


def write_entries(
    folder: Folder, number: int, columns: pa.Schema, tables: Iterable[pa.Table], close_time: int
) -> SavedBucket:
    """Write a file of entries.

    Args:
        folder: the savepoint's.
        number: of the file.
        columns: as `saved_columns` returns them.
        tables: of these columns; sorted by the CRC-32 of the keys, within and one after another.
        close_time: that these entries had reached, in ticks.
    """
    name = f"entries/{number}-{os.urandom(4).hex()}.parquet"
    rows, low, high = 0, _ALL_CRCS, 0

    def counted() -> Iterator[pa.Table]:
        nonlocal rows, low, high
        for table in tables:
            if table.num_rows:
                crc = table.column("crc")
                rows, low, high = rows + table.num_rows, min(low, crc[0].as_py()), crc[-1].as_py() + 1
            yield table

    with tempfile.TemporaryDirectory(prefix="windows-savepoint-") as directory:
        local = Path(directory, "entries.parquet")
        write_file(local, columns, counted())
        folder.write(name, local)
        digest = file_digest(local)
    return SavedBucket(name, rows, digest, close_time, min(low, high), high)


def saved_columns(schema: StoredSchema) -> pa.Schema:
    """Return the columns of a file of entries."""
    columns = [(f"c{n}", ARROW_TYPES[code]) for n, code in enumerate(schema.layout.codes)]
    return pa.schema([("crc", pa.int64()), ("key", pa.binary()), *columns])


def saved_entries(
    keys: Sequence[bytes], key: npt.NDArray[np.int64], columns: Sequence[Column], schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yield entries as tables of the columns of `saved_columns`, so small that Arrow's offsets reach: each row repeats its key.

    Args:
        keys: encoded keys.
        key: shape (n,), int64: position of each entry's key in `keys`.
        columns: of the entries, each of length n.
        schema: the columns.
    """
    ends = np.cumsum(np.fromiter(map(len, keys), np.int64, len(keys))[key])
    begin = 0
    while begin < len(key):
        before = int(ends[begin - 1]) if begin else 0
        end = int(np.searchsorted(ends, before + _KEY_BYTES, "right"))
        end = max(begin + 1, min(end, begin + _ROWS_AT_ONCE))
        distinct, own = np.unique(key[begin:end], return_inverse=True)
        names = [keys[number] for number in distinct.tolist()]
        arrays = [pa.array(_crcs(names)[own]), pa.array(names, pa.binary()).take(pa.array(own))]
        arrays += [to_arrow(column[begin:end]) for column in columns]
        yield pa.Table.from_arrays(arrays, schema=schema)
        begin = end


def _crcs(keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(zlib.crc32, keys), np.int64, len(keys))


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
    crcs = {"low": saved.low, "high": saved.high}
    return {"file": saved.file, "rows": saved.rows, "digest": saved.digest, "close": saved.close_time, **crcs}


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
            f"the folder {folder.shown} contains no savepoint: {HEADER} is missing. It is written last, so the export may be "
            "incomplete"
        )
    what = f"the savepoint's header {folder.where(HEADER)}"
    values = decode_signed(blob, SAVEPOINT_VERSION, what)
    with refusing(what):
        plain = values["schema"] | {"keys": base64.b64decode(values["schema"]["keys"])}
        return Savepoint(
            uri,
            instance(dict, values["identity"]),
            checked_schema(plain),
            int64(values["close"]),
            tuple(_read_bucket(what, **one) for one in values["buckets"]),
            _origin(instance(dict, values["origin"])),
        )


def _origin(origin: dict[str, Any]) -> dict[str, Any]:
    for name in ("stream_time", "highest", "sequence"):
        if origin.get(name) is not None:
            int64(origin[name])
    checked_inputs(origin.get("inputs"))
    return origin


def _read_bucket(
    what: str, file: Any, rows: Any, digest: Any, close: Any, low: Any = 0, high: Any = _ALL_CRCS
) -> SavedBucket:
    """A file as the header has it; the first savepoints did not say which keys are in it."""
    if not stays_inside(instance(str, file)):
        raise CorruptDataError(f"{what} names a file outside its folder: {short(file)}")
    return SavedBucket(file, count(rows), instance(str, digest), int64(close), count(low), count(high))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
