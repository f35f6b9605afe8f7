"""The first stage in Spark's generated code, with the local runner as the judge: the same windows to the last bit."""

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import HoppingWindows, TumblingWindows, WindowedAggregation
from operators import aggregates as agg
from operators.spark.base.types import arrow_schema
from operators.spark.batch.first_stage import EngineStage
from state_backends import resolve

pytestmark = pytest.mark.spark
ROWS = 4_000
RESULTS = {
    "n": agg.count(),
    "valid": agg.count("x"),
    "total": agg.sum("x"),
    "mean": agg.avg("x"),
    "low": agg.min("x"),
    "high": agg.max("x"),
    "whole": agg.sum("i"),
    "whole_mean": agg.avg("i"),
    "least": agg.min("i"),
    "some": agg.sum("f", where="b"),
    "some_n": agg.count(where="b"),
    "most": agg.max("f"),
}
WINDOWS = {
    "tumbling": TumblingWindows("3 seconds"),
    "hopping": HoppingWindows("3 seconds", "700 ms", offset="100 ms"),
}


def records(seed: int) -> pa.Table:
    """Rows of all that is awkward: nulls, NaN, infinities, minus zero, tiny and huge numbers, far times, null keys."""
    rng = np.random.default_rng(seed)
    exponent = rng.choice([-1060, -200, -70, -40, -10, 0, 1, 20, 33, 60, 70, 900, 1023], ROWS)
    x = np.ldexp(rng.uniform(-1, 1, ROWS), exponent)
    odd = rng.random(ROWS)
    x[odd < 0.005], x[(odd > 0.005) & (odd < 0.01)], x[(odd > 0.01) & (odd < 0.012)] = 0.0, -0.0, np.nan
    x[(odd > 0.012) & (odd < 0.014)] = np.inf
    columns: dict[str, Any] = {
        "k": pa.array([None if k == 0 else f"k{k}" for k in rng.integers(0, 30, ROWS)]),
        "g": pa.array(rng.choice([0.0, -0.0, np.nan, 1.5], ROWS)),
        "at": pa.array(
            rng.integers(-20_000_000, 20_000_000, ROWS), pa.timestamp("us", "UTC"), mask=odd > 0.99
        ),
        "x": pa.array(x, mask=(odd > 0.97) & (odd < 0.98)),
        "i": pa.array(rng.integers(-(2**56), 2**56, ROWS), mask=(odd > 0.96) & (odd < 0.97)),
        "f": pa.array((rng.integers(0, 1_000, ROWS) / 8).astype(np.float32)),
        "b": pa.array(rng.random(ROWS) < 0.5, mask=(odd > 0.95) & (odd < 0.96)),
    }
    return pa.table(columns)


def bits(table: pa.Table) -> list[tuple[str, ...]]:
    """The rows as text of their bits, sorted; NaN is NaN whatever its payload."""

    def text(value: Any) -> str:
        if isinstance(value, float):
            return "nan" if value != value else struct.pack(">d", value).hex()
        return repr(value)

    return sorted(tuple(map(text, row.values())) for row in table.to_pylist())


