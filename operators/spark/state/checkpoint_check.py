"""Whether a stream can go on from a checkpoint, checked on the driver before it starts; workers check it in the first batch."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pyspark.sql import Column, DataFrame

from operators.runtime.binding import Runnable
from operators.runtime.evolution import stored_change
from operators.runtime.since import since_of_results
from operators.spark.base.failures import MOVE_STATE
from operators.spark.base.heartbeats import is_heartbeat
from operators.spark.inputs.arguments import Arguments
from operators.spark.inputs.prepare import prepare
from operators.spark.stream.bucket_task import check_buckets
from state_backends import StateError
from state_backends.checkpoints.metadata import NoBatchError, check_begun, operators_in, sources_at
from state_backends.checkpoints.reading import Checkpoint, journal_rows, plain_path, pointers
from state_backends.checkpoints.spark_files import damaged_file
from state_backends.durability.folders import absolute
from state_backends.store.schema import StoredSchema


def since_of(checkpoint: str | Path, operator: int = 0) -> dict[str, str]:
    """Return since when each result of a query that was added later counts all records, in all buckets.

    Args:
        checkpoint: the checkpoint of the query.
        operator: its number among those with state.
    """
    latest: dict[str, int] = {}
    path = absolute(checkpoint)
    found = pointers(journal_rows(Checkpoint(path, operator=operator), None), path)
    schemas = [pointer.progress.schema for pointer in found]
    for pointer, schema in zip(found, schemas, strict=True):
        times = {} if schema is None else since_of_results(schema, pointer.progress.since or {})
        for result, time in times.items():
            latest[result] = max(time, latest.get(result, time))
    return {result: since_text(schemas, time) for result, time in latest.items()}


def since_text(schemas: Sequence[StoredSchema | None], time: int) -> str:
    """Return a time in ticks of states as text."""
    schema = next(schema for schema in schemas if schema is not None)
    (instant,) = schema.instants(np.array([time])).to_pylist()
    return (
        f"{time} ticks"
        if instant is None
        else f"{instant:%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".") + " UTC"
    )


def check_checkpoint(
    operator: Runnable,
    df: DataFrame,
    event_time: str | Column,
    checkpoint: str | Path,
    arguments: Arguments,
    number: int,
) -> int | None:
    """Refuse a checkpoint that an operator cannot go on from; see `RunnableOperator.check`, whose `operator` is `number`."""
    idle_ms = arguments.idle_ms
    prepared = prepare(operator, df, event_time, arguments)
    spark, path = df.sparkSession, absolute(checkpoint)
    if (damaged := damaged_file(path)) is not None:
        raise StateError(damaged)
    try:
        rows = journal_rows(Checkpoint(path, operator=number), spark)
    except NoBatchError:
        check_begun(plain_path(path), spark, path)
        return None
    for pointer in pointers(rows, path):
        check_buckets(pointer.progress, prepared.buckets)
        stored_change(prepared.binding, pointer.progress, prepared.config.evolution)
    plain = plain_path(path)
    operators = operators_in(plain, spark)
    batch = max(operator.batch for operator in operators)
    was_idle = any(map(is_heartbeat, sources_at(plain, batch, spark)))
    if idle_ms is not None and not was_idle:
        raise StateError(
            f"the query of {path} had no idle, and this one has idle={arguments.idle!r}: idle adds a source, and Spark "
            f"keeps the sources of a checkpoint as they were. Leave idle out. Or {MOVE_STATE}"
        )
    # In a chain, it may be the idle of another operator.
    if idle_ms is None and was_idle and len(operators) == 1:
        raise StateError(
            f"the query of {path} had idle, and check was given none: give check the idle that apply has. If the query "
            f"is to have none from now on, {MOVE_STATE}"
        )
    return batch
