"""All pages of a query's state, for a table that lacks some of its batches."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from operators.runtime.binding import Binding
from operators.runtime.page_places import PAGE_ROWS
from operators.runtime.page_rows import all_pages, check_published, in_parts
from operators.spark.base.inside import checkpoint_of, query_id
from state_backends import WindowStore
from state_backends.checkpoints.labels import bucket_number
from state_backends.checkpoints.reading import Checkpoint, by_bucket, journals
from state_backends.checkpoints.stored_bucket import Bucket
from state_backends.errors import StateError

PART_BYTES = 4 << 20
"""Of the rows that the driver has at a time."""
_PARTS = pa.schema([("rows", pa.binary())])


@dataclass(frozen=True)
class ReadPages:
    """Reads the pages of one bucket.

    Attributes:
        checkpoint: the checkpoint of the state.
        binding: the binding of the operator.
    """

    checkpoint: Checkpoint
    binding: Binding

    def __call__(self, number: int, bucket: Bucket) -> Iterator[pa.Table]:
        """Yield the pages as rows of one column, each with the bytes of a table of some of them."""
        number = bucket_number(number, bucket.pointer.progress.buckets)
        check_published(bucket.schema, self.binding.stored_schema())
        plan = self.binding.plan
        store = WindowStore(bucket.backend, plan.layout, bucket.schema.segment)
        for part in in_parts(all_pages(store, plan.summed, number, bucket), PART_BYTES):
            yield pa.table([[_encoded(part)]], _PARTS)


@dataclass(frozen=True)
class WholeState:
    """Reads all pages of the query of which `foreachBatch` is called.

    Attributes:
        spark: the session in which the query was started; batches have another one, which does not know the query.
        binding: the binding of its operator.
        snapshots: the folder of its snapshots; None if there is none.
    """

    spark: SparkSession
    binding: Binding
    snapshots: str | None

    def __call__(self, rows: DataFrame, batch: int) -> Iterator[pa.Table]:
        """Yield the pages as the batch before has left them, in parts. The JVM of the driver has those of one task at a time.

        Spark reads only what is committed, which the batch itself is not yet.
        """
        spark = rows.sparkSession
        query = query_id(spark)
        path = None if query is None else checkpoint_of(self.spark, query)
        if path is None:
            raise StateError(
                "the checkpoint of the query cannot be found, and the table of pages lacks some of its batches: start the "
                "query with a new checkpoint, from a savepoint of this one"
            )
        checkpoint = Checkpoint(path, batch=batch - 1, snapshots=self.snapshots)
        found, _ = journals(checkpoint, spark)
        for row in by_bucket(found, ReadPages(checkpoint, self.binding), _PARTS).toLocalIterator():
            with pa.ipc.open_stream(pa.py_buffer(row.rows)) as reader:
                yield reader.read_all()


def _encoded(rows: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, PAGE_ROWS) as writer:
        writer.write_table(rows)
    return bytes(out.getvalue())
