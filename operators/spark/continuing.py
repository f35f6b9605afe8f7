"""Whether a stream can go on from a checkpoint, checked on the driver before it starts; workers check it in the first batch."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame

from operators.runtime.evolution import stored_change
from operators.runtime.program import Runnable
from operators.spark.prepare import prepare
from operators.spark.processor import check_buckets
from state_backends.checkpoints.metadata import NoBatchError, operators_in
from state_backends.checkpoints.reading import Checkpoint, journal_rows, plain_path, pointers
from state_backends.durability.folders import absolute


def check_checkpoint(
    operator: Runnable,
    df: DataFrame,
    event_time: str | Column,
    checkpoint: str | Path,
    backend: str | None,
    options: Mapping[str, object] | None,
    number: int,
) -> int | None:
    """Refuse a checkpoint that an operator cannot go on from; see `RunnableOperator.check`, whose `operator` is `number`."""
    prepared = prepare(operator, df, event_time, backend, options)
    spark, path = df.sparkSession, absolute(checkpoint)
    try:
        rows = journal_rows(Checkpoint(path, operator=number), spark)
    except NoBatchError:
        return None
    for pointer in pointers(rows):
        check_buckets(pointer.progress, prepared.buckets)
        stored_change(prepared.program, pointer.progress, prepared.config.evolution)
    return max(operator.batch for operator in operators_in(plain_path(path), spark))
