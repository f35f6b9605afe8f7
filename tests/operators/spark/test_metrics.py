"""What a stream tells of itself: metrics that agree with its state, a line for each batch, and what failed in a worker."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from operators import SlidingWindows, print_batches, report_batches, what_failed
from operators import aggregates as agg
from operators.monitoring import PrometheusOutput
from state_backends import read_state, summarize_state
from tests.operators.spark.frames import operator, run_query, stream, write_source
from tests.patience import wait_until

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of records."""
    folder = tmp_path_factory.mktemp("source") / "in"
    write_source(folder, files=4, rows=500, seed=5)
    return folder


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
    told = [{k: v or 0 for k, v in p["observedMetrics"]["ten_out"].asDict().items()} for p in batches]
    total = {name: sum(batch[name] for batch in told) for name in told[0]}
    written = spark.read.parquet(str(tmp_path / "out")).count()
    assert (total["rows"], total["late"]) == (2_000, 0)
    assert total["windows"] == total["windows_closed"] == written > 0
    assert total["windows_updated"] == total["windows_retracted"] == 0
    state = read_state(tmp_path / "cp")
    assert total["panes_opened"] == spark.read.parquet(str(source)).select("k", "at").distinct().count()
    assert told[-1]["buckets"] == 3
    assert told[-1]["live_panes"] == state.count()
    assert told[-1]["live_keys"] == state.select("k").distinct().count()
    size, keys = summarize_state(tmp_path / "cp").selectExpr("sum(bytes)", "sum(keys)").first()
    assert 0 < size - told[-1]["state_bytes"] < 10 * keys  # the summary counts the keys' bytes too
    assert min(total["pages_read"], total["pages_written"], total["changed_bytes"], total["step_ms"]) > 0
    found = [
        re.match(r"batch \d+, ten: 500 rows in .* rows out; 8 keys and .* panes in 0\.\d MiB", x)
        for x in lines
    ]
    assert sum(map(bool, found)) == 4


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
        r"operator 'sums', partition \d+: .*77 is more than I can count to$", what_failed(caught_.value)
    )
