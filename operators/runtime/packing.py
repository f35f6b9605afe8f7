"""Rows in and out of buckets as Arrow IPC blobs: one row per bucket and task crosses Spark's shuffle, not one per record."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.batch import number_keys
from operators.program import Program
from serializers.keys import NO_COLUMNS, encode_keys

PACKED = pa.schema([("bucket", pa.int32()), ("rows", pa.int64()), ("bad", pa.int64()), ("blob", pa.binary())])
PACKED_DDL = "bucket int, rows bigint, bad bigint, blob binary"
RESULT_DDL = "bucket int, rows bigint, late bigint, windows bigint, blob binary"
_ROWS_PER_BLOB = 250_000


def to_blob(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_blobs(blobs: Iterable[bytes], schema: pa.Schema | None = None) -> pa.Table:
    """Return the rows of all blobs as one table; without any, an empty table of the schema."""
    tables = [pa.ipc.open_stream(blob).read_all() for blob in blobs]
    return pa.concat_tables(tables) if tables else (schema or pa.schema([])).empty_table()


def partition_labels(count: int) -> list[int]:
    """Return one bucket label per shuffle partition, such that Spark's hash puts each on a partition of its own."""
    labels: dict[int, int] = {}
    candidate = 0
    while len(labels) < count:
        labels.setdefault(spark_hash(candidate) % count, candidate)
        candidate += 1
    return [labels[partition] for partition in range(count)]


def spark_hash(number: int) -> int:
    """Return Spark's hash of an int column: Murmur3 x86 32-bit of its 4 bytes with seed 42, signed."""
    k = number * 0xCC9E2D51 & 0xFFFFFFFF
    k = _rotated(k, 15) * 0x1B873593 & 0xFFFFFFFF
    h = _rotated(42 ^ k, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (h >> 31 << 32)


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & 0xFFFFFFFF


@dataclass(frozen=True)
class Pack:
    """Puts a task's rows into buckets by the hash of their key.

    Attributes:
        program: names the columns.
        labels: one bucket label per slice of the key space.
    """

    program: Program
    labels: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row per bucket for every some hundred thousand rows."""
        for table in gathered(batches, _ROWS_PER_BLOB):
            yield self._packed(table.rename_columns(self.program.inputs))

    def _packed(self, table: pa.Table) -> pa.RecordBatch:
        table, bad = self.program.records.usable(table)
        slot = self._slots(table)
        order = np.argsort(slot, kind="stable")
        edges = np.searchsorted(slot[order], np.arange(len(self.labels) + 1))
        table = table.take(pa.array(order)) if len(self.labels) > 1 else table
        rows: list[tuple[int, int, int, bytes | None]] = [
            (label, int(end - start), 0, to_blob(table.slice(start, end - start)))
            for label, start, end in zip(self.labels, edges[:-1], edges[1:], strict=True)
            if end > start
        ]
        if bad:
            rows.append((self.labels[0], 0, bad, None))
        columns = list(zip(*rows, strict=True)) or [()] * len(PACKED)
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, PACKED.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=PACKED)

    def _slots(self, table: pa.Table) -> npt.NDArray[Any]:
        number, distinct = number_keys([table.column(name) for name in self.program.group_by], table.num_rows)
        keys = encode_keys(distinct) if distinct else [NO_COLUMNS]
        small = np.uint16 if len(self.labels) < 2**16 else np.uint32  # 16 bits are sorted by counting
        slots = np.fromiter((zlib.crc32(key) % len(self.labels) for key in keys), small, len(keys))
        return slots[number]


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield the batches joined to tables of at least so many rows, the last one of what is left."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(waiting)
            waiting, count = [], 0
    if count:
        yield pa.Table.from_batches(waiting)


@dataclass(frozen=True)
class Unpack:
    """Turns result blobs into rows.

    Attributes:
        schema: the rows' Arrow schema.
    """

    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each blob."""
        for batch in batches:
            for blob in batch.column("blob"):
                if blob.is_valid:
                    yield from pa.ipc.open_stream(blob.as_buffer())
