"""Functions of `foreachBatch` that read only some rows of a batch."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from operators import TumblingWindows
from operators import aggregates as agg
from tests.operators.spark.frames import stream, use_up, write_source

pytestmark = pytest.mark.spark
OPERATOR = TumblingWindows("1 second").group_by("k").aggregate(n=agg.count())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=2, rows=200, seed=3, disorder_ms=0)
    return folder


def test_a_writer_of_windows_and_late_records_may_look_at_some(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """The rest of the batch is computed after it, and no row is missing in a later batch."""
    seen = []

    def look(windows: DataFrame, late: DataFrame, number: int) -> None:
        del late  # It is empty, so that `first` would look into every bucket.
        seen.append((number, len(windows.limit(1).collect())))

    both = OPERATOR.apply_with_late(stream(spark, source), "at")
    use_up(both.foreach_batch(look).option("checkpointLocation", str(tmp_path / "cp")).start)
    assert [(0, 1), (1, 1)] == seen[:2]
