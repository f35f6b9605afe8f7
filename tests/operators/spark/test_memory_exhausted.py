"""State that outgrows the memory of the processes that hold it: the numbers that the runbook names, and its way out."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from operators import TumblingWindows, what_failed
from operators import aggregates as agg
from tests.operators.spark.frames import BASE_US, use_up, write_numbered
from tests.operators.spark.outliving import children
from tests.state_processes import starters, state_processes

pytestmark = [pytest.mark.spark, pytest.mark.soak]
KEYS, LENGTH = 800, 80_000
"""Of a batch, and the characters of each key's value: 64 MB of state."""
BATCHES = 9
SPARE = 120 << 20
"""What each process may take more than it has after the first batch."""
OP = TumblingWindows("1 day").group_by("k").aggregate(last=agg.last("v"))
SMALL = {"state.rocksdb.blockCacheMb": 8, "state.rocksdb.writeBufferMb": 8}


def write(folder: Path, number: int) -> None:
    """Write a file of keys that no other one has."""
    folder.mkdir(exist_ok=True)
    keys = pa.array([number * KEYS + n for n in range(KEYS)])
    times = pa.array([BASE_US + number] * KEYS, pa.timestamp("us", "UTC"))
    write_numbered(pa.table({"k": keys, "at": times}), folder, number)


def run(spark: SparkSession, home: Path, backend: str) -> Any:
    """Run the query over the files that it has not read; return it, ended, whether by an error or not."""
    files = spark.readStream.schema("k bigint, at timestamp").option("maxFilesPerTrigger", 1)
    frame = files.parquet(str(home / "in")).selectExpr("k", "at", f"repeat(md5(string(k)), {LENGTH // 32}) v")
    options = {
        "state.directory": str(home / "local"),
        "state.snapshots.folder": str(home / "snapshots"),
        "state.snapshots.batches": 2,
        **(SMALL if backend == "rocksdb" else {}),
    }
    writer = OP.apply(frame, "at", backend=backend, options=options).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(home / "cp")).start()
    with suppress(StreamingQueryException):
        use_up(lambda: query)
    return query


def state_bytes(query: Any) -> int:
    """The size of the state after the last batch with records."""
    observed = [each["observedMetrics"] for each in query.recentProgress if each["numInputRows"]]
    return int(observed[-1]["windows_out"]["counts"]["state_bytes"])


class Processes:
    """The Python processes of Spark: its daemon, the workers, and those that hold state."""

    def __init__(self, spark: SparkSession) -> None:
        self.daemons = children(spark.sparkContext._jvm.ProcessHandle.current().pid(), b"daemon")
        self.parents = {*self.daemons, *starters(self.daemons)}

    def others(self) -> set[int]:
        """Those that do the work."""
        workers = {worker for daemon in self.daemons for worker in children(daemon)}
        return {*workers, *state_processes(self.daemons)} - self.parents

    @contextmanager
    def little_memory(self) -> Iterator[None]:
        """None may take much more than the largest has; those that are started inherit this."""
        sizes = [int(Path(f"/proc/{one}/statm").read_text().split()[0]) for one in self.others()]
        most = max(sizes) * resource.getpagesize() + SPARE
        for one in self.parents | self.others():
            resource.prlimit(one, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            for one in self.parents:
                resource.prlimit(one, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
            self.end()

    def end(self) -> None:
        """End them, as they do with their application; Spark starts others."""
        for one in self.others():
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)


def test_rocksdb_goes_on_where_memory_is_exhausted(spark: SparkSession, tmp_path: Path) -> None:
    """The state has become larger than what there is for it; the same checkpoint goes on with the other backend."""
    write(tmp_path / "in", 0)
    assert run(spark, tmp_path, "memory").exception() is None
    for number in range(1, BATCHES):
        write(tmp_path / "in", number)
    processes = Processes(spark)
    with processes.little_memory():
        failed = run(spark, tmp_path, "memory")
        assert "MemoryError" in str(what_failed(failed))
        assert state_bytes(failed) > SPARE
        processes.end()
        query = run(spark, tmp_path, "rocksdb")
    assert query.exception() is None
    assert state_bytes(query) > BATCHES * KEYS * LENGTH
