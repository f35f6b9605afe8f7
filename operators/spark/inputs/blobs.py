"""Rows between Spark and Python, some MiB at a time, however wide they are.

The JVM has each value, and each Arrow batch, in its memory as a whole, several times over. So no blob, and no batch of rows,
is much larger than these limits, unless a single row is.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from operators.spark.inputs.spool import Spool
from serializers.arrays import cut_rows, row_bytes

BLOB_BYTES, BLOB_ROWS = 8 << 20, 250_000
"""Bytes and rows of a blob, or of a batch of rows for Spark, at most, about."""
AT_ONCE_BYTES = 64 << 20
"""Bytes of rows or blobs that are worked on together; as many are read ahead. Spark's own Arrow batches are as large."""


def cut(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of a table of any size, some at a time: no more than makes a blob, but at least one.

    Where it is cut depends on the rows alone: a task that runs again has to send the same blobs.

    Cost: nothing is copied; O(rows) array work.
    """
    for first, last in cut_rows(row_bytes(table), BLOB_BYTES, BLOB_ROWS):
        yield table.slice(first, last - first)


def to_batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield a table of any size as batches for Spark."""
    for part in cut(table):
        yield from part.to_batches()


def to_blobs(table: pa.Table) -> Iterator[bytes]:
    """Yield a table of any size as Arrow IPC streams, some of its rows in each."""
    return map(_to_blob, cut(table))


def from_blobs(blobs: Iterable[bytes]) -> list[pa.Table]:
    """Return the table in each blob; of those in a file nothing is read yet."""
    if isinstance(blobs, Spool):
        blobs = blobs.map_blobs()
    return [pa.ipc.open_stream(blob).read_all() for blob in blobs]


def _to_blob(table: pa.Table) -> bytes:
    sizing = pa.MockOutputStream()
    with pa.ipc.new_stream(sizing, table.schema) as writer:
        writer.write_table(table)
    blob = pa.allocate_buffer(sizing.size())
    with pa.FixedSizeBufferWriter(blob) as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return blob.to_pybytes()
