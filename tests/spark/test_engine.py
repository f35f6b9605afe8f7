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
from operators.runtime.engine import EngineStage
from operators.runtime.types import arrow_schema
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
    program = operator.program(arrow_schema(frame.schema), "at", resolve())
    return EngineStage.of(
        program, frame.selectExpr(*(f"{name} as {c}" for name, c in program.aliases.items()))
    )


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


def test_far_apart_times_are_left_out_as_elsewhere(spark: SparkSession) -> None:
    """Times that no window can have are dropped, on either side, with ticks of a microsecond."""
    far = 2**60
    times = [0, far - 1, far, far + 1, -far + 1, -far, -far - 1, 2**62, -(2**62), 2**63 - 1, -(2**63) + 1]
    frame = spark.range(len(times)).select(
        F.lit("k").alias("k"),
        F.timestamp_micros(F.element_at(F.array(*map(F.lit, times)), F.col("id").cast("int") + 1)).alias(
            "at"
        ),
    )
    windows = TumblingWindows("1 second", tick="1 us").group_by("k").aggregate(n=agg.count())
    assert 3 == windows.apply(frame, event_time="at").selectExpr("sum(n)").first()[0]


def test_a_sum_beyond_64_bits_is_refused(spark: SparkSession) -> None:
    """Whole numbers that no longer fit are an error that names the column, never a wrapped number."""
    frame = spark.createDataFrame([("k", 2**62)] * 3, "k string, v bigint").withColumn(
        "at", F.current_timestamp()
    )
    windows = TumblingWindows("10000 days").group_by("k").aggregate(total=agg.sum("v"))
    with pytest.raises(Exception, match="whole numbers in column 'v' is beyond 64 bits"):
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
