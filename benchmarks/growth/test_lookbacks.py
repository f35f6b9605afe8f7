"""How does cost grow with the number of lookbacks?

Aggregates beside each record over its last 1,000 records, and over half as many, a quarter, and so on: five results for each
lookback. Spark has one range frame for each lookback; the rows of a bounded DataFrame are fewer, so that it takes seconds.
"""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from benchmarks.data import records, rolling, spark_times
from benchmarks.growth.feeding import processor_of
from benchmarks.marks import full
from benchmarks.measure import Measure
from benchmarks.pipelines.kinds import our_rolling, own_rolling

LOCAL, BOUNDED = "growth: lookbacks, local", "growth: lookbacks, bounded on Spark"
LOOKBACKS = 1, 2, 4, 8
LONGEST, ROWS = 1_000, 100_000


def lengths(lookbacks: int) -> list[int]:
    """Return so many lengths in records: each half of the one before."""
    return [LONGEST >> number for number in range(lookbacks)]


@pytest.mark.parametrize("lookbacks", LOOKBACKS)
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_local(measure: Measure, table: pa.Table, backend: str, lookbacks: int) -> None:
    operator = rolling(*lengths(lookbacks))
    processor_of(measure, operator, table, backend, section=LOCAL, lookbacks=lookbacks)


@pytest.mark.parametrize("lookbacks", [1, 2, full(4), full(8)])
@pytest.mark.parametrize("system", ["memory", "Spark's own"])
def test_bounded(measure: Measure, spark: SparkSession, system: str, lookbacks: int) -> None:
    frame = spark.createDataFrame(spark_times(records(ROWS))).cache()
    assert frame.count() == ROWS
    made = our_rolling if system == "memory" else own_rolling
    rows = made(frame, *lengths(lookbacks))
    measure(
        lambda: rows.write.format("noop").mode("overwrite").save(),
        section=BOUNDED,
        system=system,
        rows=ROWS,
        lookbacks=lookbacks,
    )
    frame.unpersist()
