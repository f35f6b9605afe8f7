"""The state of a stopped query as DataFrames, from its checkpoint alone, which is not changed."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from state_backends.checkpoints.forms import Form, common_form
from state_backends.checkpoints.labels import bucket_number
from state_backends.checkpoints.metadata import (
    JOURNAL_VARIABLE,
    NoBatchError,
    lost_state,
    moved_error,
    named_commits_error,
    spark_errors,
    unreadable,
)
from state_backends.checkpoints.open_bucket import journal_from_parts, open_bucket
from state_backends.checkpoints.query import last_batch
from state_backends.checkpoints.sizes import segment_sizes
from state_backends.checkpoints.spark_files import damaged_file
from state_backends.checkpoints.stored_bucket import Bucket
from state_backends.durability.folders import absolute
from state_backends.durability.pointer import Pointer
from state_backends.errors import StateError
from state_backends.store.schema import StoredSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@+,~")
SUMMARY = pa.schema(
    [
        ("bucket", pa.int32()),
        ("segment", pa.int64()),
        ("start", pa.timestamp("us", "UTC")),
        ("end", pa.timestamp("us", "UTC")),
        ("keys", pa.int64()),
        ("panes", pa.int64()),
        ("bytes", pa.int64()),
        ("oldest", pa.timestamp("us", "UTC")),
        ("newest", pa.timestamp("us", "UTC")),
        ("close_time", pa.timestamp("us", "UTC")),
        ("stream_time", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class Checkpoint:
    """The place that state is read from.

    Attributes:
        path: the query's checkpoint folder.
        backend: name of the backend to open state with; None for one that can open it.
        batch: number of the batch whose state is read; None for the last committed one.
        operator: number of the operator among those with state in the query's plan, from 0: Spark counts from the sink.
        snapshots: folder to look for snapshots in before the one that they were written to.
    """

    path: str
    backend: str | None = None
    batch: int | None = None
    operator: int = 0
    snapshots: str | None = None


def read_state(
    checkpoint: str | Path,
    backend: str | None = None,
    batch: int | None = None,
    *,
    operator: int = 0,
    snapshots: str | None = None,
    spark: "SparkSession | None" = None,
) -> "DataFrame":
    """Return the stored panes or windows of a stopped query: one row each, by key and time.

    Columns: the keys; what the window kind stores about time (`time` of a pane; `start` and `end` of a session); a struct for
    each result, by its name in that batch, with the states that it is made from. Values that have no SQL type are JSON.

    Args:
        checkpoint: the query's checkpoint folder; nothing in it is changed.
        backend: name of the backend to open state with; needed for snapshots of a third-party backend.
        batch: number of the batch whose state is read; by default the last committed one.
        operator: number of the operator among those with state in the query's plan, from 0: Spark counts from the sink.
        snapshots: folder of the snapshots, if it was moved since.
        spark: the session; the active one by default.

    Raises:
        StateError: the checkpoint has no state of windows, or none of that batch.
        CorruptDataError: it is damaged; names the file or blob.

    Cost: each bucket's state passes through one task's memory.
    """
    found = Checkpoint(absolute(checkpoint), backend, batch, operator, snapshots)
    rows, form = journals(found, spark)
    return by_bucket(rows, ReadRows(found, form.schema), form.schema.readable)


def summarize_state(
    checkpoint: str | Path,
    backend: str | None = None,
    batch: int | None = None,
    *,
    operator: int = 0,
    snapshots: str | None = None,
    spark: "SparkSession | None" = None,
) -> "DataFrame":
    """Return how much a stopped query stores: one row for each bucket and segment of time, and one for each empty bucket.

    Columns: bucket; segment, its start and end; keys, panes (or windows), bytes before compression; oldest and newest time; the
    bucket's close time (what closed before it is final) and stream time (close time and grace).

    Args, errors and cost: as `read_state`.
    """
    found = Checkpoint(absolute(checkpoint), backend, batch, operator, snapshots)
    rows, _ = journals(found, spark)
    return by_bucket(rows, Summarize(found), SUMMARY)


@dataclass(frozen=True)
class ReadRows:
    """Reads one bucket's entries.

    Attributes:
        checkpoint: the checkpoint of the state.
        schema: the schema of the rows; see `common_form`.
    """

    checkpoint: Checkpoint
    schema: StoredSchema

    def __call__(self, number: int, bucket: Bucket) -> Iterator[pa.Table]:
        """Yield the entries in tables."""
        del number
        for stored in bucket.entries(self.schema):
            yield self.schema.table(stored.keys, stored.key, stored.columns)


@dataclass(frozen=True)
class Summarize:
    """Sums up one bucket, segment by segment.

    Attributes:
        checkpoint: the checkpoint of the state.
    """

    checkpoint: Checkpoint

    def __call__(self, number: int, bucket: Bucket) -> Iterator[pa.Table]:
        """Yield a row for each segment."""
        number = bucket_number(number, bucket.pointer.progress.buckets)
        sizes = segment_sizes(bucket.entries())
        length = bucket.schema.segment
        close_time = bucket.close_time
        ends = [close_time, close_time + bucket.schema.grace]
        for size in sizes:
            first = size.segment * length
            rest = [size.keys, size.panes, size.size, size.oldest, size.newest]
            yield _summary(bucket.schema, [number, size.segment, first, first + length - 1, *rest, *ends])
        if not sizes:
            yield _summary(bucket.schema, [number, None, None, None, 0, 0, 0, None, None, *ends])


def _summary(schema: StoredSchema, values: list[int | None]) -> pa.Table:
    arrays = []
    for value, type_ in zip(values, SUMMARY.types, strict=True):
        if pa.types.is_timestamp(type_) and value is not None:
            arrays.append(schema.instants(np.array([value])))
        else:
            arrays.append(pa.array([value], type_))
    return pa.Table.from_arrays(arrays, schema=SUMMARY)


def journals(checkpoint: Checkpoint, spark: "SparkSession | None") -> "tuple[DataFrame, Form]":
    """Return each bucket's blobs as rows of bucket, name, part and blob, and the form in which all buckets can be read.

    Raises:
        StateError: the checkpoint has no state of windows, or its buckets have different ones.
    """
    rows = journal_rows(checkpoint, spark)
    return rows, common_form(checkpoint.path, pointers(rows, checkpoint.path))


def journal_rows(checkpoint: Checkpoint, spark: "SparkSession | None") -> "DataFrame":
    """Return each bucket's journal: rows of bucket, name, part and blob."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

    spark = spark or SparkSession.active()
    reader = spark.read.format("statestore").option("stateVarName", JOURNAL_VARIABLE)
    reader = reader.option("operatorId", str(checkpoint.operator))
    if checkpoint.batch is not None:
        reader = reader.option("batchId", str(checkpoint.batch))
    path = plain_path(checkpoint.path)
    try:
        rows = reader.load(path)
        _ = rows.schema  # Spark Connect reads the state only on the first request
    except spark_errors() as error:
        if (reason := moved_error(error, checkpoint.path)) is not None:
            raise reason from error
        if not isinstance(error, PySparkException):  # of Java, about a file of Spark's
            raise _damaged(error, checkpoint.path) from error
        reason = unreadable(path, checkpoint.operator, checkpoint.batch, error, spark, checkpoint.path)
        if not isinstance(reason, NoBatchError) and damaged_file(checkpoint.path) is not None:
            reason = _damaged(error, checkpoint.path)
        raise reason from error
    return rows.select(
        F.col("key.bucket").alias("bucket"),
        F.col("user_map_key.name").alias("name"),
        F.col("user_map_key.part").alias("part"),
        F.col("user_map_value.blob").alias("blob"),
    )


