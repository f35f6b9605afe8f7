"""The likeliest mistakes on Spark, as code, and the message that each gives; and failures in workers, made readable."""

import os
import re
import signal
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from operators import (
    DefinitionError,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    WindowedAggregation,
    what_failed,
)
from operators import aggregates as agg
from operators.aggregates.sides import EVENT_TIME
from operators.runtime.identity import CLOCK
from operators.spark.inputs.arguments import Arguments
from operators.spark.inputs.prepare import prepare
from state_backends import StateError, read_state
from tests.effort import slow
from tests.operators.spark.frames import run_query, stream, write_source

pytestmark = pytest.mark.spark
WINDOWS = SlidingWindows("2 seconds").group_by("k")
COUNT = WINDOWS.aggregate(n=agg.count())
BESIDE = RollingWindows("1 minute").group_by("k").aggregate(n=agg.count())
BOTH = WINDOWS.cogroup(left={"n": agg.count()}, right={"m": agg.count()})
MISTAKES: dict[str, Callable[[DataFrame], Any]] = {
    "event time column 'att' does not exist; the frame has the columns k, at, .*: did you mean 'at'": lambda df: (
        COUNT.apply(df, "att")
    ),
    "event time column 'k' is of type string, not a timestamp: .*to_timestamp": lambda df: COUNT.apply(
        df, "k"
    ),
    "event time column 'v' is of type bigint, not a timestamp: .*timestamp_millis": lambda df: COUNT.apply(
        df, "v"
    ),
    "event time column 'at' is of type date, not a timestamp": lambda df: COUNT.apply(
        df.withColumn("at", F.to_date("at")), "at"
    ),
    r"n=Column<'sum\(v\)'> is not an aggregate: .*agg\.sum\('v'\), not of pyspark": lambda _: (
        WINDOWS.aggregate(n=F.sum("v"))
    ),
    "size is Column<'.*'>: give text such as '60 minutes'": lambda _: SlidingWindows(
        F.expr("interval 1 hour")
    ),
    r"sum\(k\): column 'k' is of type string, not a number: cast": lambda df: WINDOWS.aggregate(
        n=agg.sum("k")
    ).apply(df, "at"),
    "key column 'm' is of type map<.*; keys must be atomic": lambda df: (
        WINDOWS.group_by("m").aggregate(n=agg.count()).apply(df.withColumn("m", F.create_map("k", "v")), "at")
    ),
    "takes a Spark DataFrame, not a pandas DataFrame: .*createDataFrame": lambda df: COUNT.apply(
        df.limit(0).toPandas(), "at"
    ),
    "takes a Spark DataFrame, not a pyspark GroupedData": lambda df: COUNT.apply(df.groupBy("k"), "at"),
    r"frames must be given by name, as {'left': \.\.\., 'right'": lambda df: BOTH.apply(df, "at"),
    "frame labels: event time column 'k' is of type string, not a timestamp: .*to_timestamp": lambda df: (
        BESIDE.apply_as_of(df, df, label_time="k", event_time="at")
    ),
    r"frame records: event time column 'to_date\(at\)' is of type date": lambda df: BESIDE.apply_as_of(
        df, df, label_time="at", event_time=F.to_date("at")
    ),
    "event time column 'at' is of type timestamp_ntz in labels, but timestamp in records .column 'at'.: cast": (
        lambda df: BESIDE.apply_as_of(df.withColumn("at", F.col("at").cast("timestamp_ntz")), df, "at", "at")
    ),
    "frame right: event time column 'v' is of type bigint": lambda df: BOTH.apply(
        {"left": df, "right": df}, {"left": "at", "right": "v"}
    ),
    "output column 'late' occurs twice": lambda df: WINDOWS.aggregate(late=agg.count()).apply_with_late(
        df, "at"
    ),
    "the gap is of type double; it must be an interval, its text, or whole milliseconds": lambda df: (
        SessionWindows(gap_column="x").aggregate(n=agg.count()).apply(df, "at")
    ),
    r"result 'n' is of type list<.*: uint64>, and Spark has no uint64 here: give": lambda df: (
        WINDOWS.aggregate(n=agg.fold(list, lambda state, _: state, "v", type=pa.list_(pa.uint64()))).apply(
            df, "at"
        )
    ),
    "event time column 'v' is of type variant": lambda df: COUNT.apply(lacking(df), "v"),
    "key column 'v' is of type variant; keys must be atomic": lambda df: (
        SlidingWindows("2 seconds").group_by("v").aggregate(n=agg.count()).apply(lacking(df), "at")
    ),
    r"sum\(p\): column 'p' is of type interval month, not a number: cast": lambda df: WINDOWS.aggregate(
        n=agg.sum("p")
    ).apply(lacking(df), "at"),
    r"max\(vs\): column 'vs' is of type list<.*: variant>, not": lambda df: WINDOWS.aggregate(
        n=agg.max("vs")
    ).apply(lacking(df), "at"),
    "column 'p' is of type interval month, which no Arrow .*: cast it before apply, for example to a string": lambda df: (
        WINDOWS.aggregate(n=agg.count("p")).apply(lacking(df), "at")
    ),
    "column 'vs' is of type array<variant>, which no Arrow table can hold": lambda df: WINDOWS.aggregate(
        n=agg.fold(int, lambda state, _: state, "vs", type="bigint")
    ).apply(lacking(df), "at"),
    "column 'v' is of type variant, which no Arrow": lambda df: BESIDE.apply(lacking(df), "at"),
    "column 'right.v' is of type variant, which no Arrow": lambda df: WINDOWS.cogroup(
        left={"n": agg.count()}, right={"m": agg.count("v")}
    ).apply({"left": df, "right": lacking(df)}, "at"),
}


