"""How fast are windows over bounded frames, compared with Spark's own on the same rows, and with passing rows through?

Spark's own sliding windows are row frames: left windows only. With a thousand records per window they get fewer rows.
"""

from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import KINDS, operator_of, records, spark_times
from benchmarks.measure import Measure
from benchmarks.pipelines.kinds import our_rolling, our_sliding, ours, own, own_rolling, own_sliding
from benchmarks.pipelines.streams import ROWS

SYSTEMS = ["Spark's own", "memory"]
LARGE_FILES = {"tumbling": 4, "hopping": 1, "session": 4}
SLIDING = {10: (1_000_000, 100), 1_000: (100_000, 10)}
"""Rows and keys by records per window."""
ROLLING = 10, 100, 1_000
"""Records per lookback. Spark's own cost grows with them, so it gets fewer rows."""


def collect(frame: DataFrame) -> None:
    """Compute all rows, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("kind", KINDS)
def test_kind(measure: Measure, spark: SparkSession, source: Path, system: str, kind: str) -> None:
    files = LARGE_FILES[kind]
    frame = spark.read.parquet(*(str(source / f"large-{number:03d}.parquet") for number in range(files)))
    windows = own(frame, kind) if system == "Spark's own" else ours(frame, kind, system)
    measure(
        lambda: collect(windows),
        section=f"batch: {kind} windows",
        system=system,
        rows=files * ROWS,
        rounds=2 if kind == "hopping" else 5,
    )


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("per_window", SLIDING)
def test_sliding(measure: Measure, spark: SparkSession, tmp_path: Path, system: str, per_window: int) -> None:
    rows, keys = SLIDING[per_window]
    pq.write_table(spark_times(records(rows, keys)), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    windows = (own_sliding if system == "Spark's own" else our_sliding)(frame, per_window)
    measure(
        lambda: collect(windows),
        section="batch: sliding windows",
        system=system,
        rows=rows,
        rounds=5,
        per_window=per_window,
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_rolling(measure: Measure, spark: SparkSession, tmp_path: Path, system: str) -> None:
    """Fifteen results beside each row."""
    rows, keys = 200_000, 20
    pq.write_table(spark_times(records(rows, keys)), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    windows = (own_rolling if system == "Spark's own" else our_rolling)(frame, *ROLLING)
    measure(
        lambda: collect(windows),
        section="batch: rolling windows",
        system=system,
        rows=rows,
        rounds=3,
        lookbacks=len(ROLLING),
    )


@pytest.mark.parametrize("still_open", ["all", "last"])
@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_history(
    measure: Measure, spark: SparkSession, source: Path, tmp_path: Path, kind: str, still_open: str
) -> None:
    """The state that a bounded frame leaves, beside its windows (`test_kind`): with all windows open, or the last ones."""
    files = LARGE_FILES[kind]
    frame = spark.read.parquet(*(str(source / f"large-{number:03d}.parquet") for number in range(files)))
    ends = frame.agg(F.min("at").alias("all"), F.max("at").alias("last")).first()
    names = (tmp_path / f"savepoint-{number}" for number in count())
    measure(
        lambda: operator_of(kind).savepoint(frame, "at", next(names), str(ends[still_open])),
        section="batch: state of a history",
        system=f"{kind}, {still_open} windows open",
        rows=files * ROWS,
        rounds=3,
    )
