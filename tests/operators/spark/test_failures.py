"""Errors of Spark itself, in words that help."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.streaming.listener import StreamingQueryProgress

from operators import SlidingWindows, what_failed
from operators import aggregates as agg

CASES = {
    "1 named: executor 7": (
        "Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times, most recent failure: Lost task 1.3 in stage 3.0 "
        "(TID 9) (10.0.0.7 executor 7): ExecutorLostFailure (executor 7 exited caused by one of the running tasks) Reason: "
        "Command exited with code 137\nDriver stacktrace:"
    ),
    "2 named: executor 12, executor 4 on 10.0.0.4": (
        "Lost task 0.0 in stage 5.2 (TID 31) (10.0.0.4 executor 2): FetchFailed(BlockManagerId(4, 10.0.0.4, 41234, None), "
        "shuffleId=1, mapIndex=0, mapId=4, reduceId=2, message=\norg.apache.spark.shuffle.FetchFailedException\n"
        "ExecutorLostFailure (executor 12 exited unrelated to the running tasks) Reason: Executor decommission"
    ),
    "none is named": (
        "Job aborted due to stage failure: ResultStage 7 (start at NativeMethodAccessorImpl.java:0) has failed the maximum "
        "allowable number of times: 4. Most recent failure reason:\norg.apache.spark.shuffle.FetchFailedException: Connection "
        "refused: /10.0.0.4:41234"
    ),
}


@pytest.mark.parametrize("which", CASES)
def test_lost_executors_are_counted_and_named(which: str) -> None:
    """With what it costs, and what to set."""
    told = what_failed(RuntimeError(CASES[which]))
    assert told is not None
    assert told.startswith(f"executors of Spark were lost ({which}), ")
    assert "Nothing is lost of the query: start it again" in told
    assert "spark.stage.maxConsecutiveAttempts" in told
    assert "spark.task.maxFailures" in told


def test_an_indeterminate_stage_is_one_that_ran_again_for_lost_executors() -> None:
    """Spark names no executor then; nothing else is mistaken for it."""
    said = (
        "Job aborted due to stage failure: A shuffle map stage with indeterminate output was failed and retried. However, "
        "Spark cannot rollback the ResultStage 12 to re-process the input data, and has to fail this job."
    )
    assert str(what_failed(RuntimeError(said))).startswith("executors of Spark were lost (none is named), ")
    assert (
        what_failed(RuntimeError("Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times"))
        is None
    )


@pytest.mark.parametrize(
    ("said", "which"),
    [
        (
            "java.io.IOException: No space left on device\n\tat java.base/sun.nio.ch",
            "a disk is full: No space",
        ),
        (
            "Caused by: java.io.FileNotFoundException: /mnt/spark/blockmgr-1/0c/temp_shuffle_5 (No space left on device)",
            "a disk is full, that of /mnt/spark/blockmgr-1/0c/temp_shuffle_5: No space",
        ),
        ("java.io.IOException: Disk quota exceeded", "a disk is full: Disk quota exceeded"),
    ],
)
def test_a_full_disk_is_named_as_far_as_spark_names_it(said: str, which: str) -> None:
    """With what to do."""
    told = str(what_failed(RuntimeError(f"Job aborted due to stage failure: {said}")))
    assert told.startswith(which)
    assert "Free space, then start the query again" in told


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a query of Spark."""

    recentProgress: list[StreamingQueryProgress]  # noqa: N815 - Spark's name
    error: Exception | None = None
    lastProgress: None = None  # noqa: N815 - Spark's name

    def exception(self) -> Exception | None:
        """The error that ended it."""
        return self.error


def progress(**overdue: int | None) -> StreamingQueryProgress:
    """A batch in which operators worked, with their overdue snapshots; one that did nothing has none."""
    plain: dict[str, Any] = {
        "id": "00000000-0000-0000-0000-000000000001",
        "runId": "00000000-0000-0000-0000-000000000002",
        "name": None,
        "timestamp": "2026-01-05T12:00:10.000Z",
        "batchId": 7,
        "batchDuration": 1_500,
        "eventTime": {},
        "stateOperators": [],
        "sources": [],
        "sink": {"description": "", "numOutputRows": 0, "metrics": {}},
        "observedMetrics": {
            f"{name}_out": {
                "counts": {"live_keys": 0, "buckets": 0}
                | ({} if count is None else {"buckets": 4, "snapshots_overdue": count})
            }
            for name, count in overdue.items()
        },
    }
    return StreamingQueryProgress.fromJson(plain)


