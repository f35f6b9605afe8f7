"""Functions of `foreachBatch` that read only some rows of a batch."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from operators import TumblingWindows, what_failed
from operators import aggregates as agg
from state_backends import StateError, read_state, write_savepoint
from tests.operators.spark.frames import can_read_state, rows, run_query, stream, use_up, write_source

pytestmark = pytest.mark.spark
OPERATOR = TumblingWindows("1 second").group_by("k").aggregate(n=agg.count())
WAY_OUT = "write_savepoint(checkpoint, folder, batch=0)"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=3, rows=200, seed=3, disorder_ms=0)
    return folder


@pytest.mark.slow
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


def failed(start: Callable[[], Any]) -> list[str | None]:
    """What is said of a query that fails, and of its exception."""
    query = start()
    try:
        with pytest.raises(StreamingQueryException) as caught:
            query.processAllAvailable()
    finally:
        query.stop()
    return [what_failed(query), what_failed(caught.value)]


@pytest.mark.slow
def test_the_way_out_after_a_batch_that_was_read_in_part(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """It is told where the query fails, where it is started again, and where its checkpoint is read; and it loses no row."""
    if not can_read_state(spark):
        pytest.skip("Spark 4.0 does not read state in format 2")
    checkpoint, done = tmp_path / "cp", []
    frame = OPERATOR.apply(stream(spark, source), "at")

    def look(windows: DataFrame, number: int) -> None:
        if number == 0:
            done.extend(rows(windows))
        else:
            windows.limit(1).collect()

    writer = frame.writeStream.foreachBatch(look).option("checkpointLocation", str(checkpoint))
    for text in failed(writer.start):
        assert text is not None
        assert WAY_OUT in text
    again = frame.writeStream.foreachBatch(lambda windows, _: windows.count())
    for text in failed(again.option("checkpointLocation", str(checkpoint)).start):
        assert text is not None
        assert text.startswith(f"Spark cannot load its own state store in file:{checkpoint}: ")
        assert ".changelog does not exist" in text
        assert WAY_OUT in text
    reads: list[Callable[[], object]] = [
        lambda: OPERATOR.check(stream(spark, source), "at", checkpoint),
        lambda: read_state(checkpoint),
        lambda: write_savepoint(checkpoint, tmp_path / "refused"),
    ]
    for read in reads:
        with pytest.raises(
            StateError, match=r"the state in .* cannot be read\. Spark cannot load its own"
        ) as caught:
            read()
        assert WAY_OUT in str(caught.value)
        assert "\n" not in str(caught.value)
    saved = write_savepoint(checkpoint, tmp_path / "saved", batch=0)
    assert [{"logOffset": 0}] == saved.origin["sources"]
    left = tmp_path / "left"
    left.mkdir()
    for path in sorted(source.iterdir())[1:]:
        shutil.copy2(path, left)
    options = {"state.savepoint": str(tmp_path / "saved")}
    moved = OPERATOR.apply(stream(spark, left), "at", options=options)
    run_query(moved, tmp_path / "out", tmp_path / "new")
    run_query(frame, tmp_path / "whole", tmp_path / "sound")
    expected, found = (rows(spark.read.parquet(str(tmp_path / name))) for name in ("whole", "out"))
    assert len(expected) > len(done) > 0
    assert expected == sorted([*done, *found], key=repr)
