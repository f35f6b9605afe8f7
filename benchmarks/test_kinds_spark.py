"""How fast are hopping, tumbling and session windows, beside Spark's own on the same rows?

Count, sum, min, max and avg of half a million rows a file and 100 keys with a row every 100 ms each. The hopping windows
slide by a hundredth of their size, so Spark makes a hundred rows of each; it gets fewer files of them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import ROWS, SCHEMA, run_stream
from operators import HoppingWindows, SessionWindows, TumblingWindows
from operators import aggregates as agg

OWN: dict[str, tuple[Callable[[], Column], int]] = {
    "tumbling": (lambda: F.window("at", "10 seconds"), 10),
    "hopping by 1 %": (lambda: F.window("at", "60 seconds", "600 milliseconds"), 4),
    "session": (lambda: F.session_window("at", "200 milliseconds"), 10),
}
OURS = {
    "tumbling": TumblingWindows("10 seconds"),
    "hopping by 1 %": HoppingWindows("60 seconds", "600 ms"),
    "session": SessionWindows("200 ms"),
}


def own(frame: DataFrame, kind: str) -> DataFrame:
    if frame.isStreaming:
        frame = frame.withWatermark("at", "0 seconds")
    results = F.count("*").alias("n"), F.sum("v"), F.min("v"), F.max("v"), F.avg("v")
    return frame.groupBy("k", OWN[kind][0]()).agg(*results)


def ours(backend: str) -> Callable[[DataFrame, str], DataFrame]:
    def apply(frame: DataFrame, kind: str) -> DataFrame:
        windows = (
            OURS[kind]
            .group_by("k")
            .aggregate(
                n=agg.count(), total=agg.sum("v"), low=agg.min("v"), high=agg.max("v"), mean=agg.avg("v")
            )
        )
        return windows.apply(frame, event_time="at", backend=backend)

    return apply


WAYS = {"Spark's own": own, "memory": ours("memory"), "rocksdb": ours("rocksdb"), "spark": ours("spark")}


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("way", ["Spark's own", "memory"])
def test_bounded(benchmark, spark: SparkSession, source: Path, way: str, kind: str) -> None:
    files = OWN[kind][1] // 2
    benchmark.group = f"{kind}, bounded, {files * ROWS:,} rows"
    frame = spark.read.parquet(*(str(source / f"{number:03d}.parquet") for number in range(files)))

    def job() -> None:
        WAYS[way](frame, kind).write.format("noop").mode("overwrite").save()

    benchmark.pedantic(job, rounds=2, warmup_rounds=1)
    print(f"\n{kind}, bounded, {way}: {benchmark.stats['min']:.2f} s for {files * ROWS:,} rows")


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("way", WAYS)
def test_streaming(benchmark, spark: SparkSession, source: Path, tmp_path: Path, way: str, kind: str) -> None:
    benchmark.group = f"{kind}, a stream of batches of {ROWS:,} rows"
    glob = "00[0-3]*" if OWN[kind][1] == 4 else "*"
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).option("pathGlobFilter", glob)
    seconds = run_stream(benchmark, WAYS[way](reader.parquet(str(source)), kind), tmp_path)
    print(f"\n{kind}, stream, {way}: {seconds:.3f} s a batch of {ROWS:,} rows")
