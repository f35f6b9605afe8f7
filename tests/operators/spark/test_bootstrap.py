"""Years of history, then the stream: the state of a bounded frame as a savepoint, on Spark."""

import shutil
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import DefinitionError, RollingWindows, SessionWindows, TumblingWindows, read_windows
from operators import aggregates as agg
from state_backends import StateError, write_savepoint
from tests.effort import slow_but
from tests.operators.spark.frames import (
    BASE_US,
    SCHEMA,
    operator,
    rows,
    run_query,
    stream,
    write_source,
)

pytestmark = pytest.mark.spark
CUT = datetime.fromtimestamp(BASE_US / 1_000_000, timezone.utc) + timedelta(seconds=20)
CLOSE = CUT - timedelta(seconds=3)
COUNT = (
    TumblingWindows("3 seconds", grace="8 seconds").group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("history") / "in"
    write_source(folder, 5, 300, seed=11)
    return folder


def history(spark: SparkSession, source: Path) -> DataFrame:
    return spark.read.schema(SCHEMA).parquet(str(source)).where(F.col("at") < F.lit(CUT))


def rest(spark: SparkSession, source: Path) -> DataFrame:
    """A stream of what the history does not have; its first file has records from before and after the cut."""
    return stream(spark, source).where(F.col("at") >= F.lit(CUT))


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(["session"], ["session", "rolling"]))
def test_history_and_stream_are_one_long_stream(
    spark: SparkSession, source: Path, tmp_path: Path, kind: str
) -> None:
    """What was final, what the stream emitted and what is open at its end are the rows of one frame: none twice, none lost."""
    op: Any = operator(kind=kind)
    past = history(spark, source)
    op.apply(past, "at", close_time=CLOSE).write.parquet(str(tmp_path / "final"))
    saved = op.savepoint(past, "at", tmp_path / "savepoint", CLOSE, options={"state.buckets": 5})
    assert 5 >= len(saved.files) > 1

    options = {"state.savepoint": saved.uri}
    out = op.apply(rest(spark, source), "at", backend="rocksdb", options=options)
    run_query(out, tmp_path / "out", tmp_path / "checkpoint")
    still = read_windows(tmp_path / "checkpoint", op, past, "at")

    parts = [spark.read.schema(out.schema).parquet(str(tmp_path / name)) for name in ("final", "out")]
    found = sorted([row for part in [*parts, still.select(out.columns)] for row in rows(part)], key=repr)
    assert rows(op.apply(spark.read.schema(SCHEMA).parquet(str(source)), "at")) == found


def in_two(source: Path) -> dict[str, list[Path]]:
    """The files that a query has read when it stops, and those that it has not."""
    files = sorted(source.glob("*.parquet"))
    return {"read": files[:3], "unread": files[3:]}


