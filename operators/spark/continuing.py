"""Whether a stream can go on from a checkpoint: found by the first batch in a worker, or on the driver before it starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from operators.errors import check_column_name
from operators.runtime.evolution import stored_change
from operators.spark.apply import bucket_count, check_frame, windows_conf
from operators.spark.processor import check_buckets
from operators.spark.types import arrow_schema, check_collations
from operators.spark.watermarks import check_time
from state_backends import resolve
from state_backends.checkpoints.metadata import NoBatchError, operators_in
from state_backends.checkpoints.reading import Checkpoint, journal_rows, plain_path, pointers
from state_backends.durability.folders import absolute

if TYPE_CHECKING:
    from operators.definitions.runnable import Applicable


def check_checkpoint(
    operator: "Applicable",
    df: DataFrame,
    event_time: str,
    checkpoint: str | Path,
    backend: str | None,
    options: Mapping[str, object] | None,
    number: int,
) -> int | None:
    """Refuse a checkpoint that an operator cannot go on from; see `Applicable.check`, whose `operator` is `number`."""
    check_frame(df)
    check_column_name("event_time", event_time)
    spark = df.sparkSession
    config = resolve(backend, options, windows_conf(spark))
    check_time(df, event_time)
    operator, df = operator.prepared(df, event_time)
    program = operator.program(arrow_schema(df.schema), event_time, config)
    check_collations(df.schema, program)
    path = absolute(checkpoint)
    try:
        rows = journal_rows(Checkpoint(path, operator=number), spark)
    except NoBatchError:
        return None
    for pointer in pointers(rows):
        check_buckets(pointer.progress, bucket_count(spark, config))
        stored_change(program, pointer.progress, config.evolution)
    return max(operator.batch for operator in operators_in(plain_path(path), spark))
