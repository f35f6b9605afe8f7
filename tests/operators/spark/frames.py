"""Input for tests on Spark: files of records out of order, and the queries that read them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from operators import (
    RollingAggregation,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    WindowedAggregation,
)
from operators import aggregates as agg
from tests.patience import TOO_BUSY, TRIES

FORMAT_KEY = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SCHEMA = "k string, at timestamp, v bigint, x double"
KINDS: dict[str, Any] = {
    "sliding": SlidingWindows(size="2 seconds", grace="8 seconds"),
    "rolling": RollingWindows({"short": "100 ms", "long": "2 seconds", "ever": "lifetime"}, "8 seconds"),
    "session": SessionWindows("40 ms", grace="8 seconds"),
}
BASE_US = 1_700_000_000_000_000


def session_conf(folder: Path) -> dict[str, str]:
    """Return the conf of a quiet session that keeps all that it writes in the folder."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.windows.state.directory": str(folder / "state"),
    }


def write_source(folder: Path, files: int, rows: int, seed: int, disorder_ms: int = 3_000) -> None:
    """Write files of records, each a second's worth per file later than the one before, out of order and with ties."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for number in range(files):
        write_numbered(some_records(rng, number, rows, disorder_ms), folder, number)


def some_records(rng: np.random.Generator, number: int, rows: int, disorder_ms: int = 3_000) -> pa.Table:
    """Return the records of the file of this number."""
    ms = number * 10_000 + rng.integers(0, 10_000, rows) - rng.integers(0, disorder_ms + 1, rows)
    keys = [None if k == 7 else f"key-{k}" for k in rng.integers(0, 8, rows)]
    return pa.table(
        {
            "k": pa.array(keys, pa.string()),
            "at": pa.array(BASE_US + ms // 5 * 5 * 1_000, pa.timestamp("us", "UTC")),
            "v": rng.integers(-100, 100, rows),
            "x": rng.integers(0, 1_000, rows) / 8,
        }
    )


def write_numbered(table: pa.Table, folder: Path, number: int) -> None:
    """Write a table as a file of a stream that comes after those of lower numbers: Spark reads files in order of their age."""
    path = folder / f"part-{number:04d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (BASE_US // 1_000_000 + number,) * 2)


def operator(policy: Any = "on_close", kind: str = "sliding") -> WindowedAggregation | RollingAggregation:
    """Return the operator of these tests; its float sums are exact, so that results can be compared as they are."""
    results = (
        KINDS[kind]
        .group_by("k")
        .aggregate(
            n=agg.count(),
            total=agg.sum("v"),
            mean=agg.avg("x"),
            low=agg.min("v"),
            high=agg.max("x"),
            spread=agg.variance("v"),
        )
    )
    return results.emit(policy)


def windows(frame: DataFrame, kind: str, backend: str | None = None) -> DataFrame:
    """Return what the operator of a kind makes of a frame; of "chain", windows over sliding windows."""
    if kind != "chain":
        return operator(kind=kind).apply(frame, event_time="at", backend=backend)
    sliding = operator().apply(frame, event_time="at", backend=backend, name="first")
    results = {
        "windows": agg.count(),
        "records": agg.sum("n"),
        "high": agg.max("high"),
        "mean": agg.avg("mean"),
    }
    tumbling = TumblingWindows("3 seconds").group_by("k").aggregate(**results)
    return tumbling.apply(sliding.select("*", "window.end"), event_time="end", backend=backend)


def stream(spark: SparkSession, folder: Path, files_per_batch: int = 1) -> DataFrame:
    """Return the files as a stream, some files a batch, in order of their names."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files_per_batch)
    return reader.parquet(str(folder))


def run_query(frame: DataFrame, out: Path, checkpoint: Path) -> Any:
    """Run a streaming frame into files until its input is used up, and return the query, stopped."""
    writer = frame.writeStream.format("parquet").option("path", str(out))
    return use_up(writer.option("checkpointLocation", str(checkpoint)).start)


def use_up(start: Callable[[], Any], begun: Any = None) -> Any:
    """Run a query until its input is used up, and return it, stopped; start it again if the machine is too busy for Spark.

    Args:
        start: starts it.
        begun: the query if it runs already.
    """
    for left in reversed(range(TRIES)):
        query = begun
        try:
            query = query or start()
            query.processAllAvailable()
        except PySparkException as error:  # Over Connect, it may be the start that fails.
            if TOO_BUSY not in str(error) or not left:
                raise
            begun = None
        else:
            break
        finally:
            if query is not None:
                query.stop()
    return query


def can_read_state(spark: SparkSession) -> bool:
    """Return whether Spark reads the state of the session's queries: 4.0 does not in format 2 (`test_checkpoint_format`)."""
    return spark.conf.get(FORMAT_KEY, "1") == "1" or not spark.version.startswith("4.0.")


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return a frame as sorted tuples, the bounds of its windows, if it has any, as two columns in front."""
    bounds = ["window.start", "window.end"] if "window" in frame.columns else []
    flat = frame.select(*bounds, *[c for c in frame.columns if c != "window"])
    return sorted((tuple(row) for row in flat.collect()), key=repr)


def closed_rows(spark: SparkSession, folder: Path, kind: str = "sliding") -> list[tuple[Any, ...]]:
    """Return what a stream over the files has closed at its end: the bounded result up to the last close time."""
    frame = spark.read.schema(SCHEMA).parquet(str(folder))
    close = frame.selectExpr("max(at) - interval 8 seconds").first()[0]
    found = windows(frame, kind)
    end = found["at"] if kind == "rolling" else found["window"]["end"]
    return rows(found.where(end <= close if kind == "chain" else end < close))
