"""What the open windows of a stopped query hold, as a DataFrame."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from operators.runtime.binding import Binding, Runnable
from operators.runtime.open_windows import open_windows
from operators.spark.inputs.arguments import Arguments
from operators.spark.inputs.prepare import prepare
from state_backends.checkpoints.reading import Checkpoint, by_bucket, journals
from state_backends.checkpoints.stored_bucket import Bucket
from state_backends.durability.folders import absolute


@dataclass(frozen=True)
class OpenWindows:
    """Reads the open windows of one bucket.

    Attributes:
        checkpoint: the checkpoint of the state.
        binding, closing: as for `open_windows`.
    """

    checkpoint: Checkpoint
    binding: Binding
    closing: Binding

    def __call__(self, number: int, bucket: Bucket) -> Iterator[pa.Table]:
        """Yield the rows."""
        del number
        yield open_windows(self.binding, self.closing, bucket)


def read_windows(  # noqa: PLR0913 - what names an operator, and what names a state
    checkpoint: str | Path,
    operator: Runnable,
    df: DataFrame,
    event_time: str | Column,
    *,
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    batch: int | None = None,
    number: int = 0,
    snapshots: str | None = None,
) -> DataFrame:
    """Return the rows of the windows that are open in a stopped query: what would come out if no record followed.

    Nothing is changed, and the query can go on. Windows that have come out already are not among the rows; of an operator that
    emits on update, they are all windows that may still change, with their last values.

    Args:
        checkpoint: the query's checkpoint folder.
        operator: the operator of the query.
        df: the input of the query, or a bounded frame with the same columns.
        event_time: its event-time column, or the expression of it.
        backend, options: as for `apply`.
        batch: number of the batch after which the state is read; by default the last committed one.
        number: number of the operator among those with state in the query's plan, from 0: Spark counts from the sink.
        snapshots: folder of the snapshots, if it was moved since.

    Raises:
        StateError: the checkpoint has no state of windows, or that of another operator; says what differs.
        CorruptDataError: it is damaged; names the file or blob.
        DefinitionError: as `apply`.

    Cost: each bucket's state passes through one task's memory.
    """
    arguments = Arguments(backend, options)
    prepared = prepare(operator, df, event_time, arguments)
    closing = prepare(operator.as_on_close(), df, event_time, arguments).binding
    found = Checkpoint(absolute(checkpoint), backend, batch, number, snapshots)
    rows, _ = journals(found, df.sparkSession)
    return by_bucket(rows, OpenWindows(found, prepared.binding, closing), closing.output.arrow)
