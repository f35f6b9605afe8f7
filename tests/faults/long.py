"""One query for long, and whether all that it holds levels off: python -m tests.faults.long --batches 2000 --backend rocksdb.

Keys come and go, so that the state has the same size after some batches. A query of one bucket runs on Spark, with one worker.
"""

# ruff: noqa: T201 - a script that prints

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from operators import spark_session
from tests.faults.levels import Sample, of_processes, sample, table, verdicts
from tests.faults.local import CACHE_MB, ROWS, batch, runner
from tests.faults.plans import BACKENDS
from tests.faults.processes import python_workers, running
from tests.operators.spark.frames import operator, session_conf
from tests.patience import wait_until

EVERY = 19
"""A prime. RocksDB's files come and go in cycles of some batches: samples at the same point of each would not see them."""


def main() -> int:
    """Run the batches, say what became of each measure, and return 1 if one grows."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.long", description=__doc__)
    parser.add_argument("--batches", type=int, default=2_000, help="how many batches")
    parser.add_argument("--every", type=int, default=EVERY, help="batches from one sample to the next")
    parser.add_argument("--backend", choices=BACKENDS, default="rocksdb", help="the state backend")
    parser.add_argument("--local", action="store_true", help="a local runner in this process, without Spark")
    parser.add_argument("--json", type=Path, help="file for the samples")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="long-", ignore_cleanup_errors=True) as folder:
        how = run_local if options.local else run
        samples, seconds = how(Path(folder), options.backend, options.batches, options.every, options.json)
    print(*table(options.backend, samples), f"{seconds:.0f} s", sep="\n")
    return 0 if all(found["bounded"] for found in verdicts(samples).values()) else 1


def run(
    folder: Path, backend: str, batches: int, every: int, target: Path | None
) -> tuple[list[Sample], float]:
    """Run a query, and return a sample every so many batches, and the seconds of all."""
    began = time.monotonic()
    spark = spark_session("long", master="local[1]", buckets=1, conf=_conf(folder))
    spark.sparkContext.setLogLevel("ERROR")
    query = _start(spark, folder, backend)
    folders = {name: folder / name for name in ("state", "checkpoint", "snapshots")}
    samples: list[Sample] = []
    jvm = running(_own(), "SparkSubmit")
    try:
        for wanted in range(every, batches + 1, every):
            _wait(query, wanted)
            held = of_processes(jvm)
            one = sample(_batch(query), python_workers(_own()), folders)
            one |= {"jvm_files": held["files"], "jvm_threads": held["threads"]}
            one |= {"jvm_memory_mb": held["memory"] / 1e6, "seconds": time.monotonic() - began}
            samples.append(one)
            if wanted % (10 * every) == 0:
                print(json.dumps({name: round(value, 1) for name, value in one.items()}), flush=True)
                _write(target, backend, samples)
    finally:
        query.stop()
        _write(target, backend, samples)
    spark.stop()
    return samples, time.monotonic() - began


def run_local(
    folder: Path, backend: str, batches: int, every: int, target: Path | None
) -> tuple[list[Sample], float]:
    """Run a local runner, whose directory has both the local state and the journal; as `run` otherwise."""
    began = time.monotonic()
    folders = {name: folder / name for name in ("state", "snapshots")}
    samples: list[Sample] = []
    with runner(backend, folders["state"], folders["snapshots"]) as one:
        for number in range(1, batches + 1):
            one.process(batch(number))
            if number % every == 0:
                samples.append(sample(number, [_own()], folders))
    _write(target, backend, samples)
    return samples, time.monotonic() - began


def _conf(folder: Path) -> dict[str, str]:
    return {
        **session_conf(folder),
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
        "spark.windows.state.snapshots.folder": str(folder / "snapshots"),
        "spark.windows.state.snapshots.bytes": "64k",
        "spark.windows.state.rocksdb.blockCacheMb": CACHE_MB,
    }


def _start(spark: Any, folder: Path, backend: str) -> Any:
    """Start the query: each batch is ten seconds of event time, out of order, of keys that are new every fifth batch."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    source = source.option("advanceMillisPerBatch", 10_000).option("startTimestamp", 1_700_000_000_000)
    ms = f"unix_millis(timestamp) + value % {ROWS} * 50 - value * 7919 % 3000"
    frame = source.load().selectExpr(
        f"concat('key-', value div {5 * ROWS}, '-', value % 8) AS k",
        f"timestamp_millis({ms}) AS at",
        "value * 31 % 200 - 100 AS v",
        "value * 17 % 1000 / 8 AS x",
    )
    closed = operator().apply(frame, event_time="at", backend=backend)
    return closed.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint")).start()


def _own() -> int:
    return int(Path("/proc/self").resolve().name)


def _batch(query: Any) -> int:
    progress = query.lastProgress
    return int(progress["batchId"]) if progress else -1


def _wait(query: Any, batch: int) -> None:
    """Wait until a batch is done.

    Raises:
        StreamingQueryException: the query ended with an error.
    """
    wait_until(lambda: _batch(query) >= batch or not query.isActive, f"batch {batch}", lambda: _batch(query))
    if not query.isActive:
        query.awaitTermination()


def _write(target: Path | None, backend: str, samples: list[Sample]) -> None:
    if target is not None:
        rounded = [{name: round(value, 2) for name, value in one.items()} for one in samples]
        found = {"backend": backend, "rows": ROWS, "samples": rounded, "verdicts": verdicts(samples)}
        target.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
