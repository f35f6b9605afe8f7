"""Bounded frames are sorted by one number of key and time: rows of far times, of many keys and in several steps."""

from datetime import datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import SessionWindows, SlidingWindows
from operators import aggregates as agg
from operators.spark.batch import bounded_input, sorting
from operators.spark.batch.bounded import Slicing
from state_backends import resolve
from tests.operators.spark.stage_kinds import KINDS
from tests.operators.spark.stage_kinds import SCHEMA as STAGED
from tests.operators.spark.stage_worker import rows_of

pytestmark = pytest.mark.spark
YEARS = (-200, -141, -1, 0, 139, 140, 300)
"""From the epoch: some are beyond what the number can tell apart."""


def frame(spark: SparkSession) -> DataFrame:
    """A hundred keys with rows in seven years, and rows without a time or a key."""
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    seconds = [int((epoch.replace(year=1970 + year) - epoch) / timedelta(seconds=1)) for year in YEARS]
    second = F.element_at(F.array(*map(F.lit, seconds)), (F.col("id") % len(YEARS)).cast("int") + 1)
    micros = F.when(F.col("id") % 97 != 0, second * 1_000_000 + F.pmod(F.xxhash64("id"), F.lit(2_000_000)))
    key = F.when(F.col("id") % 89 != 0, F.col("id") % 100)
    return spark.range(6_000).select(
        key.alias("k"), F.timestamp_micros(micros).alias("at"), F.col("id").alias("v")
    )


@pytest.mark.slow
def test_rows_of_a_key_are_in_order_of_time(spark: SparkSession) -> None:
    """In one partition, as one group, and no row is before what `time_reached` said after the rows before it."""
    ordered = sorting.in_order(frame(spark), ["k"], F.unix_micros("at"))
    numbered = ordered.select(
        "k", F.unix_micros("at").alias("at"), "order", F.spark_partition_id().alias("part")
    )
    table = numbered.toArrow()
    places: dict[int | None, set[tuple[int, int]]] = {}
    last: dict[tuple[int, int], int] = {}
    for number, row in enumerate(table.to_pylist()):
        group = row["part"], row["order"] >> 43
        places.setdefault(row["k"], set()).add(group)
        if row["at"] is not None:
            assert row["at"] >= last.get(group, row["at"])
            last[group] = sorting.time_reached(table.slice(number, 1), tick_us=1)
    assert 101 == len(places)
    assert all(1 == len(groups) for groups in places.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "windows", [SlidingWindows("500 ms"), SessionWindows("100 ms")], ids=["sliding", "session"]
)
def test_windows_of_far_times_are_those_of_the_local_runner(
    spark: SparkSession, windows: SlidingWindows | SessionWindows
) -> None:
    """Whatever the sorting cannot tell apart, no row is lost."""
    operator = windows.group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    rows = frame(spark)
    with operator.local_runner(event_time="at") as runner:
        expected = runner.process(rows.toArrow(), stream_time=10**15)
    found = operator.apply(rows, event_time="at").toArrow().cast(expected.schema)
    assert sorted(map(repr, expected.to_pylist())) == sorted(map(repr, found.to_pylist()))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [70, 250_000])
@pytest.mark.parametrize("kind", ["hopping", "session", "user operation"])
def test_a_first_stage_behind_a_shuffle_sends_the_same_rows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str, rows: int
) -> None:
    """In whichever order a task gets its rows, and in however many parts it takes them."""
    monkeypatch.setattr(bounded_input, "SLICING", Slicing(rows=rows))
    binding = KINDS[kind]().bounded().bind(STAGED, "at", resolve("memory", {}))
    table = pa.concat_tables(part for task in rows_of(binding, kind, 1) for part in task)
    sent = []
    for seed in range(2):
        shuffled = table.take(np.random.default_rng(seed).permutation(table.num_rows))
        frame = spark.createDataFrame(shuffled).repartition(2, "k")
        columns = bounded_input.input_columns(frame, binding, streaming=False)
        sent.append(sorted(map(str, bounded_input.sort_input(columns, binding, "w").df.collect())))
    assert len(sent[0]) > 3
    assert sent[0] == sent[1]
