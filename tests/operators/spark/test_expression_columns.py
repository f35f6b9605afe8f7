"""Expressions of Spark in place of column names, compared with the same as columns of the frame."""

import logging
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import (
    DefinitionError,
    HoppingWindows,
    KeyedOperator,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    read_windows,
)
from operators import aggregates as agg
from operators.columns.expressions import named
from operators.custom.contract import Declaration
from state_backends import StateError
from tests.effort import slow, slow_but, soak
from tests.operators.spark.frames import rows, run_query, stream, write_source

pytestmark = pytest.mark.spark
GRACE = "8 seconds"
KINDS: dict[str, Any] = {
    "sliding": SlidingWindows("2 seconds", grace=GRACE),
    "hopping": HoppingWindows("2 seconds", "500 ms", grace=GRACE),
    "session by row": SessionWindows(gap_column="v", grace=GRACE),
    "rolling": RollingWindows({"short": "100 ms", "ever": "lifetime"}, grace=GRACE),
}
MADE = ["k (key)", "(v % 3)", "at + INTERVAL '00.007' SECOND", "(v * 2)", "(v > 0)", "abs(v)"]
"""The columns that the expressions become, in any session."""
Columns = Callable[[str], Any]


def expressions() -> dict[str, Column]:
    """Expressions by the name of the column that they are made in the frame to compare with."""
    return {
        "key": F.lower(F.concat("k", F.lit("X"))).alias("k"),
        "third": F.col("v") % 3,
        "time": F.expr("at + interval 7 milliseconds"),
        "double": F.col("v") * 2,
        "positive": F.col("v") > 0,
        "absolute": F.abs("v"),
    }


def operator(windows: Any, column: Columns) -> Any:
    """An operator over all of them, and over columns of the names that their aliases have."""
    results = {
        "total": agg.sum(column("double")),
        "mean": agg.avg(column("double"), where=column("positive")),
        "most": agg.max_by("x", column("absolute")),
        "n": agg.count(where=column("positive")),
        "original": agg.count_distinct("k"),
        "folded": agg.fold(0, lambda a, b: a + (b or 0), column("double"), type="bigint", merge=int.__add__),
    }
    return windows.group_by(column("key"), column("third")).aggregate(**results)


def made(frame: DataFrame) -> DataFrame:
    """The frame with all of them as columns."""
    return frame.withColumns(expressions())


def renamed(found: DataFrame) -> DataFrame:
    """What is made of columns, with the names that keys have if they are expressions."""
    return found.withColumnsRenamed({"key": "k", "third": "(v % 3)"})


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of records."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=3, rows=200, seed=9)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(["sliding"], KINDS))
def test_bounded_frame(spark: SparkSession, source: Path, kind: str) -> None:
    """Keys, event time, inputs and conditions as expressions give what columns give, with `F.col` for names as well."""
    frame, given, windows = spark.read.parquet(str(source)), expressions(), KINDS[kind]
    found = operator(windows, given.get).apply(frame, F.expr("at + interval 7 milliseconds"))
    expected = operator(windows, str).apply(made(frame), "time")
    if kind == "rolling":
        expected = expected.drop(*given)
        assert found.columns[:4] == frame.columns
    else:
        expected = renamed(expected)
    assert found.columns == expected.columns
    assert rows(found) == rows(expected)
    prepared = operator(windows, expressions().get).prepared(frame, named(expressions()["time"]))
    assert prepared[1].columns[: len(frame.columns) + len(MADE)] == [*frame.columns, *MADE]


@pytest.mark.parametrize("kind", [slow("sliding"), soak("rolling")])
def test_stream_goes_on(spark: SparkSession, source: Path, tmp_path: Path, kind: str) -> None:
    """A stream goes on with the same expressions written anew, and gives what it should; not with others."""
    windows, time = KINDS[kind], "at + interval 7 milliseconds"

    def query(given: dict[str, Column], files: Path) -> DataFrame:
        return operator(windows, given.get).apply(stream(spark, files), F.expr(time), backend="rocksdb")

    half = tmp_path / "half"
    half.mkdir()
    for path in sorted(source.glob("*.parquet"))[:2]:
        (half / path.name).symlink_to(path)
    run_query(query(expressions(), half), tmp_path / "out", tmp_path / "cp")
    for path in sorted(source.glob("*.parquet"))[2:]:
        (half / path.name).symlink_to(path)
    run_query(query(expressions(), half), tmp_path / "out", tmp_path / "cp")
    frame, checkpoint = spark.read.parquet(str(source)), tmp_path / "cp"
    close = frame.selectExpr(f"max({time}) - interval 8 seconds").first()[0]
    bounded = operator(windows, expressions().get).apply(frame, F.expr(time))
    end = F.expr(time) if kind == "rolling" else bounded["window"]["end"]
    found = spark.read.parquet(str(tmp_path / "out"))
    assert rows(found) == rows(bounded.where(end < F.lit(close))) != []
    assert operator(windows, expressions().get).check(frame, F.expr(time), checkpoint) is not None
    opened = read_windows(checkpoint, operator(windows, expressions().get), frame, F.expr(time))
    assert opened.columns == found.columns
    for changed in ({"double": F.col("v") * 3}, {"third": F.col("v") % 5}, {"positive": F.col("v") >= 0}):
        with pytest.raises(StateError, match=r"v \* 3|v % 5|v >= 0"):
            operator(windows, {**expressions(), **changed}.get).check(frame, F.expr(time), checkpoint)


