"""A savepoint of a stopped query, made from its checkpoint."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from state_backends.checkpoints.bucket import Bucket
from state_backends.checkpoints.query import stored_query
from state_backends.checkpoints.reading import (
    Checkpoint,
    agreed,
    by_bucket,
    journal_rows,
    pointers,
    stored_schema,
)
from state_backends.checkpoints.savepoint import (
    SAVED,
    SavedBucket,
    Savepoint,
    check_new,
    write_bucket,
    write_header,
)
from state_backends.durability.folders import Folder, absolute
from state_backends.durability.progress import FAR_PAST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SaveBucket:
    """Writes one bucket's entries into a savepoint.

    Attributes:
        checkpoint: where they are.
        uri: the savepoint's folder.
    """

    checkpoint: Checkpoint
    uri: str

    def __call__(self, number: int, bucket: Bucket) -> Iterator[pa.Table]:
        """Yield one row that describes what was written."""
        yield write_bucket(Folder(self.uri), number, bucket).table()


def write_savepoint(
    checkpoint: str | Path,
    folder: str | Path,
    backend: str | None = None,
    batch: int | None = None,
    *,
    operator: int = 0,
    snapshots: str | None = None,
    spark: "SparkSession | None" = None,
) -> Savepoint:
    """Write the state of a stopped query to a folder, for a new query to start from by the option `state.savepoint`.

    The new query may have another backend, another number of buckets and a later version of the code. It reads its sources
    from where the old one stopped: the savepoint's `origin` has the offsets in the checkpoint.

    Args:
        checkpoint: the query's checkpoint folder; nothing in it is changed.
        folder: a new folder, as a path or URI that all workers can access.
        backend, batch, operator, snapshots, spark: as for `read_state`.

    Raises:
        StateError: the checkpoint has no state of windows, or the folder already contains a savepoint.
        CorruptDataError: the state is damaged; names the file or blob.

    Cost: each bucket's state passes through one task's memory.
    """
    target = Folder(absolute(folder))
    check_new(target)
    found = Checkpoint(absolute(checkpoint), backend, batch, operator, snapshots)
    rows = journal_rows(found, spark)
    every = pointers(rows)
    pointer = agreed(found, every)
    schema, identity = stored_schema(pointer), pointer.progress.identity or {}
    saved = by_bucket(rows, SaveBucket(found, target.uri), SAVED).collect()
    origin = _origin(found)
    origin["sequence"] = max(each.progress.sequence for each in every)
    watermark = origin.get("watermark in ms") or 0
    close_time = watermark * 1_000 // schema.tick_us if watermark > 0 else FAR_PAST
    return write_header(target, identity, schema, close_time, [SavedBucket(*row) for row in saved], origin)


def _origin(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the files of the checkpoint say: its last batch, the watermark after it, and the offsets of the sources."""
    query = stored_query(checkpoint.path, checkpoint.batch)
    return {
        "checkpoint": checkpoint.path,
        "batch": query.batch,
        "watermark in ms": query.watermark_ms,
        "sources": query.sources,
    }
