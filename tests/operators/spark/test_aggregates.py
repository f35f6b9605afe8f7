"""Every aggregate in tumbling windows on Spark, with Spark's own function over its own `window` as the judge."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import AggregateOperation, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from tests.effort import slow_but
from tests.operators.spark.frames import BASE_US, run_query, write_numbered

pytestmark = pytest.mark.spark
ROWS = 3_000
CASTS = {
    "b": "b",
    "t": "cast(i as tinyint)",
    "i": "i",
    "l": "cast(i as bigint) * 1000003",
    "f": "cast(x as float)",
    "x": "x",
    "d": "cast(i as decimal(12, 2)) / 4",
    "dd": "cast(i as decimal(30, 18)) / cast(7 as decimal(1, 0))",
    "s": "s",
    "bin": "cast(s as binary)",
    "day": "date_add(date'1970-01-01', i)",
    "ts": "timestamp_millis(cast(i as bigint) * 10000019)",
    "ntz": "cast(timestamp_millis(cast(i as bigint) * 10000019) as timestamp_ntz)",
    "iv": "make_dt_interval(0, i, i, 0.5)",
    "w": "w",
    "ok": "ok",
    "y": "y",
}
"""One column of each type that Spark and the operators have in common, and what they are made from."""

NUMBERS = ("t", "i", "l", "f", "x")
DECIMALS = ("d", "dd")
ATOMIC = ("b", "t", "i", "l", "f", "x", "d", "s", "bin", "day", "ts", "ntz", "iv")
Make = Callable[[str, str | None], Any]


def of(name: str, *rest: Any, **options: Any) -> Make:
    """Makes the aggregate of that name from a column and `where`."""
    return lambda column, where: getattr(agg, name)(column, *rest, where=where, **options)


def by(name: str, column: str, *rest: Any) -> Make:
    """As `of`, for one column in order of another."""
    return lambda by, where: getattr(agg, name)(column, *rest, by=by, where=where)


# Columns, the aggregate, and Spark's expression: {0} is the column, {1} what filters.
CASES: dict[str, tuple[tuple[str, ...], Make, str]] = {
    **{name: (ATOMIC, of(name), f"{name}({{0}}) filter (where {{1}})") for name in ("count", "min", "max")},
    **{
        name: ((*NUMBERS, *DECIMALS), of(name), f"{name}({{0}}) filter (where {{1}})")
        for name in ("sum", "avg")
    },
    **{
        name: (NUMBERS, of(name), f"{name}({{0}}) filter (where {{1}})")
        for name in ("variance", "stddev", "var_pop", "stddev_pop")
    },
    **{name: (("b",), of(name), f"{name}({{0}}) filter (where {{1}})") for name in ("bool_and", "bool_or")},
    **{
        name: (NUMBERS, of(name, "y"), f"{name}({{0}}, y) filter (where {{1}})")
        for name in ("covar_samp", "covar_pop", "corr", "regr_slope", "regr_intercept")
    },
    "linear_trend": (
        NUMBERS,
        of("linear_trend", "y"),
        """if(regr_slope({0}, y) filter (where {1}) is null, null, named_struct(
            'slope', regr_slope({0}, y) filter (where {1}), 'intercept', regr_intercept({0}, y) filter (where {1})))""",
    ),
    "first": (ATOMIC, of("first"), "min_by({0}, struct(at, {0} is null, {0})) filter (where {1})"),
    "last": (ATOMIC, of("last"), "max_by({0}, struct(at, {0} is not null, {0})) filter (where {1})"),
    "first valid": (
        ATOMIC,
        of("first", ignore_nulls=True),
        "min_by({0}, struct(at, {0})) filter (where {1} and {0} is not null)",
    ),
    "last valid": (
        ATOMIC,
        of("last", ignore_nulls=True),
        "max_by({0}, struct(at, {0})) filter (where {1} and {0} is not null)",
    ),
    "min_by": (
        ATOMIC,
        of("min_by", "x"),
        "min_by({0}, struct(x, {0} is null, {0})) filter (where {1} and x is not null)",
    ),
    "max_by": (
        ATOMIC,
        by("max_by", "s"),
        "max_by(s, struct({0}, s is not null, s)) filter (where {1} and {0} is not null)",
    ),
    "collect_list": (
        ATOMIC,
        of("collect_list"),
        "transform(array_sort(collect_list(struct(at, {0} as v)) filter (where {1} and {0} is not null)), r -> r.v)",
    ),
    "collect_set": (ATOMIC, of("collect_set"), "array_sort(collect_set({0}) filter (where {1}))"),
    "count_distinct": (ATOMIC, of("count_distinct"), "count(distinct {0}) filter (where {1})"),
    "top_n": (
        ATOMIC,
        of("top_n", 3),
        "slice(reverse(array_sort(collect_list({0}) filter (where {1}))), 1, 3)",
    ),
    "top_n by": (
        ATOMIC,
        by("top_n", "s", 3),
        """transform(slice(reverse(array_sort(collect_list(struct({0} as v, s as r))
            filter (where {1} and {0} is not null and s is not null))), 1, 3), r -> r.r)""",
    ),
    "approx_count_distinct": (ATOMIC, of("approx_count_distinct"), "count(distinct {0}) filter (where {1})"),
    "approx_quantiles": (
        ("x",),
        of("approx_quantiles", [0.1, 0.5, 1.0]),
        "percentile_approx({0}, array(0.1d, 0.5d, 1.0d), 1000000) filter (where {1} and not isnan({0}))",
    ),
}
FLOATING = ("sum", "avg", "variance", "stddev", "var_", "covar", "corr", "regr", "linear")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random records with nulls, NaN, minus zero and many equal values; a file in the middle has nothing but nulls."""
    path = tmp_path_factory.mktemp("aggregates") / "in"
    path.mkdir()
    rng = np.random.default_rng(9)
    for number in range(3):
        ms = number * 20_000 + rng.integers(0, 20_000, ROWS // 3) // 4 * 4
        gone = (lambda: rng.random(ROWS // 3) < 0.3) if number != 1 else (lambda: np.ones(ROWS // 3, bool))
        x = rng.choice([0.0, -0.0, 0.25, 7.5, -3.0, 1e6, 12.125], ROWS // 3)
        x[(rng.random(ROWS // 3) < 0.02)] = np.nan
        columns = {
            "k": pa.array(rng.choice(["a", "b", "c"], ROWS // 3)),
            "at": pa.array(BASE_US + ms * 1_000, pa.timestamp("us", "UTC")),
            "b": pa.array(rng.random(ROWS // 3) < 0.5, mask=gone()),
            "i": pa.array(rng.integers(-100, 100, ROWS // 3), pa.int32(), mask=gone()),
            "x": pa.array(x, mask=gone(), from_pandas=False),
            "s": pa.array(rng.choice(["", "a", "ä", "aa", "z"], ROWS // 3), pa.string(), mask=gone()),
            "w": pa.array(rng.integers(0, 50, ROWS // 3) / 4, mask=gone()),
            "y": pa.array(rng.integers(0, 50, ROWS // 3) / 4, mask=gone()),
            "ok": pa.array(rng.random(ROWS // 3) < 0.5, mask=gone()),
        }
        write_numbered(pa.table(columns), path, number)
    return path


@pytest.fixture(scope="module")
def frame(spark: SparkSession, folder: Path) -> DataFrame:
    """The records, with a column of every type."""
    columns = [F.expr(text).alias(name) for name, text in CASTS.items()]
    return spark.read.parquet(str(folder)).select("k", "at", *columns).cache()


def collected(frame: DataFrame) -> dict[Any, list[Any]]:
    """Results by key and window."""
    rows = {(row["k"], row["window"].start): row for row in frame.collect()}
    return {key: [plain(value) for value in row[2:]] for key, row in rows.items()}


def plain(value: Any) -> Any:
    """A value with NaN made comparable, and rows and arrays made lists."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return "NaN" if isinstance(value, float) and value != value else value


def near(value: Any) -> Any:
    """Results as pytest compares them up to rounding; decimals, whole numbers and what is no number exactly."""
    if isinstance(value, list):
        return [near(item) for item in value]
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(("collect_set", "linear_trend"), CASES))
def test_aggregate_is_sparks_own(frame: DataFrame, name: str) -> None:
    """Each type gives the values and the type of Spark's function, over all records and over those of a filter."""
    columns, make, text = CASES[name]
    both = [(column, where) for column in columns for where in (None, "ok")]
    made = {f"{column} {where}": make(column, where) for column, where in both}
    windows = TumblingWindows("700 ms").group_by("k").aggregate(**made).apply(frame, event_time="at")
    judges = [F.expr(text.format(c, where or "true")).alias(f"{c} {where}") for c, where in both]
    wanted = frame.groupBy("k", F.window("at", "700 milliseconds")).agg(*judges)

    assert [(field.name, field.dataType.simpleString()) for field in wanted.schema] == [
        (field.name, field.dataType.simpleString()) for field in windows.schema
    ]
    right, found = collected(wanted), collected(windows)
    assert 200 < len(right)
    assert right.keys() == found.keys()
    for key, values in right.items():
        assert (near(values) if name.startswith(FLOATING) else values) == found[key]


@pytest.mark.slow
def test_functions_and_sketches_travel_to_workers(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """A stream with lambdas and sketches, in several batches over a stored state, closes the windows of a bounded run."""
    weight = 2.0
    scaled = AggregateOperation(
        name="scaled sum",
        state=(int, float),
        create=lambda: (0, 0.0),
        accumulate=lambda state, w: (state[0] + 1, state[1] + weight * w),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        finish=lambda state: np.ma.array(state[1], mask=state[0] == 0),
        type="double",
    )
    squares = AggregateOperation(
        name="squares",
        state=(int,),
        create=lambda: (0,),
        accumulate=lambda state, i: (state[0] + i * i,),
        combine=lambda a, b: (a[0] + b[0],),
        deduct=lambda a, b: (a[0] - b[0],),
        finish=lambda state: state[0],
        type="bigint",
    )
    operator = (
        SlidingWindows(size="300 ms", grace="2 seconds")
        .group_by("k")
        .aggregate(
            scaled=scaled("w", where="ok"),
            squares=squares("i"),
            count=agg.approx_count_distinct("s"),
            middle=agg.approx_quantiles("w", [0.5]),
        )
    )
    source = spark.read.parquet(str(folder))
    streamed = spark.readStream.schema(source.schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    run_query(operator.apply(streamed, event_time="at"), tmp_path / "out", tmp_path / "cp")

    close = source.selectExpr("max(at) - interval 2 seconds").first()[0]
    bounded = operator.apply(source, event_time="at").where(F.col("window.end") < F.lit(close))
    found, wanted = collected(spark.read.parquet(str(tmp_path / "out"))), collected(bounded)
    assert 1_000 < len(wanted)
    assert wanted == found
    judge = source.groupBy("k", F.window("at", "700 milliseconds")).agg(
        F.expr("sum(w * 2) filter (where ok)"), F.expr("coalesce(sum(cast(i as bigint) * i), 0)")
    )
    tumbling = TumblingWindows("700 ms").group_by("k")
    ours = tumbling.aggregate(scaled=scaled("w", where="ok"), squares=squares("i")).apply(
        source, event_time="at"
    )
    assert collected(judge) == collected(ours)
