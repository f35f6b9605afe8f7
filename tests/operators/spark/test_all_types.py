"""All of Spark's types through folds, operators, reports and rows that wait, on Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type

from operators import Declaration, KeyedOperator, RollingWindows, TumblingWindows
from operators import aggregates as agg
from tests.operators.spark.frames import run_query, use_up

pytestmark = [pytest.mark.spark, pytest.mark.slow]
VALUES = {
    "boolean": "true",
    "tinyint": "1Y",
    "smallint": "1S",
    "int": "1",
    "bigint": "1L",
    "float": "0.5F",
    "double": "0.1D",
    "decimal": "1.50BD",
    "string": "'é'",
    "binary": "X'00FF'",
    "date": "date'2024-02-29'",
    "timestamp": "timestamp'2024-07-01 12:00:00.000001 Europe/Berlin'",
    "timestamp_ntz": "timestamp_ntz'2024-07-01 12:00:00'",
    "interval": "interval '1 02:03:04' day to second",
    "array": "array(timestamp'2024-07-01 12:00:00 UTC', null)",
    "map": "map('a', map(1, timestamp'2024-07-01 12:00:00 UTC'))",
    "by_struct": "map(struct(1 as a), array(date'2024-02-29'))",
    "struct": "struct(1 as a, map('x', 1.5BD) as m)",
}
"""A value of each type, as an expression."""


@dataclass(frozen=True, kw_only=True)
class Echo(KeyedOperator):
    """Emits its inputs as they came, and fails for odd records."""

    def schema(self, types: Mapping[str, pa.DataType]) -> Declaration:
        names = [*VALUES, "n"]
        return Declaration(inputs=names, results={name: types[name] for name in names})

    def process(self, time: int, record: dict[str, Any], context: Any) -> list[dict[str, Any]]:
        if record["n"] % 2:
            raise ValueError("odd")
        return [record]


def frame(spark: SparkSession, tmp_path: Path) -> tuple[DataFrame, DataFrame]:
    """Records with values of all types, as a table and as a stream of two batches, and what closes their windows."""
    columns = [F.expr(f"if(id % 3 = 2, null, {value})").alias(name) for name, value in VALUES.items()]
    at = F.timestamp_millis(F.col("id") * 1_000).alias("at")
    whole = spark.range(0, 9, 1, 1).select(F.lit("a").alias("k"), at, F.col("id").alias("n"), *columns)
    last = spark.range(1000, 1001).select(F.lit("b").alias("k"), at, (F.col("id") * 2).alias("n"), *columns)
    for part in (whole.where("n < 4"), whole.where("n >= 4"), last):
        part.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    stream = (
        spark.readStream.schema(whole.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    )
    return whole, stream.withWatermark("at", "8 seconds")


def texts(rows: DataFrame, *names: str) -> list[str]:
    """Rows as texts, in order."""
    return sorted(map(str, rows.select(*names).collect()))


def test_rows_come_out_as_they_went_in(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever door they take: emitted by an operator, reported by it, waiting, and collected by folds."""
    whole, stream = frame(spark, tmp_path)
    names, found = [*VALUES, "n"], dict[str, list[str]](windows=[], late=[])
    both = Echo(grace="8 seconds", on_error="skip").group_by("k").apply_with_late(stream, event_time="at")

    def write(windows: DataFrame, late: DataFrame, _: int) -> None:
        found["windows"] += texts(windows.where("n < 1000"), *names)
        found["late"] += texts(late.select("record.*"), *names)

    use_up(both.foreach_batch(write).option("checkpointLocation", str(tmp_path / "echo")).start)
    assert texts(whole.where("n % 2 = 0"), *names) == sorted(found["windows"])
    assert texts(whole.where("n % 2 = 1"), *names) == sorted(found["late"])
    rolling = RollingWindows("1 second", grace="8 seconds").group_by("k").aggregate(rows=agg.count())
    run_query(rolling.apply(stream, event_time="at"), tmp_path / "rows", tmp_path / "rolling")
    assert texts(whole, *names) == texts(spark.read.parquet(str(tmp_path / "rows")).where("k = 'a'"), *names)


def test_folds_have_what_went_in(spark: SparkSession, tmp_path: Path) -> None:
    """With merge and without, over several batches."""
    whole, stream = frame(spark, tmp_path)
    folds = {
        f"{name}_{merge}": agg.fold(
            list,
            _seen,
            name,
            type=pa.list_(to_arrow_type(whole.schema[name].dataType, timezone="UTC")),
            merge=_merged if merge else None,
            finish=_in_order,
        )
        for name in VALUES
        for merge in (0, 1)
    }
    windows = TumblingWindows("1 hour", grace="8 seconds").group_by("k").aggregate(**folds)
    run_query(windows.emit("on_update").apply(stream, event_time="at"), tmp_path / "out", tmp_path / "cp")
    rows = spark.read.parquet(str(tmp_path / "out")).where("k = 'a'").orderBy(F.desc("sequence"))
    last = rows.first()
    assert last is not None
    for name in VALUES:
        expected = [row[0] for row in whole.select(name).collect()]
        for merge in (0, 1):
            assert str(_in_order(expected)) == str(last[f"{name}_{merge}"]), name


def _seen(values: list[Any], value: Any) -> list[Any]:
    return [*values, value]


def _merged(values: list[Any], others: list[Any]) -> list[Any]:
    return values + others


def _in_order(values: list[Any]) -> list[Any]:
    """Values in an order of their own: partial states are merged in any."""
    return sorted(values, key=lambda value: value is None)
