"""How does cost grow with the panes of a window?

Hopping windows of a minute with 600 records of a key, which advance by a part of it: with 1,000 panes in a window a record
falls into 1,000 windows. The panes of a window are combined when it closes; Spark makes a row of each record for each window.
"""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.data import five_aggregates, records, spark_times
from benchmarks.growth.feeding import processor_of
from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.pipelines.kinds import named
from operators import HoppingWindows, WindowedAggregation

MINUTE_MS = 60_000
LOCAL, BOUNDED = "growth: panes, local", "growth: panes, bounded on Spark"
PANES, ROWS = (1, 10, 100, 1_000), 500_000
"""Panes of a window, and rows of a bounded DataFrame."""


def hopping(panes: int) -> WindowedAggregation:
    """Return hopping windows of so many panes."""
    windows = HoppingWindows(MINUTE_MS, MINUTE_MS // panes)
    return windows.group_by("k").aggregate(**five_aggregates())


@pytest.mark.parametrize("panes", PANES)
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_local(measure: Measure, table: pa.Table, backend: str, panes: int) -> None:
    processor_of(measure, hopping(panes), table, backend, section=LOCAL, panes=panes)


@pytest.mark.parametrize("panes", [1, 10, 100, full(1_000)])
@pytest.mark.parametrize("system", ["memory", "Spark's own"])
def test_bounded(measure: Measure, spark: SparkSession, system: str, panes: int) -> None:
    frame = spark.createDataFrame(spark_times(records(ROWS))).cache()
    assert frame.count() == ROWS
    if system == "memory":
        windows = hopping(panes).apply(frame, event_time="at")
    else:
        window = F.window("at", "1 minute", f"{MINUTE_MS // panes} milliseconds")
        windows = frame.groupBy("k", window).agg(*named())
    measure(
        lambda: windows.write.format("noop").mode("overwrite").save(),
        section=BOUNDED,
        system=system,
        rows=ROWS,
        rounds=3 if panes < 100 else 1,
        panes=panes,
    )
    frame.unpersist()
