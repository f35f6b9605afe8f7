"""Counts of a real query: files in its checkpoint, bytes in its shuffle, and what the driver gets, for each batch.

    python -m benchmarks.scale.counted FOLDER [BUCKETS...]

prints a line for each number of buckets, for our windows and for Spark's own.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.data import SCHEMA, write_next
from benchmarks.growth.keys import PRIME
from benchmarks.growth.spark_keys import windows
from benchmarks.state.many_keys import records
from operators import session_conf, spark_session

BATCHES, ROWS, KEYS = 4, 2_000, 1_000
FIRST = 2
"""Batches before this one do not count: they create what the later ones find."""
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of a batch, on average over the last batches.

    Attributes:
        buckets: partitions of the shuffle.
        state_files, state_bytes: changes in the state store.
        other_files: offsets and commits; a source of files adds one of its own.
        shuffle_bytes: bytes written to the shuffle, as Spark counts them.
        tasks, result_bytes: tasks, and bytes that they sent to the driver.
    """

    buckets: int
    state_files: float
    state_bytes: float
    other_files: float
    shuffle_bytes: float
    tasks: float
    result_bytes: float


def counted(spark: SparkSession, folder: Path, system: str, buckets: int) -> Counts:
    """Run a query over so many buckets, and count."""
    conf = {**session_conf(buckets), "spark.sql.streaming.noDataMicroBatches.enabled": "false"}
    for name, value in conf.items():
        spark.conf.set(name, value)
    source, checkpoint = folder / "in", folder / "checkpoint"
    source.mkdir(parents=True)
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = windows(frame, system, "tumbling").writeStream.format("noop")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    before: dict[str, int] = {}
    for number, table in enumerate(tables()):
        if number == FIRST:
            before = traffic(spark)
        write_next(table, source / f"{number}.parquet", number)
        query.processAllAvailable()
    after = traffic(spark)
    query.stop()
    moved = {name: (after[name] - before[name]) / (BATCHES - FIRST) for name in before}
    return Counts(buckets, **files(checkpoint), **moved)


def tables() -> Iterator[Any]:
    """Yield batches of a minute, all in the first hour."""
    for number in range(BATCHES):
        keys = np.arange(number * ROWS, (number + 1) * ROWS) * PRIME % KEYS
        yield records(keys, number * MINUTE_MS, MINUTE_MS)


def files(checkpoint: Path) -> dict[str, float]:
    """Return what a batch adds to the checkpoint, without what Spark's maintenance writes from time to time."""
    changes = of_batches(checkpoint, "state/*/*/*.changelog", FIRST + 1)
    others = [*of_batches(checkpoint, "offsets/*", FIRST), *of_batches(checkpoint, "commits/*", FIRST)]
    found = {
        "state_files": len(changes),
        "state_bytes": sum(path.stat().st_size for path in changes),
        "other_files": len(others),
    }
    return {name: value / (BATCHES - FIRST) for name, value in found.items()}


def of_batches(checkpoint: Path, pattern: str, first: int) -> list[Path]:
    """Return the files whose names begin with the number of a batch, from one on."""
    numbered = ((path, path.name.partition(".")[0]) for path in checkpoint.glob(pattern))
    return [path for path, number in numbered if number.isdecimal() and int(number) >= first]


def traffic(spark: SparkSession) -> dict[str, int]:
    """Return Spark's own counts of all stages so far."""
    context = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()  # noqa: SLF001 - the only way to these numbers
    quantiles = context._gateway.new_array(context._jvm.double, 0)  # noqa: SLF001
    nothing = context._jvm.java.util.ArrayList()  # noqa: SLF001
    stages = context._jsc.sc().statusStore().stageList(nothing, False, False, quantiles, nothing)  # noqa: SLF001
    found = [stages.apply(number) for number in range(stages.size())]
    return {
        "shuffle_bytes": sum(stage.shuffleWriteBytes() for stage in found),
        "tasks": sum(stage.numCompleteTasks() for stage in found),
        "result_bytes": sum(stage.resultSize() for stage in found),
    }


def main(folder: Path, buckets: list[int]) -> None:
    """Print the counts."""
    conf = {"spark.ui.enabled": "false", "spark.windows.state.directory": str(folder / "local")}
    spark = spark_session("counted", master="local[2]", conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    for system in ("memory", "own"):
        for number in buckets:
            found = counted(spark, folder / f"{system}-{number}", system, number)
            print(json.dumps({"system": system, **asdict(found)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(arg) for arg in sys.argv[2:]] or [2, 4, 8])
