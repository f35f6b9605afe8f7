"""Records whose event time is too far ahead of the clock: bad, with their reason, and without effect on the watermark."""

from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError, RollingWindows, TumblingWindows
from operators import aggregates as agg
from tests.effort import slow
from tests.operators.spark.frames import (
    closed_rows,
    operator,
    rows,
    run_query,
    stream,
    use_up,
    write_numbered,
    write_source,
)

pytestmark = pytest.mark.spark
FUTURE = datetime(2100, 1, 1, tzinfo=timezone.utc)
IN_THE_FUTURE, NO_TIME = "event time is in the future", "event time is null"
COUNT = TumblingWindows("5 seconds", grace="8 seconds").group_by("k").aggregate(n=agg.count())


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of records, all of the past."""
    folder = tmp_path_factory.mktemp("sound") / "in"
    write_source(folder, files=4, rows=300, seed=11)
    return folder


@pytest.fixture(scope="module")
def spoilt(sound: Path) -> Path:
    """The same with three records of the year 2100 and one without a time in the second file, among the others."""
    folder = sound.parent / "spoilt"
    folder.mkdir()
    for number, path in enumerate(sorted(sound.iterdir())):
        table = pq.read_table(path)
        if number == 1:
            at = pa.array([FUTURE, FUTURE, None, FUTURE], table["at"].type)
            wrong = table.slice(0, 4).set_column(1, table.schema.field("at"), at)
            table = pa.concat_tables([table.slice(0, 150), wrong, table.slice(150)])
        write_numbered(table, folder, number)
    return folder


def counted(query: Any, of: str, name: str) -> int:
    """The sum of an observed count over all batches."""
    told = [batch["observedMetrics"] for batch in query.recentProgress if batch["observedMetrics"]]
    return sum(batch[of]["counts"][name] for batch in told)


def last_watermark(query: Any) -> str:
    """The year that the watermark has reached."""
    return max(batch["eventTime"]["watermark"][:4] for batch in query.recentProgress if batch["eventTime"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sliding", slow("rolling"), slow("session")])
def test_a_stream_goes_on_as_if_they_had_not_come(
    spark: SparkSession, sound: Path, spoilt: Path, tmp_path: Path, kind: str
) -> None:
    """They are counted as bad, no record after them is late, and what comes out is what comes out without them."""
    out = operator(kind=kind).apply(stream(spark, spoilt), event_time="at", max_future="1 hour")
    query = run_query(out, tmp_path / "out", tmp_path / "cp")
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == closed_rows(spark, sound, kind)
    assert (counted(query, "windows_in", "bad"), counted(query, "windows_out", "late")) == (4, 0)
    assert last_watermark(query) == "2023"


@pytest.mark.slow
def test_without_it_one_record_makes_all_others_late(
    spark: SparkSession, spoilt: Path, tmp_path: Path
) -> None:
    """What it is for: two of four files have come after the record."""
    query = run_query(COUNT.apply(stream(spark, spoilt), "at"), tmp_path / "out", tmp_path / "cp")
    assert (counted(query, "windows_out", "late"), last_watermark(query)) == (600, "2099")


@pytest.mark.slow
def test_a_running_query_gets_it_with_a_restart(
    spark: SparkSession, sound: Path, spoilt: Path, tmp_path: Path
) -> None:
    """The state is the same with and without it."""
    growing = tmp_path / "in"
    growing.mkdir()
    first, *others = sorted(spoilt.iterdir())
    (growing / first.name).hardlink_to(first)
    run_query(COUNT.apply(stream(spark, growing), "at"), tmp_path / "out", tmp_path / "cp")
    for path in others:
        (growing / path.name).hardlink_to(path)
    run_query(
        COUNT.apply(stream(spark, growing), "at", max_future="1 hour"), tmp_path / "out", tmp_path / "cp"
    )
    frame = spark.read.parquet(str(sound))
    close = frame.selectExpr("max(at) - interval 8 seconds").first()[0]
    expected = COUNT.apply(frame, "at")
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == rows(
        expected.where(expected.window.end < close)
    )


@pytest.mark.slow
@pytest.mark.parametrize("time", ["at", slow("local"), slow("expression")])
def test_they_come_out_as_they_were(spark: SparkSession, spoilt: Path, tmp_path: Path, time: str) -> None:
    """With their reason and the time that they had, from a stream and from a bounded frame."""
    at: Any = F.col("at") + F.expr("interval 1 second") if time == "expression" else time

    def applied(frame: DataFrame) -> Any:
        frame = frame.withColumn("local", F.col("at").cast("timestamp_ntz"))
        return COUNT.apply_with_late(frame, at, max_future="1 hour")

    def write(_: DataFrame, late: DataFrame, number: int) -> None:
        late.write.parquet(str(tmp_path / "late" / f"{number}"))

    both = applied(stream(spark, spoilt))
    use_up(both.foreach_batch(write).option("checkpointLocation", str(tmp_path / "cp")).start)
    read = spark.read.option("recursiveFileLookup", True).parquet(str(tmp_path / "late"))
    for late in (read, applied(spark.read.parquet(str(spoilt))).late):
        assert late.schema["record"].dataType.names == ["k", "at", "v", "x", "local"]
        found = late.selectExpr("reason", "year(record.at)", "year(record.local)", "window").collect()
        assert Counter(map(tuple, found)) == {(IN_THE_FUTURE, 2100, 2100, None): 3, (NO_TIME, *[None] * 3): 1}


@pytest.mark.slow
def test_the_limit_is_that_of_the_clock(spark: SparkSession) -> None:
    """A record that is less than `max_future` ahead counts."""
    frame = spark.range(2).selectExpr(
        "'a' k", "current_timestamp() + make_interval(0,0,0,0,0, 30 + 60 * id) at"
    )
    both = COUNT.apply_with_late(frame, "at", max_future="1 hour")
    assert [(row.n, both.late.first().reason) for row in both.windows.collect()] == [(1, IN_THE_FUTURE)]
    assert COUNT.apply(frame, "at").agg({"n": "sum"}).first()[0] == 2


@pytest.mark.slow
def test_of_several_frames_each_leaves_them_out(
    spark: SparkSession, sound: Path, spoilt: Path, tmp_path: Path
) -> None:
    """Co-grouped streams are not moved by one of them; a label of the future has no results."""
    grouped = COUNT.windows.group_by("k").cogroup(left={"n": agg.count()}, right={"m": agg.count()})
    frames = {"left": stream(spark, spoilt), "right": stream(spark, sound).withColumnRenamed("at", "seen")}
    times = {"left": "at", "right": "seen"}
    query = run_query(grouped.apply(frames, times, max_future="1 hour"), tmp_path / "out", tmp_path / "cp")
    assert (counted(query, "windows_out", "late"), last_watermark(query)) == (0, "2023")
    out = spark.read.parquet(str(tmp_path / "out"))
    assert out.where("n = m").count() == out.count() > 0

    history = RollingWindows("1 hour").group_by("k").aggregate(n=agg.count())
    read = {name: spark.read.parquet(str(path)) for name, path in (("labels", spoilt), ("records", sound))}
    labelled = history.apply_as_of(**read, label_time="at", event_time="at", max_future="1 hour")
    assert Counter(row.at for row in labelled.where("n is null").collect()).total() == 4
    assert labelled.count() == 1204


@pytest.mark.slow
def test_a_stream_that_has_a_watermark_is_refused(spark: SparkSession, sound: Path) -> None:
    """Spark's own takes all records: the errors say where the limit belongs."""
    marked = stream(spark, sound).withWatermark("at", "8 seconds")
    chained = COUNT.apply(stream(spark, sound), "at", name="first")
    for frame, time in ((marked, "at"), (chained, "window.end")):
        with pytest.raises(DefinitionError, match=r"max_future.*leave withWatermark out.*first operator"):
            COUNT.apply(frame, F.col(time), max_future="1 hour")
    with pytest.raises(DefinitionError, match="max_future is '-1 hour': it must be positive"):
        COUNT.apply(marked, "at", max_future="-1 hour")