def _damaged(error: Exception, path: str) -> StateError:
    """The error to raise for one of Spark or Java about files of a checkpoint."""
    why = damaged_file(path) or lost_state(str(error), path, last=last_batch)
    if why is None:
        text = str(error).partition("\n\tat ")[0].partition("\n\nJVM stacktrace")[0]
        why = f"its files are damaged or are not Spark's: {text}"
    return StateError(f"the state in {path} cannot be read. {why[:1].upper()}{why[1:]}")


def plain_path(path: str) -> str:
    """The path, or a link to it: Spark's reader of state fails on spaces and some other characters in a path."""
    if "://" in path or set(path) <= _PLAIN:
        return path
    directory = tempfile.mkdtemp(prefix="windows-checkpoint-")
    # The DataFrame reads it each time that its rows are computed.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    link = Path(directory, "checkpoint")
    link.symlink_to(Path(path.removeprefix("file:")), target_is_directory=True)
    return str(link)


def pointers(rows: "DataFrame", path: str) -> list[Pointer]:
    """Return the pointer of each bucket. A pointer is small and has one part.

    Args:
        rows: as `journal_rows` has them.
        path: the path of the checkpoint, for messages.

    Raises:
        StateError: this version of Spark cannot read the checkpoint's format, or one of Spark's files is damaged or missing.
    """
    try:
        found = rows.where("name = 'pointer'").select("blob").collect()
    except spark_errors() as error:
        if (reason := named_commits_error(error)) is not None:
            raise reason from error
        raise _damaged(error, path) from error
    return [Pointer.decode(bytes(row.blob)) for row in found]


def by_bucket(rows: "DataFrame", reader: Any, schema: pa.Schema) -> "DataFrame":
    """Return the tables of a reader for all buckets.

    Args:
        rows: as `journal_rows` has them.
        reader: has a `checkpoint`, and yields tables when called with a bucket's number and the bucket.
        schema: the schema of these tables.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    checkpoint = reader.checkpoint

    def read(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        blobs = zip(*(rows.column(name).to_pylist() for name in ("name", "part", "blob")), strict=True)
        with open_bucket(journal_from_parts(blobs), checkpoint.backend, checkpoint.snapshots) as bucket:
            tables = list(reader(key[0].as_py(), bucket))
        return pa.concat_tables(tables) if tables else schema.empty_table()

    return rows.groupBy("bucket").applyInArrow(read, from_arrow_schema(schema, prefer_timestamp_ntz=True))
