"""Aggregates in plain Python on Spark: a window's fold is what the built-in aggregate says."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from operators import HoppingWindows, SlidingWindows, WindowedAggregation
from operators import aggregates as agg
from tests.effort import slow_but
from tests.operators.spark.frames import rows, run_query, stream, write_source

pytestmark = pytest.mark.spark
WINDOWS = {
    "sliding": SlidingWindows("2 seconds", "8 seconds"),
    "hopping": HoppingWindows("3 seconds", "1 second", "8 seconds"),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of records."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=3, rows=300, seed=5)
    return folder


def folded(kind: str) -> WindowedAggregation:
    """A fold, which makes the operator keep a state for each window, beside a built-in aggregate."""
    total = agg.fold(0, lambda total, v: total + v, "v", type="bigint")
    return WINDOWS[kind].group_by("k").aggregate(n=agg.count(), total=total)


def built_in(kind: str) -> WindowedAggregation:
    """The same over panes."""
    return WINDOWS[kind].group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(["sliding"], WINDOWS))
def test_bounded_folds_give_the_windows_of_panes(spark: SparkSession, source: Path, kind: str) -> None:
    """All windows of a bounded frame."""
    frame = spark.read.parquet(str(source))
    assert rows(built_in(kind).apply(frame, "at")) == rows(folded(kind).apply(frame, "at"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", WINDOWS)
def test_streamed_folds_give_the_windows_of_panes(
    spark: SparkSession, source: Path, tmp_path: Path, kind: str
) -> None:
    """What a stream closes, whichever way and on whichever backend it keeps its windows."""

    def closed(operator: WindowedAggregation, backend: str) -> DataFrame:
        windows = operator.apply(stream(spark, source), "at", backend=backend)
        run_query(windows, tmp_path / backend / "out", tmp_path / backend / "cp")
        return spark.read.parquet(str(tmp_path / backend / "out"))

    found = rows(closed(folded(kind), "rocksdb"))
    assert found
    assert rows(closed(built_in(kind), "memory")) == found
