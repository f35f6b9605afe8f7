"""The least that a stateful Python operator costs on Spark: a processor that only counts the rows of its partition."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

COUNTS = "bucket int, rows long"


class Counting(StatefulProcessor):
    """Keeps one value, which each batch reads and writes."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the value."""
        self._count = handle.getValueState("rows", "rows long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Add the rows of the batch and return their number up to now."""
        count = sum(int(frame["rows"].sum()) for frame in rows)
        if self._count.exists():
            count += self._count.get()[0]
        self._count.update((count,))
        yield pd.DataFrame({"bucket": [key[0]], "rows": [count]})

    def close(self) -> None:
        """Do nothing."""


def counted(frame: DataFrame, buckets: int) -> DataFrame:
    """Return the number of rows by partition, with the stages and the shuffle that windows of ours have."""
    rows = frame.withWatermark("at", "0 seconds").mapInArrow(partial(_counts, buckets), COUNTS)
    results = rows.groupBy("bucket").transformWithStateInPandas(Counting(), COUNTS, "append", "eventtime")
    return results.mapInArrow(_same, COUNTS)


def _counts(buckets: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one row for each bucket."""
    count = sum(batch.num_rows for batch in batches)
    if count:
        columns = {"bucket": list(range(buckets)), "rows": [count] * buckets}
        schema = pa.schema([("bucket", pa.int32()), ("rows", pa.int64())])
        yield pa.RecordBatch.from_pydict(columns, schema)


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
