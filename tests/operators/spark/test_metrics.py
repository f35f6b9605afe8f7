"""What a stream tells of itself: metrics that agree with its state, a line for each batch, and what failed in a worker."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from operators import (
    RollingWindows,
    SlidingWindows,
    TumblingWindows,
    print_batches,
    report_batches,
    what_failed,
)
from operators import aggregates as agg
from operators.monitoring import PrometheusOutput
from operators.spark.base.observed import COUNTS, totals
from serializers.keys import bucket_of, encode_keys
from state_backends import read_state, summarize_state
from tests.operators.spark.frames import BASE_US, operator, run_query, stream, write_numbered, write_source
from tests.patience import wait_until

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of records."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=4, rows=500, seed=5)
    return folder


@pytest.mark.slow
def test_metrics_agree_with_the_state_and_the_rows(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """Live keys, panes and bytes are those of the checkpoint, and every row out is counted as what it is."""
    lines: list[str] = []
    listener = print_batches(spark, lines.append)
    try:
        query = run_query(
            operator().apply(stream(spark, source), event_time="at", backend="rocksdb", name="ten"),
            tmp_path / "out",
            tmp_path / "cp",
        )
        batches = [p for p in query.recentProgress if p["observedMetrics"]]
        wait_for(lines, 4)
    finally:
        spark.streams.removeListener(listener)
    told = [p["observedMetrics"]["ten_out"]["counts"] for p in batches]
    total = {name: sum(batch[name] for batch in told) for name in told[0]}
    written = spark.read.parquet(str(tmp_path / "out")).count()
    assert (total["rows"], total["late"]) == (2_000, 0)
    assert total["windows"] == total["windows_closed"] == written > 0
    assert total["windows_updated"] == total["windows_retracted"] == 0
    state = read_state(tmp_path / "cp")
    assert total["panes_opened"] == spark.read.parquet(str(source)).select("k", "at").distinct().count()
    last = told[-2]
    assert [3, 0] == [batch["buckets"] for batch in told[-2:]], "the last batch only moves the watermark"
    assert last["live_panes"] == state.count()
    assert last["live_keys"] == state.select("k").distinct().count()
    (size,) = summarize_state(tmp_path / "cp").selectExpr("sum(bytes)").first()
    assert 0 < size - last["state_bytes"] < 0.01 * size, "the summary counts the keys of pages, too"
    assert min(total["pages_read"], total["pages_written"], total["changed_bytes"], total["step_ms"]) > 0
    found = [
        re.match(r"batch \d+, ten: 500 rows in .* rows out; 8 keys and .* panes in 0\.\d MiB", x)
        for x in lines
    ]
    assert sum(map(bool, found)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tumbling", "rolling"])
def test_the_largest_bucket_and_key_are_told(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """Of panes that tasks made of records, and of records as they are: the largest, not the sum, in each batch anew."""
    keys = [[*"aaaaaaaabc", None], [*"bbbbcdefgh", None, None]]
    for number, chosen in enumerate(keys):
        at = [BASE_US + 1_000_000 * (100 * number + n) for n in range(len(chosen))]
        times = pa.array(at, pa.timestamp("us", "UTC"))
        values = {"k": pa.array(chosen, pa.string()), "at": times, "v": [1] * len(at), "x": [1.0] * len(at)}
        (tmp_path / "in").mkdir(exist_ok=True)
        write_numbered(pa.table(values), tmp_path / "in", number)
    windows = TumblingWindows("1 hour") if kind == "tumbling" else RollingWindows({"hour": "1 hour"})
    out = windows.group_by("k").aggregate(n=agg.count()).apply(stream(spark, tmp_path / "in"), "at")
    query = run_query(out, tmp_path / "out", tmp_path / "cp")
    told = [p["observedMetrics"]["windows_out"]["counts"] for p in query.recentProgress if p["numInputRows"]]
    assert len(told) == len(keys)
    for chosen, counts in zip(keys, told, strict=True):
        by_bucket = Counter(bucket_of(encode_keys([pa.array([k], pa.string())])[0], 3) for k in chosen)
        assert len(by_bucket) > 1
        assert (len(chosen), max(by_bucket.values())) == (counts["rows"], counts["max_bucket_rows"])
        assert counts["max_key_rows"] == max(Counter(chosen).values())
        assert counts["state_bytes"] / counts["buckets"] <= counts["max_bucket_bytes"] < counts["state_bytes"]
        assert (
            counts["changed_bytes"] / counts["pages_written"]
            <= counts["max_page_bytes"]
            < counts["changed_bytes"]
        )
        spent = counts["step_ms"] + counts["commit_ms"] + counts["restore_ms"]
        assert spent / counts["buckets"] - 2 <= counts["max_bucket_ms"] <= spent + 2, "rounded one by one"


@pytest.mark.slow
def test_tasks_send_few_bytes_to_the_driver(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """Spark sends the expressions of metrics with each task's result: a sum for each made that 65 kB, of 13 without any."""
    context = spark.sparkContext
    out = operator().apply(stream(spark, source), "at")
    query = run_query(out, tmp_path / "out", tmp_path / "cp")
    jobs = context.statusTracker().getJobIdsForGroup(str(query.runId))
    stages = {stage for job in jobs for stage in context.statusTracker().getJobInfo(job).stageIds}
    store, sizes = context._jsc.sc().statusStore(), []
    for stage in stages:
        tasks = store.taskList(stage, 0, 100)
        metrics = [tasks.apply(n).taskMetrics() for n in range(tasks.size())]
        sizes += [one.get().resultSize() for one in metrics if one.isDefined()]
    assert 10_000 < max(sizes) < 35_000