def test_overdue_snapshots_of_a_query_are_told() -> None:
    """The last batch in which each operator worked counts, of a query that runs or has ended; with its error, if it has one."""
    assert what_failed(Query([])) is None
    assert what_failed(Query([progress(a=2, b=1), progress(a=0, b=0)])) is None
    left = what_failed(Query([progress(a=2, b=1), progress(a=0, b=None)]))
    assert left is not None
    assert left.startswith("operator 'b': of 1 buckets")
    late = [progress(a=0), progress(a=2, b=0), progress(a=None, b=0)]
    told = what_failed(Query(late))
    assert told is not None
    assert told.startswith("operator 'a': of 2 buckets, the last snapshot failed or takes over 15 minutes, ")
    both = what_failed(Query([*late, progress(b=3)], RuntimeError(CASES["1 named: executor 7"])))
    assert both is not None
    dead, snapshots = both.split("\n")
    assert dead.startswith("executors of Spark were lost")
    assert snapshots.startswith(told)
    assert "operator 'b': of 3 buckets" in snapshots


LOADING = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0 in stage "
    "7.0 failed 1 times, most recent failure: Lost task 0.0 in stage 7.0 (TID 9) (host executor driver): "
    "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  "
    "SQLSTATE: 58030\n\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotLoadStore(QueryExecutionErrors.scala:1)\n"
    "Caused by: {}\n\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:1)\n"
)
"""How Spark says that it cannot load a state store, without saying why."""


@dataclass(frozen=True, slots=True)
class Stopped(Query):
    """A query that has ended, whose folder can be seen.

    Attributes:
        folder: its checkpoint.
    """

    folder: str = ""

    @property
    def _jsq(self) -> "Stopped":
        return self

    def streamingQuery(self) -> "Stopped":  # noqa: N802 - Spark's name
        """Spark's own object."""
        return self

    def resolvedCheckpointRoot(self) -> str:  # noqa: N802 - Spark's name
        """The checkpoint."""
        return self.folder


def test_a_state_store_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    """The folder and the batch that the text names; else those of the query; else that they are not known."""
    for folder, named in (
        ("file:/jobs/cp one", " in file:/jobs/cp one: "),
        ("s3a://jobs/cp", " in s3a://jobs/cp: "),
        ("/jobs/cp", " in /jobs/cp: "),
        ("/jobs/cp one", ": "),
    ):
        file = f"{folder}/state/0/1/7.changelog"
        cause = f"org.apache.hadoop.fs.ChecksumException: Checksum error: {file} at 0 exp: 1 got: 2"
        told = str(what_failed(RuntimeError(LOADING.format(cause))))
        assert told.startswith(f"Spark cannot load its own state store{named}An error")
        assert f"Checksum error: {file}" in told
        assert "Save the state of batch 5: write_savepoint(checkpoint, folder, batch=5)" in told
    unnamed = LOADING.format("java.io.EOFException")
    told = str(what_failed(RuntimeError(unnamed)))
    assert told.startswith("Spark cannot load its own state store: An error occurred during loading state: ")
    assert "java.io.EOFException. A file was damaged or removed" in told
    assert "write_savepoint(checkpoint, folder, batch=its number)" in told
    assert str(what_failed(Stopped([], RuntimeError(unnamed), folder=f"{tmp_path}/none"))).startswith(
        f"Spark cannot load its own state store in {tmp_path}/none: "
    )
    commits = tmp_path / "cp" / "commits"
    commits.mkdir(parents=True)
    for number, way_out in ((0, "No batch before it has state"), (9, "batch=8)")):
        (commits / str(number)).touch()
        told = str(what_failed(Stopped([], RuntimeError(unnamed), folder=f"file:{tmp_path}/cp")))
        assert told.startswith(f"Spark cannot load its own state store in file:{tmp_path}/cp: ")
        assert way_out in told
    assert "The last batch was 9, and Spark does not say from which one on the state is damaged" in told
    ended = unnamed + f"=== Streaming Query ===\nWrite [path=/out, checkpointLocation={tmp_path}/cp], Append"
    assert str(what_failed(RuntimeError(ended))).startswith(
        f"Spark cannot load its own state store in {tmp_path}/cp: "
    )
    assert "batch=8)" in str(what_failed(RuntimeError(ended)))
    table = LOADING.format(
        "org.rocksdb.RocksDBException: Corruption: block checksum mismatch in /tmp/spark/x/000008.sst"
    )
    told = str(what_failed(Stopped([], RuntimeError(table), folder=f"file:{tmp_path}/cp")))
    assert "Corruption: block checksum mismatch" in told
    assert "batch=8)" in told


