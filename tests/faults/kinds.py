"""The operators of disturbed queries: those of other tests on Spark, an operator of a user's, and frames in one window."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import TumblingWindows
from operators import aggregates as agg
from tests.faults.runs import Runs
from tests.operators.spark.frames import SCHEMA, closed_rows, rows, windows

_GRACE = "8 seconds"


def applied(frame: DataFrame, kind: str, backend: str | None = None) -> DataFrame:
    """Return what the operator of a kind makes of a frame."""
    if kind == "custom":
        return Runs(grace=_GRACE).group_by("k").apply(frame, event_time="at", backend=backend)
    if kind != "cogroup":
        return windows(frame, kind, backend)
    low, high = {"n": agg.count(), "low": agg.min("v")}, {"m": agg.count(), "mean": agg.avg("x")}
    both = TumblingWindows("700 ms", grace=_GRACE).group_by("k").cogroup(low=low, high=high)
    return both.apply(_sides(frame), event_time="at", backend=backend)


def _sides(frame: DataFrame) -> dict[str, DataFrame]:
    return {"low": frame.where("v < 0"), "high": frame.where("v >= 0")}


def undisturbed(spark: SparkSession, folder: Path, kind: str) -> list[tuple[Any, ...]]:
    """Return what a stream over the files has closed at its end."""
    if kind not in ("custom", "cogroup"):
        return closed_rows(spark, folder, kind)
    frame = spark.read.schema(SCHEMA).parquet(str(folder))
    latest = f"max(at) - interval {_GRACE}"
    sides = [frame] if kind == "custom" else list(_sides(frame).values())
    # The slowest frame's watermark counts.
    close = min(side.selectExpr(latest).first()[0] for side in sides)
    found = applied(frame, kind)
    end = F.timestamp_millis("ended") if kind == "custom" else found["window"]["end"]
    return rows(found.where(end < close))
