"""Savepoints of stopped queries begin a stream where the old one would have gone on: its batch, and its close times."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from operators import RollingWindows, TumblingWindows
from operators import aggregates as agg
from state_backends import StateError, write_savepoint
from tests.effort import slow_but
from tests.operators.spark.frames import rows, run_query, write_numbered

pytestmark = pytest.mark.spark
SCHEMA = "k string, at timestamp"
BASE = datetime(2024, 1, 1, tzinfo=timezone.utc).timestamp()
PARTS: list[list[float]] = [[1, 2, 11, 35], [5, 34, 36, 41, 55], [500]]
"""Seconds of the records of each file: of the second one, the first two are late."""
FIRST = TumblingWindows("10 seconds").group_by("k").aggregate(n=agg.count())
LATER: dict[str, Any] = {
    "tumbling": TumblingWindows("2 seconds").group_by("k").aggregate(n=agg.sum("n")),
    "rolling": RollingWindows({"long": "1 minute"}).group_by("k").aggregate(total=agg.sum("n")),
}


def source(spark: SparkSession, folder: Path, *numbers: int) -> DataFrame:
    """A stream of some files, one for each batch."""
    folder.mkdir(parents=True)
    for number in numbers:
        at = [round((BASE + second) * 1e6) for second in PARTS[number]]
        table = pa.table({"k": ["a"] * len(at), "at": pa.array(at, pa.timestamp("us", "UTC"))})
        write_numbered(table, folder, number)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def chain(df: DataFrame, later: Any, savepoints: tuple[str, str] = ("", "")) -> DataFrame:
    """Windows, by their start: they come as late as a window is long after the watermark."""
    options = [{"state.savepoint": uri} for uri in savepoints]
    first = FIRST.apply(df, "at", name="first", options=options[0])
    return later.apply(first.selectExpr("k", "window.start AS at", "n"), "at", options=options[1])


@pytest.mark.parametrize("kind", slow_but(["tumbling"], LATER))
def test_operators_of_a_chain_go_on_from_their_own_close_times(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """The rows of two queries, the second from savepoints of the first, are those of one query that was never stopped."""
    later = LATER[kind]
    run_query(chain(source(spark, tmp_path / "all", 0, 1, 2), later), tmp_path / "whole", tmp_path / "cp-0")

    frame = chain(source(spark, tmp_path / "before", 0), later)
    run_query(frame, tmp_path / "parts" / "1", tmp_path / "cp-1")
    saved = [
        write_savepoint(tmp_path / "cp-1", tmp_path / f"savepoint-{number}", operator=number)
        for number in (1, 0)
    ]
    base = round(BASE * 1_000)
    assert [35_000, 25_001] == [one.close_time - base for one in saved]

    frame = chain(source(spark, tmp_path / "after", 1, 2), later, (saved[0].uri, saved[1].uri))
    run_query(frame, tmp_path / "parts" / "2", tmp_path / "cp-2")
    found = spark.read.schema(frame.schema).parquet(*map(str, (tmp_path / "parts").iterdir()))
    assert rows(spark.read.schema(frame.schema).parquet(str(tmp_path / "whole"))) == rows(found)


def test_the_watermark_after_the_last_batch_counts(spark: SparkSession, tmp_path: Path) -> None:
    """It decides which records of the next batch are late, also if no batch has emitted what it closes."""
    setting = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(setting, "false")
    try:
        whole = FIRST.apply(source(spark, tmp_path / "all", 0, 1, 2), "at")
        run_query(whole, tmp_path / "whole", tmp_path / "cp-0")
        run_query(
            FIRST.apply(source(spark, tmp_path / "in-1", 0), "at"), tmp_path / "out-1", tmp_path / "cp-1"
        )
        saved = write_savepoint(tmp_path / "cp-1", tmp_path / "savepoint")
        options = {"state.savepoint": saved.uri}
        frame = FIRST.apply(source(spark, tmp_path / "in-2", 1, 2), "at", options=options)
        run_query(frame, tmp_path / "out-2", tmp_path / "cp-2")
    finally:
        spark.conf.unset(setting)
    outs = [spark.read.schema(frame.schema).parquet(str(tmp_path / f"out-{number}")) for number in (1, 2)]
    assert rows(spark.read.schema(frame.schema).parquet(str(tmp_path / "whole"))) == rows(
        outs[0].unionAll(outs[1])
    )


COMMITTING = """
from pathlib import Path
from state_backends.backends.memory import MemoryBackend

COMMITS = Path({commits!r})

class Committing(MemoryBackend):
    @classmethod
    def open(cls, directory, options):
        (COMMITS / "{last}").write_bytes((COMMITS / "0").read_bytes())
        return super().open(directory, options)
"""


def test_a_query_that_goes_on_meanwhile_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that is committed while the state is read would lend its offsets to the state of an earlier one."""
    checkpoint = tmp_path / "checkpoint"
    run_query(FIRST.apply(source(spark, tmp_path / "in", 0), "at"), tmp_path / "out", checkpoint)
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    module = tmp_path / "committing_backend.py"
    module.write_text(COMMITTING.format(commits=str(checkpoint / "commits"), last=last + 1))
    spark.sparkContext.addPyFile(str(module))

    backend, folder = "committing_backend:Committing", tmp_path / "savepoint"
    with pytest.raises(StateError, match=rf"is running: batch {last + 1} was committed.* batch={last}"):
        write_savepoint(checkpoint, folder, backend)
    assert not (folder / "savepoint.json").exists()
    saved = write_savepoint(checkpoint, tmp_path / "named", backend, batch=last)
    assert last == saved.origin["batch"]
