"""The windows that both Spark and this library have."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from benchmarks.data import GAP_MS, operator, operator_of, rolling

OWN: dict[str, Callable[[], Column]] = {
    "tumbling": lambda: F.window("at", "10 seconds"),
    "hopping": lambda: F.window("at", "60 seconds", "600 milliseconds"),
    "session": lambda: F.session_window("at", "200 milliseconds"),
}


def own(frame: DataFrame, kind: str) -> DataFrame:
    """Return Spark's windows with five aggregates."""
    if frame.isStreaming:
        frame = frame.withWatermark("at", "0 seconds")
    return frame.groupBy("k", OWN[kind]().alias("window")).agg(*named())


def ours(frame: DataFrame, kind: str, backend: str) -> DataFrame:
    """Return the same windows of ours."""
    return operator_of(kind).apply(frame, event_time="at", backend=backend)


def own_sliding(frame: DataFrame, per_window: int) -> DataFrame:
    """Return the left window of each row: Spark has no others."""
    by_time = Window.partitionBy("k").orderBy(F.unix_millis("at"))
    window = by_time.rangeBetween(-per_window * GAP_MS, 0)
    return frame.select("k", "at", *(column.over(window).alias(name) for name, column in _by_name().items()))


def our_sliding(frame: DataFrame, per_window: int, backend: str = "memory") -> DataFrame:
    """Return the left and the right window of each row."""
    return operator(per_window).apply(frame, event_time="at", backend=backend)


def own_rolling(frame: DataFrame, *per_window: int) -> DataFrame:
    """Return each row with its windows of several lengths."""
    by_time = Window.partitionBy("k").orderBy(F.unix_millis("at"))
    columns = [
        column.over(by_time.rangeBetween(-n * GAP_MS, 0)).alias(f"{name}_{n}")
        for n in per_window
        for name, column in _by_name().items()
    ]
    return frame.select("*", *columns)


def our_rolling(frame: DataFrame, *per_window: int, backend: str = "memory") -> DataFrame:
    """Return the same of ours."""
    return rolling(*per_window).apply(frame, event_time="at", backend=backend)


def _by_name() -> dict[str, Column]:
    return {
        "n": F.count("*"),
        "total": F.sum("v"),
        "low": F.min("v"),
        "high": F.max("v"),
        "mean": F.avg("v"),
    }


def named() -> list[Column]:
    """Return the five aggregates of Spark, by our names."""
    return [column.alias(name) for name, column in _by_name().items()]