@pytest.mark.slow
def test_added_aggregates_are_filled_from_history(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """As if they had been there from the first record on; other history is refused, and so is a frame without a moment."""
    added = COUNT.aggregate(low=agg.min("v"), mean=agg.avg("v"), all=agg.collect_list("v"))
    for name, chosen in in_two(source).items():
        (tmp_path / name).mkdir()
        for file in chosen:
            shutil.copy2(file, tmp_path / name)
    run_query(COUNT.apply(stream(spark, tmp_path / "read"), "at"), tmp_path / "before", tmp_path / "old")
    running = write_savepoint(tmp_path / "old", tmp_path / "stopped")
    past = spark.read.schema(SCHEMA).parquet(str(tmp_path / "read"))
    with pytest.raises(Exception, match="the history has no records, or other ones, of k"):
        added.savepoint(past.where("v % 7 > 0"), "at", tmp_path / "other", running=running)
    with pytest.raises(DefinitionError, match=r"takes either close_time, .* or running"):
        added.savepoint(past, "at", tmp_path / "neither")
    filled = added.savepoint(past, "at", tmp_path / "filled", running=running, options={"state.buckets": 4})
    assert running.close_time == filled.close_time

    out = added.apply(stream(spark, tmp_path / "unread"), "at", options={"state.savepoint": filled.uri})
    run_query(out, tmp_path / "after", tmp_path / "new")
    still = read_windows(tmp_path / "new", added, past, "at")
    before, after = (rows(spark.read.parquet(str(tmp_path / name))) for name in ("before", "after"))
    whole = rows(added.apply(spark.read.schema(SCHEMA).parquet(str(source)), "at"))
    columns = len(before[0])
    expected = [row for row in whole if row[:columns] not in {row[:columns] for row in before}]
    assert len(whole) == len(expected) + len(before)
    assert expected == sorted([*after, *rows(still.select(out.columns))], key=repr)


@pytest.mark.slow
@pytest.mark.parametrize(
    "windows",
    [
        TumblingWindows("3 seconds", grace="8 seconds"),
        RollingWindows({"all": "lifetime", "long": "3 seconds"}, "8 seconds"),
    ],
    ids=["windows", "lifetime"],
)
def test_a_close_time_far_after_the_history_is_warned_of(
    spark: SparkSession, source: Path, tmp_path: Path, windows: Any
) -> None:
    """By more than grace and a window after the newest record: the stream would emit nothing until then."""
    op, past = windows.group_by("k").aggregate(n=agg.count()), history(spark, source)
    newest = past.agg(F.max("at")).first()[0].replace(tzinfo=timezone.utc)
    said = rf"close_time is '2113-07-01', and the newest record is of {newest:%Y-%m-%d %H:%M:%S}.* remove .*/typo "
    with pytest.warns(UserWarning, match=said) as caught:
        op.savepoint(past, "at", tmp_path / "typo", "2113-07-01")
    assert [__file__] == [warning.filename for warning in caught]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op.savepoint(past, "at", tmp_path / "later", newest + timedelta(seconds=11))
        op.savepoint(past.limit(0), "at", tmp_path / "empty", "2113-07-01")


@pytest.mark.slow
def test_updates_go_on_from_all_windows_of_the_history(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Last values by window are those of one frame, and later ones have a higher number."""
    op = COUNT.emit("on_update")
    past = history(spark, source)
    saved = op.savepoint(past, "at", tmp_path / "savepoint", CLOSE)
    before = op.apply(past, "at")
    out = op.apply(rest(spark, source), "at", options={"state.savepoint": saved.uri})
    run_query(out, tmp_path / "out", tmp_path / "checkpoint")

    after = spark.read.schema(out.schema).parquet(str(tmp_path / "out"))
    last: dict[Any, Any] = {}
    for row in sorted(before.collect() + after.collect(), key=lambda row: row.sequence):
        last[row.k, row.window] = row.n, row.total
    whole = COUNT.apply(spark.read.schema(SCHEMA).parquet(str(source)), "at")
    assert {(row.k, row.window): (row.n, row.total) for row in whole.collect()} == last
    assert {0} == {row.sequence for row in before.collect()}
    assert 1 <= after.agg(F.min("sequence")).first()[0]


@pytest.mark.slow
def test_frames_without_records_and_without_zones(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """An empty history is a beginning, too; and a time without zone is compared as it is."""
    past = history(spark, source)
    nothing = COUNT.savepoint(past.limit(0), "at", tmp_path / "nothing", CUT)
    assert (0, CUT.timestamp() * 1_000) == (sum(one.rows for one in nothing.files), nothing.close_time)
    zoneless = past.withColumn("at", F.to_timestamp_ntz("at"))
    text = CUT.strftime("%Y-%m-%d %H:%M:%S")
    some = [
        COUNT.savepoint(frame, "at", tmp_path / f"{number}", moment)
        for number, (frame, moment) in enumerate(
            [(zoneless, text), (zoneless, CUT), (past, text), (past, CUT)]
        )
    ]
    assert [nothing.close_time] * 4 == [one.close_time for one in some]
    assert 1 == len({sum(file.rows for file in one.files) for one in some})


@pytest.mark.slow
def test_cogrouped_frames(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    windows = TumblingWindows("3 seconds", grace="8 seconds").group_by("k")
    both = windows.cogroup(left={"n": agg.count()}, right={"m": agg.sum("v")})
    past = history(spark, source)
    frames = {"left": past.where("v > 0"), "right": past}
    final = both.apply(frames, "at", close_time=CUT)
    saved = both.savepoint(frames, "at", tmp_path / "savepoint", CUT)
    assert rows(both.apply(frames, "at").where(F.col("window.end") <= F.lit(CUT))) == rows(final)
    assert saved.close_time == int(CUT.timestamp() * 1_000)


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but([], ["tumbling", "session"]))
def test_aggregates_of_cogrouped_frames_are_filled_from_history(
    spark: SparkSession, source: Path, tmp_path: Path, kind: str
) -> None:
    """In each frame from the history of that frame; a history in which one frame lacks a record is refused."""
    windows: Any = {
        "tumbling": TumblingWindows("3 seconds", grace="8 seconds"),
        "session": SessionWindows("40 ms", grace="8 seconds"),
    }[kind].group_by("k")
    n, m = {"n": agg.count()}, {"m": agg.count()}
    before = windows.cogroup(left=n, right=m)
    added = windows.cogroup(
        left=n | {"high": agg.max("v")}, right=m | {"low": agg.min("v"), "x": agg.avg("x")}
    )
    for name, chosen in in_two(source).items():
        (tmp_path / name).mkdir()
        for file in chosen:
            shutil.copy2(file, tmp_path / name)

    def frames(all_: DataFrame) -> dict[str, DataFrame]:
        return {"left": all_.where("v > 0"), "right": all_}

    def streams(name: str) -> dict[str, DataFrame]:
        return {
            "left": stream(spark, tmp_path / name).where("v > 0"),
            "right": stream(spark, tmp_path / name),
        }

    run_query(before.apply(streams("read"), "at"), tmp_path / "before", tmp_path / "old")
    running = write_savepoint(tmp_path / "old", tmp_path / "stopped")
    past = frames(spark.read.schema(SCHEMA).parquet(str(tmp_path / "read")))
    lacking = past | {"left": past["left"].where("v % 7 > 0")}
    with pytest.raises(Exception, match="the history has no records, or other ones, of k"):
        added.savepoint(lacking, "at", tmp_path / "other", running=running)
    filled = added.savepoint(past, "at", tmp_path / "filled", running=running, options={"state.buckets": 4})
    assert running.close_time == filled.close_time

    out = added.apply(streams("unread"), "at", options={"state.savepoint": filled.uri})
    run_query(out, tmp_path / "after", tmp_path / "new")
    close = write_savepoint(tmp_path / "new", tmp_path / "end").closed_up_to
    whole = added.apply(frames(spark.read.schema(SCHEMA).parquet(str(source))), "at")
    end = F.col("window.end")
    closed = whole.where(end <= F.lit(close) if kind == "tumbling" else end < F.lit(close))
    first = spark.read.parquet(str(tmp_path / "before"))
    keys = {row[:3] for row in rows(first)}
    expected = [row for row in rows(closed) if row[:3] not in keys]
    assert len(expected) > 20
    assert expected == rows(spark.read.parquet(str(tmp_path / "after")))


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("stream", "savepoint takes a bounded frame, not a stream: .*write_savepoint"),
        ("text", "close_time is 'soon', which is not a time: give a datetime"),
        ("number", "close_time is 3: give a datetime"),
        ("policy", "close_time is for operators that emit on close"),
        ("apply", "close_time is for bounded frames: on a stream, the watermark"),
    ],
)
def test_mistakes(spark: SparkSession, source: Path, tmp_path: Path, mistake: str, message: str) -> None:
    past, folder = history(spark, source), tmp_path / "savepoint"
    tries = {
        "stream": lambda: COUNT.savepoint(rest(spark, source), "at", folder, CUT),
        "text": lambda: COUNT.savepoint(past, "at", folder, "soon"),
        "number": lambda: COUNT.savepoint(past, "at", folder, 3),  # type: ignore[arg-type]
        "policy": lambda: COUNT.emit("on_update").apply(past, "at", close_time=CUT),
        "apply": lambda: COUNT.apply(rest(spark, source), "at", close_time=CUT),
    }
    with pytest.raises(DefinitionError, match=message):
        tries[mistake]()
    assert not folder.exists()


@pytest.mark.slow
def test_a_folder_with_a_savepoint_is_left_alone(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    past = history(spark, source).limit(3)
    COUNT.savepoint(past, "at", tmp_path / "savepoint", CUT)
    with pytest.raises(StateError, match="already contains a savepoint: choose a new folder"):
        COUNT.savepoint(past, "at", tmp_path / "savepoint", CUT)