SCRIPT = """
from operators import TumblingWindows, print_batches, spark_session
from operators import aggregates as agg

spark = spark_session(master="local[1]", buckets=1, conf={"spark.ui.enabled": "false"})
print_batches(spark)
source = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
rows = TumblingWindows("1 second").aggregate(n=agg.count()).apply(source, "timestamp")
query = rows.writeStream.format("noop").option("checkpointLocation", "checkpoint").start()
while query.lastProgress is None:
    query.awaitTermination(1)
query.stop()
print("the end")
"""


@pytest.mark.slow
def test_a_script_may_end_without_stopping_spark(tmp_path: Path) -> None:
    """Java calls no listener of a process that has ended, and so prints no trace."""
    program = tmp_path / "script.py"
    program.write_text(SCRIPT)
    command = [sys.executable, str(program)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "the end" in run.stdout
    assert "PythonStreamingQueryListenerWrapper" not in run.stderr
    assert "Py4JException" not in run.stderr


def running(output: PrometheusOutput) -> list[float]:
    """The values that say whether queries run."""
    families = output.registry.collect()
    return [one.value for family in families for one in family.samples if "query_running" in one.name]


def wait_for(lines: list[str], count: int) -> None:
    """Wait for lines: Spark tells its listeners of a batch some time after it."""
    wait_until(lambda: len(lines) >= count, f"{count} lines", lambda: len(lines))


@pytest.mark.slow
def test_a_failure_in_a_worker_is_told_on_the_driver(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Operator, bucket, batch and the error itself are found in what Spark raises, without its traces."""

    def stumble(total: int, value: int) -> int:
        if value == 77:
            raise ArithmeticError("77 is more than I can count to")
        return total + value

    op = SlidingWindows("2 seconds").group_by("k").aggregate(n=agg.fold(0, stumble, "v", type="bigint"))
    output = PrometheusOutput()
    listener = report_batches(spark, output)
    try:
        with pytest.raises(StreamingQueryException) as caught:
            run_query(op.apply(stream(spark, source), "at", name="sums"), tmp_path / "out", tmp_path / "cp")
        wait_until(lambda: running(output) == [0], "the end of the query", lambda: running(output))
    finally:
        spark.streams.removeListener(listener)
    told = what_failed(caught.value)
    assert told is not None
    assert re.match(r"operator 'sums', bucket [012] of 3, batch \d: ", told), told
    assert "77 is more than I can count to" in told
    assert "Traceback" not in told
    assert "\n\tat " not in told
    assert what_failed(ValueError("of another sort")) is None
    bounded = op.apply(spark.read.parquet(str(source)), "at", name="sums")
    with pytest.raises(Exception, match="77 is more") as caught_:
        bounded.collect()
    assert re.match(
        r"operator 'sums', partition \d+: .*77 is more than I can count to\. The record: k='key-\d+', .*, v=77$",
        what_failed(caught_.value),
    )


@pytest.mark.slow
def test_what_two_attempts_of_a_task_counted_counts_once(spark: SparkSession) -> None:
    """Whatever the attempts took; values of others are added, or the largest is taken."""
    told = [[7, 3, 10, 5], [9, 4, 20, 6], [7, 3, 10, 50], None, [1, 2, 30, 7]]
    frame = spark.createDataFrame([(counts,) for counts in told], f"{COUNTS} array<bigint>")
    for frames in (frame.repartition(3), frame.coalesce(1)):
        (found,) = frames.agg(totals(["most", "rows", "ms"], largest=1).alias("t")).first()
        assert {"most": 4, "rows": 60, "ms": 18} == found
    (none,) = frame.where("false").agg(totals(["most", "rows"]).alias("t")).first()
    assert {"most": 0, "rows": 0} == none
