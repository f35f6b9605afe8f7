"""What `apply` says about sessions, frames and options before anything runs."""

import os
import re
import subprocess
import sys
import venv
import warnings
from pathlib import Path

import pytest
from pyspark.sql import GroupedData, SparkSession

from operators import DefinitionError, SessionSetupError, SlidingWindows
from operators import aggregates as agg
from operators.spark.base import session
from operators.spark.base.session import check_partitions

pytestmark = pytest.mark.spark
OP = SlidingWindows(size="1 minute", grace="1 minute").group_by("k").aggregate(n=agg.count())
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def rate(spark: SparkSession):  # type: ignore[no-untyped-def]
    """A streaming frame with a key and a time."""
    return (
        spark.readStream.format("rate")
        .load()
        .withColumnRenamed("timestamp", "at")
        .withColumnRenamed("value", "k")
    )


@pytest.mark.parametrize(
    ("event_time", "operator", "message"),
    [
        ("when", OP, "event time column 'when' does not exist"),
        ("k", OP, "'k' is of type bigint, not a timestamp"),
        ("at", OP.group_by("nobody"), "key column 'nobody' does not exist"),
        (
            "at",
            OP.aggregate(total=agg.sum("nothing")),
            "aggregate 'total': sum.nothing.: column 'nothing' does not exist",
        ),
        (
            "at",
            OP.aggregate(total=agg.sum("at")),
            "aggregate 'total': sum.at.: column 'at' is of type timestamp",
        ),
        ("at", SlidingWindows(size=1).group_by("k"), "the operator has no aggregates"),
    ],
)
def test_wrong_frames_are_refused(spark: SparkSession, event_time: str, operator, message: str) -> None:  # type: ignore[no-untyped-def]
    """A frame that does not fit is refused by `apply`, for streams and bounded frames alike."""
    for frame in (rate(spark), spark.createDataFrame([], "k bigint, at timestamp")):
        with pytest.raises(DefinitionError, match=message):
            operator.apply(frame, event_time=event_time)


def test_unknown_options_are_refused(spark: SparkSession) -> None:
    """An unknown option or backend is refused with the known ones and the nearest."""
    with pytest.raises(ValueError, match=r"did you mean spark\.windows\.state\.buckets"):
        OP.apply(rate(spark), event_time="at", options={"state.bucket": 4})
    with pytest.raises(ValueError, match=r"unknown state backend 'rocks'.*rocksdb"):
        OP.apply(rate(spark), event_time="at", backend="rocks")
    spark.conf.set("spark.windows.state.nothing", "1")
    try:
        with pytest.raises(ValueError, match=r"unknown option spark\.windows\.state\.nothing"):
            OP.apply(rate(spark), event_time="at")
    finally:
        spark.conf.unset("spark.windows.state.nothing")


def test_session_without_the_provider_is_refused(spark: SparkSession) -> None:
    """A session that cannot run transformWithState is refused for a stream, with the line that mends it."""
    provider = spark.conf.get(PROVIDER)
    spark.conf.unset(PROVIDER)
    try:
        with pytest.raises(
            SessionSetupError, match=r"spark\.conf\.set\('spark.sql.streaming.stateStore.providerClass'"
        ):
            OP.apply(rate(spark), event_time="at")
    finally:
        spark.conf.set(PROVIDER, provider)


def test_workers_with_another_python_are_found_out(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local session whose workers run another interpreter is refused for all frames, naming both ways out."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/usr/bin/env")
    for frame in (rate(spark), spark.createDataFrame([], "k bigint, at timestamp")):
        with pytest.raises(SessionSetupError, match=r"Call operators\.spark_session\(\).*PYSPARK_PYTHON"):
            OP.apply(frame, event_time="at")


