"""A savepoint of a stopped query, made from its checkpoint."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from state_backends.checkpoints.forms import common_form, since_in
from state_backends.checkpoints.query import stored_query
from state_backends.checkpoints.reading import (
    Checkpoint,
    by_bucket,
    journal_rows,
    pointers,
)
from state_backends.checkpoints.saved_files import SAVED, SavedFile
from state_backends.checkpoints.savepoint import Savepoint, check_new, write_bucket, write_header
from state_backends.checkpoints.stored_bucket import Bucket
from state_backends.durability.folders import Folder, absolute
from state_backends.durability.pointer import Pointer
from state_backends.durability.progress import FAR_PAST, close_time_at
from state_backends.errors import StateError
from state_backends.store.schema import StoredSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SaveBucket:
    """Writes one bucket's entries into a savepoint.

    Attributes:
        checkpoint: where they are.
        uri: the savepoint's folder.
        form: the columns that they get.
    """

    checkpoint: Checkpoint
    uri: str
    form: StoredSchema

    def __call__(self, number: int, bucket: Bucket) -> Iterator[pa.Table]:
        """Yield a row that describes each file."""
        for file in write_bucket(Folder(self.uri), number, bucket, self.form):
            yield file.table()


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
        StateError: the checkpoint has no state of windows, or the folder already contains a savepoint, or the query has
            committed another batch meanwhile, so that it runs. With `batch`, it may run.
        CorruptDataError: the state is damaged; names the file or blob.

    Cost: each bucket's state passes through one task's memory.
    """
    target = Folder(absolute(folder))
    check_new(target)
    path = absolute(checkpoint)
    # Everything is read at one batch: its state, its watermark and its offsets belong together.
    query = stored_query(path, batch)
    found = Checkpoint(path, backend, query.batch, operator, snapshots)
    rows = journal_rows(found, spark)
    every = pointers(rows, path)
    form = common_form(path, every)
    saved = by_bucket(rows, SaveBucket(found, target.uri, form.schema), SAVED).collect()
    if batch is None:
        _check_stopped(path, query.batch)
    origin = {
        "checkpoint": path,
        "batch": query.batch,
        "watermark in ms": query.watermark_ms,
        "sources": query.sources,
        "sequence": max(each.progress.sequence for each in every),
        **since_in(every),
    }
    next_close_time = _close_time(every, query.watermark_ms or 0, form.schema.tick_us)
    close_time = max([next_close_time, *(each.progress.close_time for each in every)])
    files = [SavedFile(*row) for row in saved]
    return write_header(target, form.identity, form.schema, close_time, files, origin)


def _check_stopped(path: str, batch: int) -> None:
    """Refuse a query that has committed a batch since: it runs, and the caller believes that it is stopped."""
    last = stored_query(path).batch
    if last != batch:
        raise StateError(
            f"the query of {path} is running: batch {last} was committed while the state after batch {batch} was read. "
            f"Stop the query first, or give batch={batch}, and another folder"
        )


def _close_time(found: Sequence[Pointer], watermark_ms: int, tick_us: int) -> int:
    """The close time in ticks with which the query would begin its next batch, as far as Spark's watermark tells it.

    The rows of a chained operator may be earlier than the watermark. It goes on from the close time of its buckets.
    """
    behind = [pointer.progress.behind for pointer in found if pointer.progress.behind is not None]
    return close_time_at(watermark_ms, max(behind), tick_us) if behind else FAR_PAST