def stage(operator: WindowedAggregation, frame: DataFrame) -> EngineStage | None:
    """The first stage that Spark does of an operator on a frame."""
    binding = operator.bind(arrow_schema(frame.schema), "at", resolve())
    return EngineStage.of(
        binding, frame.selectExpr(*(f"{name} as {c}" for name, c in binding.inputs.aliases.items()))
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_are_those_of_the_local_runner(spark: SparkSession, kind: str) -> None:
    """Every window of rows of all sorts, to the last bit of its sums."""
    table = records(seed=5)
    frame = spark.createDataFrame(table).repartition(3)
    operator = WINDOWS[kind].group_by("k", "g").aggregate(**RESULTS)
    with operator.local_runner(event_time="at") as runner:
        expected = runner.process(table, stream_time=10**9)
    found = operator.apply(frame, event_time="at")
    assert stage(operator, frame) is not None
    assert bits(expected) == bits(found.toArrow().cast(expected.schema))


@pytest.mark.slow
@pytest.mark.parametrize("tick", ["1 us", "1 ms"])
def test_far_apart_times_are_left_out_as_elsewhere(spark: SparkSession, tick: str) -> None:
    """Times that no window can have, or whose bounds microseconds cannot tell, are dropped, on either side."""
    far = 2**60 if tick == "1 us" else ((2**63 - 1) // 1_000 - 1_000) * 1_000
    times = [0, far - 1, far, far + 1, -far + 1_000, -far + 1, -far, -far - 1, 2**63 - 1, -(2**63) + 1]
    frame = spark.range(len(times)).select(
        F.lit("k").alias("k"),
        F.timestamp_micros(F.element_at(F.array(*map(F.lit, times)), F.col("id").cast("int") + 1)).alias(
            "at"
        ),
    )
    windows = TumblingWindows("1 second", tick=tick).group_by("k").aggregate(n=agg.count())
    table = pa.table({"k": ["k"] * len(times), "at": pa.array(times, pa.timestamp("us", "UTC"))})
    with windows.local_runner("at") as runner:
        expected = pa.concat_tables([runner.process(table), runner.process(table.slice(0, 0), 2**61)])
    found = windows.apply(frame, event_time="at").toArrow().cast(expected.schema)
    starts = [
        sorted(rows.column("window").combine_chunks().field("start").cast(pa.int64()).to_pylist())
        for rows in (expected, found)
    ]
    assert starts[0] == starts[1]
    assert 4 - (tick == "1 ms") == sum(found.column("n").to_pylist())


@pytest.mark.slow
def test_keys_after_the_year_9999(spark: SparkSession) -> None:
    """Dates and timestamps that Python has no values for are keys in either first stage, and come out as they were."""
    frame = spark.range(6).selectExpr(
        "make_date(int(12000 + id % 2), 1, 1) d", "timestamp_seconds(400000000000 * (id % 3 - 1)) t", "current_timestamp() at"
    )  # fmt: skip
    for result in (agg.count(), agg.collect_list("d")):
        windows = TumblingWindows("10000 days").group_by("d", "t").aggregate(n=result)
        found = windows.apply(frame, event_time="at").selectExpr("cast(d as string)", "unix_seconds(t)")
        expected = frame.selectExpr("cast(d as string)", "unix_seconds(t)")
        assert sorted(map(tuple, expected.collect())) == sorted(map(tuple, found.collect()))


@pytest.mark.slow
def test_a_sum_beyond_64_bits_is_refused(spark: SparkSession) -> None:
    """Whole numbers that no longer fit are an error that names the column, never a wrapped number."""
    frame = spark.createDataFrame([("k", 2**62)] * 3, "k string, v bigint").withColumn(
        "at", F.current_timestamp()
    )
    windows = TumblingWindows("10000 days").group_by("k").aggregate(total=agg.sum("v"))
    with pytest.raises(Exception, match="whole numbers in column 'v' exceeds 64 bits"):
        windows.apply(frame, event_time="at").collect()


@pytest.mark.parametrize(
    ("results", "column"),
    [
        ({"all": agg.collect_list("x")}, "at"),
        ({"spread": agg.stddev("x")}, "at"),
        ({"low": agg.min("k")}, "at"),
        ({"n": agg.count()}, "cast(at as timestamp_ntz)"),
    ],
)
def test_what_spark_cannot_do_exactly_is_left_to_python(
    spark: SparkSession, results: dict[str, Any], column: str
) -> None:
    """Aggregates without a translation, and timestamps without zone, take the other way."""
    frame = spark.createDataFrame(records(seed=5).slice(0, 10)).selectExpr("k", "x", f"{column} as at")
    assert stage(TumblingWindows("1 second").group_by("k").aggregate(**results), frame) is None
