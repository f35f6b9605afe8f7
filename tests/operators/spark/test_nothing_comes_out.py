"""Queries whose watermark lags, or that give no rows: brought about, looked at, and ended as the runbook and its links say."""

import ast
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from operators import TumblingWindows, read_windows
from operators import aggregates as agg
from tests.docs.blocks import blocks
from tests.operators.monitoring.rules import fires, scrape
from tests.operators.spark.frames import rows, run_query, stream
from tests.operators.spark.tried import ROWS, Query, write
from tests.patience import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGE = Path(__file__).parents[3] / "docs" / "nothing-comes-out.md"
WINDOWS = TumblingWindows("5 seconds", grace="1 second").group_by("k")
COUNT = WINDOWS.aggregate(n=agg.count())
SLOW_S = 0.04
LAGS = "WindowsWatermarkLags"
HOURS_US = 3 * 3_600 * 1_000_000


def now_us() -> int:
    """The time, in microseconds, at the beginning of a window."""
    return int(time.time()) // 5 * 5 * 1_000_000


def test_a_silent_input_holds_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    """`sources` names it. A heartbeat in it lets the windows come, and ends the alert."""
    both = WINDOWS.cogroup(left={"n": agg.count()}, right={"m": agg.count()})
    for name in ("left", "right"):
        write(tmp_path / name, 0, now_us() - HOURS_US)
    query = Query(spark, tmp_path)
    frames = {name: stream(spark, tmp_path / name) for name in ("left", "right")}
    with query.running(both.apply(frames, "at")) as run:
        run.processAllAvailable()
        first = query.exported(run)
        write(tmp_path / "left", 1, now_us() - 60_000_000)
        run.processAllAvailable()
        last = query.exported(run)
        assert fires(LAGS, first, last, clock=time.time())
        assert last["windows_records_total"] - first["windows_records_total"] == ROWS
        assert [source["numInputRows"] for source in run.lastProgress["sources"]] == [ROWS, 0]
        assert (last["windows_emitted_rows_total"], last["windows_live_panes"] > 0) == (0, True)

        write(tmp_path / "right", 1, now_us() - 60_000_000, key="heartbeat")
        run.processAllAvailable()
        after = query.exported(run)
        assert not fires(LAGS, last, after, clock=time.time())
    whole = both.apply({name: spark.read.parquet(str(tmp_path / name)) for name in frames}, "at")
    found = rows(spark.read.parquet(str(tmp_path / "out")))
    assert min(found)[2:] == ("a", ROWS, ROWS)
    assert {*found} <= {*rows(whole)}


def test_queries_that_cannot_keep_up(spark: SparkSession, tmp_path: Path) -> None:
    """Batches take longer than the trigger's interval: in the step, or before it. Without the slow column, it catches up."""

    def add(total: int, value: int) -> int:
        time.sleep(SLOW_S)
        return total + value

    slow = {
        "step": agg.fold(0, add, "v", type="bigint", name="slow"),
        "before": agg.fold(0, add, "v", type="bigint", merge=lambda a, b: a + b, name="slow"),
    }
    for where, column in slow.items():
        (tmp_path / where).mkdir()
        for number in range(4):
            write(tmp_path / where / "in", number, now_us() - HOURS_US)
        query = Query(spark, tmp_path / where)
        out = COUNT.aggregate(slow=column).apply(stream(spark, tmp_path / where / "in"), "at")
        with query.running(out, trigger="1 second") as run:

            def batches(query: Query = query, name: str = run.name) -> float:
                return scrape(query.output, name).get("windows_batches_total", 0)

            wait_until(lambda: batches() > 1, "two batches", batches)
            last = scrape(query.output, run.name)
        assert fires(LAGS, last, clock=time.time())
        assert last["windows_last_batch_seconds"] > 1
        times = {name: last[f"windows_{name}_seconds_total"] for name in ("step", "commit", "restore")}
        if where == "step":
            assert max(times, key=times.__getitem__) == "step"
            assert times["step"] > 2 * ROWS * SLOW_S
        else:
            assert last["windows_batch_seconds_total"] - sum(times.values()) > 2 * ROWS * SLOW_S

    write(tmp_path / "before" / "in", 9, now_us() - 60_000_000)
    after, _ = query.run(COUNT, options={"state.evolution": "adapt"})
    assert not fires(LAGS, last, after, clock=time.time())
    expected = COUNT.apply(spark.read.parquet(str(tmp_path / "before" / "in")), "at")
    found = spark.read.parquet(str(tmp_path / "before" / "out")).select("window", "k", "n")
    assert min(rows(found)) == min(rows(expected))
    assert {*rows(found)} <= {*rows(expected)}


class Look:
    """What `look` of the page prints of a query's batches: a dictionary by column for each."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._names: dict[str, Any] = {}
        tree = ast.parse(next(blocks(PAGE)).code)
        tree.body = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
        exec(compile(tree, str(PAGE), "exec"), self._names)  # noqa: S102 - the page's own function

    def __call__(self, query: Any) -> list[dict[str, str]]:
        self._capsys.readouterr()
        self._names["look"](query)
        head, *lines = self._capsys.readouterr().out.splitlines()
        names = [" ".join(name.split()) for name in head.split("  ") if name.strip()]
        return [dict(zip(names, line.split(), strict=True)) for line in lines]


def test_what_each_cause_looks_like(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Causes of the page's table, one after another: each shows the numbers that it says, and its way out gives the rows."""
    look, source = Look(capsys), tmp_path / "in"

    def run(frame: DataFrame, out: str = "out", cp: str = "cp") -> list[dict[str, str]]:
        return look(run_query(COUNT.apply(frame, "at"), tmp_path / out, tmp_path / cp))

    def table(name: str = "out") -> list[Any]:
        return [row.n for row in spark.read.parquet(str(tmp_path / name)).orderBy("window").collect()]

    write(source, 0)
    files = stream(spark, source)
    batch, *_, moved = run(files)
    assert (batch["read"], batch["emitted"], batch["in state"]) == (str(ROWS), "0", "1")
    assert moved["watermark"] > "2023", (
        "the watermark moves, nothing is emitted: the window is not closed yet"
    )
    still = read_windows(tmp_path / "cp", COUNT, spark.read.parquet(str(source)), "at")
    assert [row.n for row in still.collect()] == [ROWS]

    assert {each["read"] for each in run(files)} <= {"0"}, "nothing is read: the source has nothing new"
    write(source, 25)
    assert run(files)[0]["emitted"] == "1"
    assert table() == [ROWS]

    write(source, 26, at=1_600_000_000_000_000)
    (late, *_) = run(files)
    assert late["late"] == late["read"] == str(ROWS), "all records are late"

    query = run_query(
        COUNT.apply(files.selectExpr("k", "v", "CAST(NULL AS timestamp) at"), "at"),
        tmp_path / "bad",
        tmp_path / "cp-bad",
    )
    bad = [each["observedMetrics"]["windows_in"]["counts"]["bad"] for each in query.recentProgress]
    assert bad == [each["numInputRows"] for each in query.recentProgress], "event times are null"

    wrong = files.selectExpr("k", "v", "timestamp_seconds(unix_millis(at)) at")
    (far, *_) = run(wrong, "far", "cp-far")
    assert far["newest event"][:3] in ("+55", "559"), "milliseconds read as seconds"

    skipped = run(files, "out", "cp-other")
    assert {each["read"] for each in skipped} == {"0"}, "a new checkpoint writes into an old output folder"
    assert table() == [ROWS]
    assert sum(int(each["emitted"]) for each in run(files, "new", "cp-new")) == len(table("new")) == 1