@pytest.mark.slow
def test_chain(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """The time of windows, taken out of them by an expression, is one that they are emitted in order of."""
    first = TumblingWindows("1 second", grace=GRACE).group_by("k").aggregate(n=agg.count())
    second = (
        TumblingWindows("5 seconds").group_by(F.lower("k").alias("k")).aggregate(n=agg.sum(F.col("n") * 1))
    )
    found = first.apply(stream(spark, source), F.col("at"), name="first")
    run_query(second.apply(found, F.window_time("window"), name="second"), tmp_path / "out", tmp_path / "cp")
    bounded = first.apply(spark.read.parquet(str(source)), "at")
    expected = rows(second.apply(bounded, F.window_time("window")))
    assert set() < set(rows(spark.read.parquet(str(tmp_path / "out")))) <= set(expected)


@pytest.mark.slow
def test_late_records_have_the_columns_of_the_frame(spark: SparkSession, source: Path) -> None:
    """Late and bad records are reported without what was made of expressions."""
    frame = spark.read.parquet(str(source)).withColumn("at", F.expr("if(v = 1, null, at)"))
    both = operator(KINDS["sliding"], expressions().get).apply_with_late(frame, expressions()["time"])
    assert both.late.select("record.*").columns == frame.columns
    assert both.late.count() == frame.where("v = 1").count() > 0


@pytest.mark.slow
def test_two_frames(spark: SparkSession, source: Path) -> None:
    """An expression is evaluated in each frame, also where only one of them has a column of its name."""
    clicks = spark.read.parquet(str(source))
    orders = clicks.withColumnsRenamed({"k": "who", "at": "time"}).withColumn("k", F.lit("Else"))
    clicks, key = clicks.withColumn("who", F.upper("k")), F.lower("who").alias("k")
    windows, doubled = TumblingWindows("1 second"), F.col("v") * 2
    sides = {"clicks": {"n": agg.sum(doubled.alias("time"))}, "orders": {"m": agg.count(where=doubled > 3)}}
    times = {"clicks": F.col("at") + F.expr("interval 1 second"), "orders": F.col("time")}
    found = windows.group_by(key).cogroup(**sides).apply({"clicks": clicks, "orders": orders}, times)
    frames = {
        "clicks": clicks.withColumns({"k": key, "d": doubled, "time": times["clicks"]}),
        "orders": orders.withColumns({"k": key, "c": doubled > 3}),
    }
    sides = {"clicks": {"n": agg.sum("d")}, "orders": {"m": agg.count(where="c")}}
    expected = windows.group_by("k").cogroup(**sides).apply(frames, "time")
    assert found.columns == expected.columns
    assert rows(found) == rows(expected)
    frames["orders"] = frames["orders"].withColumnRenamed("k", "K")
    with pytest.raises(
        DefinitionError, match="keys are named k in clicks, but K in orders: give each expression an alias"
    ):
        windows.group_by(F.col("k")).cogroup(**sides).apply(frames, "time")


@pytest.mark.slow
def test_labels(spark: SparkSession, source: Path) -> None:
    """Keys and times of labels and records may be expressions; the labels come out as they are."""
    records = spark.read.parquet(str(source))
    labels = records.where("v % 3 = 0").select("k", F.col("at").cast("string").alias("asked"), "v")
    windows = RollingWindows({"1s": "1 second", "ever": "lifetime"}, closed="left")
    key, asked, at = F.lower("k").alias("k"), F.to_timestamp("asked"), F.expr("at - interval 3 milliseconds")
    found = windows.group_by(key).aggregate(n=agg.sum(F.col("v") + 1)).apply_as_of(labels, records, asked, at)
    expected = (
        windows.group_by("key")
        .aggregate(n=agg.sum("w"))
        .apply_as_of(
            labels.withColumns({"key": key, "time": asked}),
            records.withColumns({"key": key, "time": at, "w": F.col("v") + 1}),
            "time",
            "time",
        )
    )
    assert found.columns == ["k", "asked", "v", "n_1s", "n_ever"]
    assert rows(found) == rows(expected.drop("key", "time"))


@dataclass(frozen=True, kw_only=True)
class Echo(KeyedOperator):
    """Emits each record."""

    def schema(self, types: Any) -> Declaration:
        return Declaration(["v"], {}, {"value": "bigint", "of": "string"})

    def process(self, time: int, record: Any, context: Any) -> list[dict[str, Any]]:
        """Emit a record."""
        return [{"value": record["v"], "of": context.key["k"]}]


@pytest.mark.slow
def test_custom_operator(spark: SparkSession, source: Path) -> None:
    """Keys and event time of custom operators may be expressions."""
    frame = spark.read.parquet(str(source))
    found = Echo().group_by(F.upper("k").alias("k")).apply(frame, F.to_timestamp("at").alias("at"))
    expected = frame.select(F.upper("k").alias("k"), "v", F.upper("k").alias("of"))
    assert found.columns == ["k", "value", "of"]
    assert rows(found) == rows(expected)


@pytest.mark.slow
def test_names(spark: SparkSession) -> None:
    """A key is named as `groupBy` names it; a plain column is itself; fields and casts are told apart."""
    frame = spark.sql(
        "select timestamp'2026-01-05 09:00:00' at, 'x' K, 1 v, 2 `a.b`, struct(1 as b) a, struct(2 as b) c"
    )
    windows = TumblingWindows("1 minute")
    keys = [F.col("k"), frame.v, F.col("`a.b`"), F.col("a.b"), F.lit("K").alias("lit"), F.upper("k")]
    found = windows.group_by(*keys).aggregate(n=agg.count()).apply(frame, "at")
    assert found.columns[:6] == ["K", "v", "a.b", "b", "lit", "upper(k)"]
    frame = frame.drop("a.b")
    inputs = {
        "one": F.col("a.b"),
        "two": F.col("c.b"),
        "three": F.col("v").cast("double"),
        "four": F.col("v"),
    }
    sums = windows.aggregate(**{name: agg.sum(column) for name, column in inputs.items()})
    program, _, _ = sums.prepared(frame, "at")
    assert [one.column for _, one in program.aggregates] == ["a.b", "c.b", "CAST(v AS DOUBLE)", "v"]
    assert sums.apply(frame, "at").drop("window").first().asDict() == {
        "one": 1,
        "two": 2,
        "three": 1,
        "four": 1,
    }


MISTAKES: dict[str, tuple[Any, ...]] = {
    r"aggregate 'n': Column<.*> cannot be resolved: \[UNRESOLVED_COLUMN.*`nope`": (
        "n",
        lambda: F.col("nope") + 1,
    ),
    "group_by: Column<'lower.nope.'> cannot be resolved": ("key", lambda: F.lower("nope")),
    "event_time: Column<'to_date.nope.'> cannot be resolved": ("time", lambda: F.to_date("nope")),
    "event time column 'v' is of type bigint, not a timestamp": ("time", lambda: F.col("v")),
    r"event time column 'to_date\(at\)' is of type date, not a timestamp": ("time", lambda: F.to_date("at")),
    r"aggregate 'n': sum\(lower\(k\)\): column 'lower\(k\)' is of type string, not a number": (
        "n",
        lambda: F.lower("k"),
    ),
    r"column '\(v \+ 1\)' is of type int64, not a boolean": ("where", lambda: F.col("v") + 1),
    r"aggregate 'n': Column<'sum\(v\)'> is an aggregate of pyspark.sql.functions": ("n", lambda: F.sum("v")),
    "group_by: Column<'rand.*'> is not deterministic": ("key", F.rand),
    "aggregate 'n': Column<.*> is not deterministic": ("n", lambda: F.col("v") + F.rand()),
    "group_by: Column<'explode.*'> makes several rows of one": ("key", lambda: F.explode(F.array("v"))),
    "group_by: .* stands for several columns": ("key", lambda: F.col("*")),
    "aggregate 'n': the expression .* is named 'x', which another column": (
        "n",
        lambda: F.abs("v").alias("x"),
    ),
    "'window' is already used by the windows": ("key", lambda: F.col("v").alias("window")),
    "output column 'k' occurs twice": ("key", lambda: F.col("v").alias("k")),
    r"gap: Column<'nope'> cannot be resolved: \[UNRESOLVED": ("gap", lambda: F.col("nope")),
    "gap: Column<.*> is not deterministic": ("gap", lambda: F.rand().cast("bigint")),
}


@pytest.mark.parametrize(("message", "mistake"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_is_told(spark: SparkSession, source: Path, message: str, mistake: Any) -> None:
    """What is wrong with which argument, before anything runs."""
    place, expression = mistake
    given = {place: expression()}
    results = {"n": agg.sum(given.get("n", "v"), where=given.get("where"))}
    kind = SessionWindows(given["gap"]) if "gap" in given else TumblingWindows("1 minute")
    windows = kind.group_by("k", *([given["key"]] if "key" in given else []))
    with pytest.raises(DefinitionError, match=message):
        windows.aggregate(**results).apply(spark.read.parquet(str(source)), given.get("time", "at"))


def test_what_cannot_be_resolved_is_told_once(spark: SparkSession, source: Path) -> None:
    """PySpark's log has no copy of it with the stack traces of Java; errors of the user's own frames are logged as ever."""
    logged: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(record.getMessage())

    frame, handler = spark.read.parquet(str(source)), Kept()
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    logger.addHandler(handler)
    try:
        with pytest.raises(DefinitionError, match="cannot be resolved"):
            TumblingWindows("1 minute").aggregate(n=agg.sum(F.col("nope"))).apply(frame, "at")
        assert logged == []
        with pytest.raises(AnalysisException):
            frame.select(F.col("nope"))
        assert len(logged) == 1
    finally:
        logger.removeHandler(handler)


def test_two_expressions_of_one_name(spark: SparkSession, source: Path) -> None:
    """Written twice, an expression is one column; others of the same name or text are refused, or share by mistake."""
    frame, windows = spark.read.parquet(str(source)), TumblingWindows("1 minute")
    both = windows.aggregate(a=agg.sum(F.col("v") * 2), b=agg.max(F.col("v") * 2))
    prepared, df, _ = both.prepared(frame, "at")
    assert len({one.column for _, one in prepared.aggregates}) == 1
    assert df.columns == [*frame.columns, "(v * 2)"]
    for pair in (
        (F.col("k") == F.lit("x"), F.col("k") == F.col("x")),
        (F.abs("v").alias("w"), F.abs("x").alias("w")),
    ):
        alike = windows.aggregate(a=agg.count(pair[0]), b=agg.count(pair[1]))
        with pytest.raises(
            DefinitionError, match=r"aggregate 'b': the expression .* give it an alias of its own"
        ):
            alike.apply(frame, "at")


def test_operators_with_expressions_are_values(spark: SparkSession, source: Path) -> None:
    """They can be compared, hashed, shown and changed like all others; without Spark they say what to do."""
    one, same, other = (SlidingWindows("1 second").group_by(F.lower("k")) for _ in range(3))
    one, same = (each.aggregate(n=agg.sum(F.col("v") * 2)) for each in (one, same))
    other = other.aggregate(n=agg.sum(F.col("v") * 3))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert "lower(k)" in repr(one)
    assert one == deepcopy(one)
    frame = spark.read.parquet(str(source))
    arrow = frame.limit(1).toArrow()
    said = "is the Spark expression .*, which cannot be evaluated without Spark: add a column to the table, and give its name"
    for run, argument in (
        (lambda: one.local_runner("at"), "group_by"),
        (lambda: one.explain(arrow, "at"), "group_by"),
        (lambda: one.group_by("k").local_runner("at"), "aggregate 'n'"),
        (lambda: one.group_by("k").explain(arrow, F.col("at")), "event_time"),
        (lambda: Echo().group_by(F.lower("k")).local_runner("at"), "group_by"),
        (
            lambda: RollingWindows("1 s").aggregate(n=agg.max(F.abs("v"))).local_runner_as_of("a", "b"),
            "aggregate",
        ),
        (
            lambda: (
                SlidingWindows("1 s")
                .group_by()
                .cogroup(a={"n": agg.sum(F.abs("v"))}, b={"m": agg.count()})
                .local_runner("at")
            ),
            "aggregate 'n'",
        ),
    ):
        with pytest.raises(DefinitionError, match=f"{argument}.*{said}"):
            run()