OPEN = (
    "java.lang.AssertionError: assertion failed\n\tat scala.Predef$.assert(Predef.scala:264)\n\tat org.apache.spark.sql."
    "execution.streaming.state.StateStoreChangelogWriterV2.writePutOrMergeRecord(StateStoreChangelog.scala:251)"
)
"""As Spark 4.1.4 said it, of an executor in which a task was cancelled."""


def test_a_state_store_that_was_left_open_is_not_damaged() -> None:
    """Another assertion may be about anything."""
    told = str(what_failed(RuntimeError(LOADING.format(OPEN))))
    assert told.startswith("Spark's own state store was left in the midst of a batch in one executor")
    other = OPEN.replace("StateStoreChangelogWriterV2", "RocksDBFileManager")
    assert "A file was damaged or removed" in str(what_failed(RuntimeError(LOADING.format(other))))


def test_a_batch_that_kafkas_connector_cannot_report() -> None:
    """As Spark 4.1 says it, without a trace."""
    text = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Cannot invoke "
        '"scala.collection.IterableOps.map(scala.Function1)" because the return value of "scala.Option.get()" is null'
    )
    told = str(what_failed(RuntimeError(text)))
    assert told.startswith("Spark's connector for Kafka could not report a batch, which is done")


def test_a_table_that_lost_what_executors_had() -> None:
    """Delta keeps the rows of a MERGE in executors."""
    text = (
        'Traceback (most recent call last):\n  File "x.py", line 1, in y\noperators.sinks.interface.SinkError: batch 3 of '
        "query 'q' was not written by DeltaSink('/t'): Py4JJavaError: An error occurred while calling o1453.sql.\n"
        ": org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_265_0 not found!\n"
        "\tat org.apache.spark.errors.SparkCoreErrors$.x(SparkCoreErrors.scala:100)\n"
    )
    said, why = str(what_failed(RuntimeError(text))).rsplit("\n", 1)
    assert said.startswith("batch 3 of query 'q' was not written by DeltaSink('/t')")
    assert why.startswith("executors of Spark were lost (none is named)")


class CausedError(RuntimeError):
    """An error of Spark's, whose causes have texts of their own."""

    def __init__(self, text: str, cause: Exception | None = None) -> None:
        super().__init__(text)
        self._cause = cause


def test_a_cause_with_a_text_of_its_own_is_told() -> None:
    """As queries have them; what Java says of circles is no cause."""
    text = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  SQLSTATE: 58030"
    inner = CausedError("java.io.EOFException: Stream ended prematurely\n\tat net.jpountz.lz4")
    told = str(
        what_failed(
            CausedError(f"[STREAM_FAILED] terminated with exception: {text}", CausedError(text, inner))
        )
    )
    assert (
        "loading state: java.io.EOFException: Stream ended prematurely. A file was damaged or removed" in told
    )
    assert "loading state. A file" in str(what_failed(CausedError(text, CausedError(text))))
    name = "java.lang.NullPointerException"
    circle = f"{text}\nCaused by: {name}\nCaused by: [CIRCULAR REFERENCE: {name}]"
    assert "loading state: java.lang.NullPointerException. A file" in str(what_failed(RuntimeError(circle)))


def test_a_lost_list_of_operators_is_told() -> None:
    """Nothing reads the state without it."""
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [STDS_FAILED_TO_READ_OPERATOR_METADATA] Failed to read the "
        "operator metadata for checkpointLocation=file:/jobs/cp/state/0 and batchId=5.\nEither the file does not exist"
    )
    told = str(what_failed(RuntimeError(text)))
    assert told.startswith("Spark cannot read its list of the operators with state in file:/jobs/cp: ")
    assert "Restore it from a copy of the checkpoint" in told


@pytest.mark.slow
@pytest.mark.spark
def test_a_trigger_for_real_time_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """By Spark, when the query starts or soon after; the way out is told."""
    if "realTime" not in inspect.signature(DataStreamWriter.trigger).parameters:
        pytest.skip("this PySpark has no trigger(realTime=...): 4.1 and later have it")
    records = spark.readStream.format("rate").load().selectExpr("timestamp AS at", "value AS k")
    counted = SlidingWindows("5 seconds").group_by("k").aggregate(n=agg.count()).apply(records, "at")
    for sink in ("noop", "console"):
        writer = counted.writeStream.format(sink).outputMode("update").trigger(realTime="5 seconds")
        with pytest.raises((IllegalArgumentException, StreamingQueryException)) as refused:
            writer.option("checkpointLocation", str(tmp_path / sink)).start().awaitTermination(60)
        found = what_failed(refused.value)
        assert found is not None
        assert found.startswith("Spark refuses trigger(realTime=...) for this query")
        assert "use trigger(processingTime=...)" in found
