"""The repair of a query that has read a record of the future, as operations.md has it, for each kind of windows."""

import json
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from state_backends import write_savepoint
from tests.effort import slow_but
from tests.operators.spark.frames import can_read_state, rows, run_query, stream, write_numbered, write_source

pytestmark = pytest.mark.spark
KINDS: dict[str, Any] = {
    "tumbling": TumblingWindows("5 seconds", grace="1 second"),
    "hopping": HoppingWindows("5 seconds", "1 second", grace="1 second"),
    "sliding": SlidingWindows("2 seconds", grace="1 second"),
    "session": SessionWindows("40 ms", grace="1 second"),
    "rolling": RollingWindows("2 seconds", grace="1 second"),
}


def sound(rows_: DataFrame, kind: str, closed: datetime | None) -> DataFrame:
    """The rows of the old output that stay: step 3."""
    if kind == "rolling":
        return rows_.where(rows_.at < closed)
    end = rows_.window.end
    return rows_.where(end <= closed if kind in {"tumbling", "hopping"} else end < closed)


@pytest.mark.parametrize("kind", slow_but([], [*KINDS]))
def test_followed_literally_it_leaves_the_rows_of_one_stream(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """No row too many or too few, beside a stream that the record never came into."""
    if not can_read_state(spark):
        pytest.skip("Spark 4.0 does not read this state")
    source, spoilt, rest = (tmp_path / name for name in ("sound", "spoilt", "rest"))
    write_source(source, files=5, rows=120, seed=5, disorder_ms=0)
    (spoilt.mkdir(), rest.mkdir())
    for number, path in enumerate(sorted(source.iterdir())):
        table = pq.read_table(path)
        if number == 2:
            future = pa.array([datetime(2100, 1, 1, tzinfo=timezone.utc)], table["at"].type)
            one = table.slice(0, 1).set_column(1, table.schema.field("at"), future)
            table = pa.concat_tables([table, one])
        write_numbered(table, spoilt, number)
    op = KINDS[kind].group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    run_query(op.apply(stream(spark, spoilt), "at"), tmp_path / "wrong", tmp_path / "cp")

    began = {
        int(file.name): json.loads(file.read_text().splitlines()[1])["batchWatermarkMs"]
        for file in (tmp_path / "cp" / "offsets").glob("[0-9]*")
    }
    last = max(number for number, ms in began.items() if ms < 1_000 * time.time())
    saved = write_savepoint(tmp_path / "cp", tmp_path / "saved", batch=last - 1)
    right = sound(spark.read.parquet(str(tmp_path / "wrong")), kind, saved.closed_up_to)
    read = saved.origin["sources"][0]["logOffset"] + 1
    assert read == 2
    for number, path in enumerate(sorted(spoilt.iterdir())):
        if number >= read:
            write_numbered(pq.read_table(path), rest, number)
    options = {"state.savepoint": saved.uri}
    repaired = op.apply(stream(spark, rest), "at", max_future="1 hour", options=options)
    run_query(repaired, tmp_path / "repaired", tmp_path / "cp-repaired")

    run_query(op.apply(stream(spark, source), "at"), tmp_path / "undisturbed", tmp_path / "cp-undisturbed")
    undisturbed = rows(spark.read.parquet(str(tmp_path / "undisturbed")))
    assert len(undisturbed) > 20
    assert (
        sorted([*rows(right), *rows(spark.read.parquet(str(tmp_path / "repaired")))], key=repr) == undisturbed
    )
    assert rows(spark.read.parquet(str(tmp_path / "wrong"))) != undisturbed