ORDINARY = """
import sys

from operators import SessionSetupError, TumblingWindows, spark_session
from operators import aggregates as agg
from operators.spark.base.java import ensure_java
from pyspark.sql import SparkSession

ensure_java()
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
df = spark.range(20).selectExpr("timestamp_seconds(id) at")
op = TumblingWindows("10 seconds").aggregate(n=agg.count())
try:
    op.apply(df, "at")
except SessionSetupError as error:
    print("refused:", error)
spark_session(buckets=1)
print("rows:", op.apply(df, "at").count())
spark.stop()
try:
    op.apply(df, "at")
except SessionSetupError as error:
    print("refused:", error)
"""


@pytest.mark.slow
def test_an_ordinary_session_is_mended(tmp_path: Path) -> None:
    """Workers of another Python are told of before a worker fails; `spark_session` mends them in the running session."""
    venv.create(tmp_path / "other", with_pip=False)
    program = tmp_path / "ordinary.py"
    program.write_text(ORDINARY)
    hidden = {"PYSPARK_PYTHON", "SPARK_REMOTE"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env["PATH"] = f"{tmp_path}/other/bin:{env['PATH']}"
    command = [sys.executable, str(program)]
    run = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    first, *_, rows, stopped = [line for line in run.stdout.splitlines() if line]
    assert first == "refused: this Spark session cannot run stateful windows:"
    assert "its workers run 'python3', which cannot import this library" in run.stdout
    assert rows == "rows: 2"
    assert stopped.startswith("refused: the Spark session of this DataFrame was stopped: create a new one")


def test_slow_commits_are_warned_of(spark: SparkSession) -> None:
    """A session without changelog checkpointing works, with a warning."""
    key = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    spark.conf.set(key, "false")
    try:
        with pytest.warns(UserWarning, match="changelogCheckpointing"):
            OP.apply(rate(spark), event_time="at")
    finally:
        spark.conf.set(key, "true")


def test_partitions_far_from_buckets_are_warned_of(spark: SparkSession) -> None:
    """A number of shuffle partitions other than that of buckets is warned of, the same number is not."""
    with pytest.warns(UserWarning, match="has 9 buckets"):
        OP.apply(rate(spark), event_time="at", options={"state.buckets": 9})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_partitions(spark, 3)


@pytest.mark.slow
def test_a_snapshot_folder_that_cannot_be_written_is_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    """Only where snapshots are made; the stream is not refused, since workers may reach what the driver does not."""
    (tmp_path / "file").write_text("in the way")
    option = "state.snapshots.folder"
    wrong, right = {option: f"{tmp_path}/file/below"}, {option: f"{tmp_path}/folder"}
    told = r"file/below' of spark\.windows\.state\.snapshots\.folder cannot be written from the driver: .*Not a directory"
    with pytest.warns(UserWarning, match=told) as warned:
        assert OP.apply(rate(spark), event_time="at", options=wrong).isStreaming
    assert [one.filename for one in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OP.apply(rate(spark), event_time="at", options=right)
        OP.apply(rate(spark), event_time="at", options=wrong, backend="spark")
        OP.apply(spark.createDataFrame([], "k bigint, at timestamp"), event_time="at", options=wrong)
    assert list((tmp_path / "folder").iterdir()) == []


def test_other_watermark_is_refused(spark: SparkSession) -> None:
    """A watermark that was declared before must be that of the grace period."""
    with pytest.raises(DefinitionError, match="watermark of 5000 ms already, but grace is 60000 ms"):
        OP.apply(rate(spark).withWatermark("at", "5 seconds"), event_time="at")
    assert OP.apply(rate(spark).withWatermark("at", "1 minute"), event_time="at").isStreaming


def test_an_old_connect_is_named() -> None:
    """Spark Connect of PySpark 4.0 has no frames with state: its streams are refused with the way out."""

    class Grouped:
        """Grouped frames as those were."""

    (problem,) = session._old_connect(Grouped)
    assert re.match(
        "streams through Spark Connect need PySpark 4.1 or newer, this is .*: upgrade client and server",
        problem,
    )
    assert session._old_connect(GroupedData) == []