def lacking(df: DataFrame) -> DataFrame:
    """The frame with columns of types that Arrow lacks."""
    variant = F.parse_json(F.lit("{}"))
    months = F.expr("interval '3' month")
    return df.withColumns({"v": variant, "p": months, "vs": F.array(variant)})


TIME = "time.*; times of day are not supported: cast it before apply, for example to a string"
TIMES_OF_DAY: dict[str, Callable[[DataFrame], Any]] = {
    f"key column 't' is of type {TIME}": lambda df: (
        SlidingWindows("2 seconds").group_by("t").aggregate(n=agg.count()).apply(df, "at")
    ),
    rf"max\(t\): column 't' is of type {TIME}": lambda df: WINDOWS.aggregate(n=agg.max("t")).apply(df, "at"),
    rf"sum\(.*\): column '.*' is of type {TIME}": lambda df: WINDOWS.aggregate(n=agg.sum(F.col("s.t"))).apply(
        df, "at"
    ),
    f"column 't' is of type {TIME}": lambda df: WINDOWS.aggregate(n=agg.count("t")).apply(df, "at"),
    f"column 's' is of type struct<t:{TIME}": lambda df: WINDOWS.aggregate(
        n=agg.fold(int, lambda state, _: state, "s", type="bigint")
    ).apply(df, "at"),
    f"column '.*[.]?t' is of type {TIME}": lambda df: BESIDE.apply_as_of(df, df.drop("s"), "at", "at"),
    "event time column 't' is of type time.*, which has no date: .*make_timestamp": lambda df: COUNT.apply(
        df, "t"
    ),
    "column 't' is of type time.*, which cannot be reported: cast it, or drop it": lambda df: (
        COUNT.apply_with_late(df, "at")
    ),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of records."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=2, rows=100, seed=1)
    return folder


@pytest.mark.parametrize(("message", "mistake"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_is_told(
    spark: SparkSession, source: Path, message: str, mistake: Callable[[DataFrame], Any]
) -> None:
    """What is wrong, where, and what to do, before anything runs."""
    with pytest.raises(DefinitionError, match=message):
        mistake(spark.read.parquet(str(source)))


@pytest.mark.skipif(not hasattr(spark_types, "TimeType"), reason="Spark has times of day since 4.1")
@pytest.mark.parametrize(("message", "mistake"), TIMES_OF_DAY.items(), ids=TIMES_OF_DAY)
def test_times_of_day_are_refused_by_name(
    spark: SparkSession, source: Path, message: str, mistake: Callable[[DataFrame], Any]
) -> None:
    """A column of Spark's TIME is refused as what it is, with the way out, wherever it would be read."""
    times = {"t": F.expr("time'10:00:00'"), "s": F.expr("named_struct('t', time'10:00:00')")}
    with pytest.raises(DefinitionError, match=message):
        mistake(spark.read.parquet(str(source)).withColumns(times))


@pytest.mark.slow
def test_streams_of_one_window_have_one_clock(spark: SparkSession, source: Path) -> None:
    """Instants beside local times are refused, and which of the two they are is part of the state's identity."""
    one = stream(spark, source)
    local = one.withColumn("at", F.col("at").cast("timestamp_ntz"))
    with pytest.raises(DefinitionError, match="is of type timestamp in left, but timestamp_ntz in right"):
        BOTH.apply({"left": one, "right": local}, "at")
    for frame, clock in ((one, "timestamp"), (local, "timestamp_ntz")):
        joint, united, _ = BOTH._unite({"left": frame, "right": frame}, "at")
        binding = prepare(joint, united, EVENT_TIME, Arguments("memory")).binding
        assert clock == binding.identity()[CLOCK]


@pytest.mark.slow
def test_names_that_differ_by_case_where_spark_tells_them_apart(spark: SparkSession, source: Path) -> None:
    """Operators read each of two such columns, and no result has both names: tables elsewhere take them as one."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        df = spark.read.parquet(str(source)).withColumn("K", F.lit("upper"))
        windows = TumblingWindows("1 day")
        for name in ("k", "K"):
            rows = windows.group_by(name).aggregate(n=agg.count()).apply(df, "at").collect()
            assert {row[name] for row in df.select(name).distinct().collect()} == {row[name] for row in rows}
        with pytest.raises(
            DefinitionError, match=r"'K' differs from 'k' in case only; without .*most tables"
        ):
            SlidingWindows("2 seconds").group_by("k", "K").aggregate(n=agg.count())
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize(
    ("windows", "messages"),
    [
        (SlidingWindows(60, grace=0), ["size is 60, which is 60 ms, since .*'60 seconds', or '60 ms' if"]),
        (TumblingWindows(1_000, grace=5), ["grace is 5, which is 5 ms"]),
        (RollingWindows({"short": 10, "long": "1 hour"}), ["lookback 'short' is 10, which is 10 ms"]),
        (
            SessionWindows(30, max_length=90),
            ["gap is 30, which is 30 ms", "max_length is 90, which is 90 ms"],
        ),
    ],
    ids=repr,
)
def test_bare_numbers_that_are_probably_not_milliseconds(
    spark: SparkSession, source: Path, windows: Any, messages: list[str]
) -> None:
    """Lengths below a second over timestamps get a warning with what to write; text and a timedelta get none."""
    frame = spark.read.parquet(str(source))
    with pytest.warns(UserWarning, match="a bare number is of milliseconds") as caught:
        windows.aggregate(n=agg.count()).apply(frame, "at")
    told = [str(warning.message) for warning in caught]
    assert [len(messages)] == [len(told)]
    assert all(re.match(message, one) for message, one in zip(messages, told, strict=True))
    assert {warning.filename for warning in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TumblingWindows("60 ms", timedelta(milliseconds=5)).aggregate(n=agg.count()).apply(frame, "at")


COMPARING = {
    "min": agg.min("s"),
    "count_distinct": agg.count_distinct("s"),
    "collect_set": agg.collect_set("s"),
    "top_n": agg.top_n("v", 2, by="s"),
    "max_by": agg.max_by("v", "s"),
    "approx_count_distinct": agg.approx_count_distinct("s"),
}


@pytest.mark.slow
@pytest.mark.parametrize("streaming", [False, True])
def test_collations_are_refused_where_texts_are_compared(
    spark: SparkSession, source: Path, streaming: bool
) -> None:
    """As keys and where their order or equality makes the result; not without collation, nor where texts are carried only."""
    frame = stream(spark, source) if streaming else spark.read.parquet(str(source))
    collated = frame.withColumn("s", F.collate("k", "UTF8_LCASE"))
    column = (
        "column 's' is string collate UTF8_LCASE, but texts are compared by their bytes: drop .*'UTF8_BINARY'"
    )
    with pytest.raises(DefinitionError, match=f"group_by: {column}"):
        WINDOWS.windows.group_by("v", "s").aggregate(n=agg.count()).apply(collated, "at")
    for name, aggregate in COMPARING.items():
        with pytest.raises(DefinitionError, match=f"aggregate '{name}': {column}"):
            WINDOWS.aggregate(n=agg.count("s"), **{name: aggregate}).apply(collated, "at")
    WINDOWS.aggregate(n=agg.count("s"), one=agg.first("s"), all=agg.collect_list("s")).apply(collated, "at")
    plain = collated.withColumn("s", F.lower(F.collate("s", "UTF8_BINARY")))
    WINDOWS.windows.group_by("s").aggregate(**COMPARING).apply(plain, "at")


@pytest.mark.slow
def test_keys_of_a_collation_made_equal(spark: SparkSession, source: Path) -> None:
    """The way out that the error names gives the groups that Spark makes under the collation."""
    frame = spark.read.parquet(str(source)).withColumn("s", F.expr("if(v > 0, upper(k), k)"))
    lower = frame.withColumn("s", F.lower(F.collate(F.collate("s", "UTF8_LCASE"), "UTF8_BINARY")))
    found = TumblingWindows("1 day").group_by("s").aggregate(n=agg.count()).apply(lower, "at")
    expected = frame.groupBy(F.collate("s", "UTF8_LCASE")).count()
    assert sorted(row["n"] for row in found.collect()) == sorted(row["count"] for row in expected.collect())


@pytest.mark.slow
def test_operators_of_one_query_want_names_of_their_own(spark: SparkSession, source: Path) -> None:
    """An operator behind another is told how to be named apart."""
    first = COUNT.apply(stream(spark, source), "at").selectExpr("k", "window.start AS at", "n")
    second = TumblingWindows("10 seconds").aggregate(total=agg.sum("n"))
    with pytest.raises(DefinitionError, match=r"another operator named 'windows': .*name='windows_2'"):
        second.apply(first, "at")
    assert second.apply(first, "at", name="second").isStreaming


@pytest.mark.slow
def test_what_spark_refuses_itself(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """Output mode complete, and a stream without a checkpoint."""
    rows = COUNT.apply(stream(spark, source), "at")
    writer = rows.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    with pytest.raises(AnalysisException, match="checkpointLocation must be specified"):
        writer.start()
    complete = rows.writeStream.format("memory").queryName("all").outputMode("complete")
    with pytest.raises(AnalysisException, match="Invalid streaming output mode: complete"):
        complete.option("checkpointLocation", str(tmp_path / "cp")).start()


@pytest.mark.slow
def test_state_that_is_not_there(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """The folder is named."""
    missing = str(tmp_path / "nowhere")
    with pytest.raises(StateError, match=r"state in .*nowhere cannot be read"):
        read_state(missing)
    with pytest.raises(
        StateError, match=r"the folder .*nowhere contains no savepoint: savepoint\.json is missing"
    ):
        COUNT.apply(stream(spark, source), "at", options={"state.savepoint": missing})
    with pytest.raises(StateError, match=r"folder 's4://x' has an unknown scheme: .*s3, gs"):
        COUNT.apply(stream(spark, source), "at", options={"state.snapshots.folder": "s4://x"})


def stumbling(windows: Any, merge: Callable[[int, int], int] | None = max) -> WindowedAggregation:
    """An operator that fails with a message of two paragraphs; without `merge` no first stage adds anything."""

    def stumble(_: int, value: int) -> int:
        raise ArithmeticError(f"one line\nanother\n\nat last, {type(value).__name__}")

    return windows.aggregate(n=agg.fold(0, stumble, "v", type="bigint", merge=merge))


TOLD = (
    r"AggregateError: fold stumble\(v\): add raised ArithmeticError: one line\nanother\n\nat last, int"
    r"\. The record: event time 2023-11-1[45]T[\d:.+]+, v=-?\d+"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("windows", "where"),
    [
        (SessionWindows("1 second"), "reading rows in partition 0"),
        (SlidingWindows("1 second"), "partition 0"),
    ],
    ids=["first stage", "bounded run"],
)
def test_a_failure_over_a_bounded_frame(spark: SparkSession, source: Path, windows: Any, where: str) -> None:
    """The whole message, and nothing of Spark's traces."""
    with pytest.raises(Exception, match="at last") as caught:
        stumbling(windows).apply(spark.read.parquet(str(source)).coalesce(1), "at", name="sums").collect()
    assert re.fullmatch(rf"operator 'sums', {where}: {TOLD}", str(what_failed(caught.value)))


@pytest.mark.slow
def test_a_worker_that_is_killed(spark: SparkSession, source: Path) -> None:
    """It can't say which operator it worked for; that it died is said."""

    def killed(total: int, value: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return total + value

    op = WINDOWS.aggregate(n=agg.fold(0, killed, "v", type="bigint"))
    with pytest.raises(Exception, match="exited unexpectedly") as caught:
        op.apply(spark.read.parquet(str(source)), "at").collect()
    told = what_failed(caught.value)
    assert told is not None
    assert re.match("a Python worker of Spark died without an error message: .*start the query again$", told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "where"),
    [
        slow(stumbling(TumblingWindows("1 hour")), "reading rows in partition 0", id="first stage"),
        pytest.param(
            stumbling(SlidingWindows("1 second"), merge=None), r"bucket \d of 3, batch 0", id="bucket"
        ),
    ],
)
def test_a_failure_of_a_stream(
    spark: SparkSession, source: Path, tmp_path: Path, operator: WindowedAggregation, where: str
) -> None:
    """The whole message, and nothing of Spark's traces and plans."""
    rows = operator.apply(stream(spark, source).coalesce(1), "at")
    with pytest.raises(StreamingQueryException) as caught:
        run_query(rows, tmp_path / "out", tmp_path / "cp")
    assert re.fullmatch(f"operator 'windows', {where}: {TOLD}", what_failed(caught.value))
