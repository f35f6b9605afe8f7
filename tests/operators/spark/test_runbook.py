"""Entries of the runbook in operations.md, tried: from the state that an entry describes, what it says is done literally."""

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from operators import TumblingWindows, what_failed
from operators import aggregates as agg
from operators.command.main import main
from tests.operators.spark.frames import rows, run_query, stream, use_up, write_source

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]
HERE = "tests/operators/spark/test_runbook.py"
NOTHING = "tests/operators/spark/test_nothing_comes_out.py"
SLOW = "tests/operators/spark/test_slow_queries.py"
WHERE_HELD = "tests/operators/spark/test_where_held.py"
TRIED = {
    "WindowsQueryFailed": f"{HERE}::test_a_query_that_a_record_ends",
    "WindowsWatermarkLags": f"{NOTHING}::test_queries_that_cannot_keep_up",
    "WindowsWatermarkAhead": "tests/operators/spark/test_repair.py::test_followed_literally_it_leaves_the_rows_of_one_stream",
    "WindowsManyLateRecords": f"{HERE}::test_late_records_are_looked_at_and_get_more_grace",
    "WindowsManyBadRecords": f"{HERE}::test_late_records_are_looked_at_and_get_more_grace",
    "WindowsFailedRecords": f"{HERE}::test_a_query_that_a_record_ends",
    "WindowsSnapshotsFail": f"{HERE}::test_a_snapshot_folder_that_fails_and_is_there_again",
    "WindowsStateGrows": f"{HERE}::test_local_copies_are_deleted_and_the_largest_keys_are_shown",
    "WindowsNoBatches": f"{SLOW}::test_no_batches",
    "WindowsSlowCommits": f"{SLOW}::test_commits_on_a_slow_disk",
    "WindowsSlowRestores": f"{SLOW}::test_restores_from_slow_storage",
    "batches get slower": f"{SLOW}::test_commits_on_a_slow_disk",
    "WindowsSkewedBuckets": "tests/operators/runtime/test_skew.py::test_a_column_that_splits_the_largest_key",
    "a disk is full": "tests/faults/test_full_disk.py::test_a_disk_that_spark_finds_full_is_named",
    '"functions of the operator fail in the process that has copies of buckets"': (
        f"{WHERE_HELD}::test_functions_that_fail_only_there_are_called_here"
    ),
    '"the process that had the copy of ... has died"': (
        f"{WHERE_HELD}::test_a_process_that_the_kernel_kills_for_memory_is_replaced"
    ),
    '"no process for state can be started"': (
        "tests/operators/spark/test_starter.py::test_an_order_that_cannot_be_carried_out"
    ),
    '"the worker waits ... before it asks the process for state again"': (
        f"{WHERE_HELD}::test_a_process_that_stands_still_is_left_out"
    ),
    "nothing comes out": f"{NOTHING}::test_what_each_cause_looks_like",
    "the snapshot folder grows": f"{HERE}::test_a_snapshot_folder_that_fails_and_is_there_again",
    "memory is exhausted": "tests/operators/spark/test_memory_exhausted.py::test_rocksdb_goes_on_where_memory_is_exhausted",
    "a result is wrong": f"{HERE}::test_late_records_are_looked_at_and_get_more_grace",
}
"""The test of each entry."""
WINDOWS = TumblingWindows("5 seconds", grace="1 second").group_by("k")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Files of records, many of which are late."""
    write_source(tmp_path / "in", files=4, rows=200, seed=7, disorder_ms=9_000)
    return tmp_path / "in"


def test_each_entry_is_tried() -> None:
    """By a test that brings about what it describes, and does what it says."""
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    table = page.partition("## Runbook")[2].partition("###")[0]
    entries = {*re.findall(r"^### (Windows\w+)$", page, re.MULTILINE)}
    entries |= {*re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)} - {"symptom"}
    assert entries == TRIED.keys()
    for place in TRIED.values():
        file, _, test = place.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text("utf-8"), place


def test_logs_say_what_entries_quote() -> None:
    """An operator searches the page for the words of a log."""
    code = "".join(path.read_text("utf-8") for path in (ROOT / "operators").rglob("*.py"))
    logged = re.sub(r'"\s*\n\s*f?"', "", code)
    quoted = [entry.strip('"').split("...") for entry in TRIED if entry.startswith('"')]
    missing = [part for parts in quoted for part in parts if part.strip() not in logged]
    assert len(quoted) > 3
    assert [] == missing


def failing(on_error: str) -> Any:
    """An operator whose function raises for one value."""

    def add(total: int, value: int) -> int:
        if value == 13:
            raise ArithmeticError("thirteen")
        return total + value

    total = agg.fold(0, add, "v", type="bigint", merge=lambda a, b: a + b, on_error=on_error)
    return WINDOWS.aggregate(total=total)


@pytest.mark.slow
def test_a_query_that_a_record_ends(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """`what_failed` names the record; with on_error="skip" the same query goes on, and counts what it skips."""
    with pytest.raises(StreamingQueryException) as caught:
        run_query(failing("fail").apply(stream(spark, source), "at"), tmp_path / "out", tmp_path / "cp")
    told = str(what_failed(caught.value))
    assert re.search(
        r"add raised ArithmeticError: thirteen\. The record: k=.*, event time 2023-.*, v=13$", told
    )

    again = failing("skip").apply(stream(spark, source), "at")
    query = run_query(again, tmp_path / "out", tmp_path / "cp")
    bad = spark.read.parquet(str(source)).where("v = 13").count()
    counts = [each["observedMetrics"]["windows_out"]["counts"] for each in query.recentProgress]
    assert sum(each["failed"] for each in counts) == bad > 0
    undisturbed = run_query(
        failing("skip").apply(stream(spark, source), "at"), tmp_path / "o2", tmp_path / "c2"
    )
    assert undisturbed.exception() is None
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == rows(spark.read.parquet(str(tmp_path / "o2")))


@pytest.mark.slow
def test_late_records_are_looked_at_and_get_more_grace(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """One checkpoint goes from `apply` to `apply_with_late` and back, and to a longer grace; no window differs."""
    op = WINDOWS.aggregate(n=agg.count(), total=agg.sum("v"))
    given, files = tmp_path / "given", sorted(source.iterdir())
    given.mkdir()
    late_rows, windows = tmp_path / "late", tmp_path / "windows"

    def write(some: DataFrame, late: DataFrame, number: int) -> None:
        some.write.parquet(f"{windows}/{number}")
        late.write.parquet(f"{late_rows}/{number}")

    def run(number: int, *, with_late: bool, running: Any = op) -> None:
        shutil.copy2(files[number], given)
        frame = stream(spark, given)
        if with_late:
            both = running.apply_with_late(frame, "at").foreach_batch(write)
        else:
            both = running.apply(frame, "at").writeStream.foreachBatch(
                lambda some, batch: some.write.parquet(f"{windows}/{batch}")
            )
        use_up(both.option("checkpointLocation", str(tmp_path / "cp")).start)

    for number, with_late in enumerate((False, True, False)):
        run(number, with_late=with_late)
    late = spark.read.option("recursiveFileLookup", True).parquet(str(late_rows))
    how_late = late.where("reason = 'late'").groupBy("record.k").agg({"late_by_ms": "max"}).collect()
    assert max(row[1] for row in how_late) > 1_000
    assert Counter(row.reason for row in late.groupBy("reason").count().collect()) == {"late": 1}

    found = spark.read.option("recursiveFileLookup", True).parquet(str(windows))
    run_query(op.apply(stream(spark, given), "at"), tmp_path / "undisturbed", tmp_path / "cp-undisturbed")
    assert rows(found) == rows(spark.read.parquet(str(tmp_path / "undisturbed")))
    assert found.count() > 20

    longer = TumblingWindows("5 seconds", grace="9 seconds").group_by("k")
    run(3, with_late=False, running=longer.aggregate(n=agg.count(), total=agg.sum("v")))

    # A result is wrong: the same operator on a bounded frame over the window's records. Late ones count there.
    row = found.orderBy("window.start").first()
    records = spark.read.parquet(str(source)).where(F.col("k").eqNullSafe(row.k))
    inside = records.where((F.col("at") >= row.window.start) & (F.col("at") < row.window.end))
    assert [(each.window, each.n >= row.n) for each in op.apply(inside, "at").collect()] == [
        (row.window, True)
    ]


@pytest.mark.slow
def test_local_copies_are_deleted_and_the_largest_keys_are_shown(
    spark: SparkSession, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """While no query runs: the next start restores them."""
    op = WINDOWS.aggregate(n=agg.count())
    options = {"state.directory": str(tmp_path / "local")}
    given, files = tmp_path / "given", sorted(source.iterdir())
    given.mkdir()
    for number, backend in enumerate(("rocksdb", "rocksdb", "memory", "rocksdb")):
        shutil.copy2(files[number], given)
        out = op.apply(stream(spark, given), "at", backend=backend, options=options)
        run_query(out, tmp_path / "out", tmp_path / "cp")
        # A process for state may go on with the files that it has open.
        assert (tmp_path / "local").exists() or number > 0
        shutil.rmtree(tmp_path / "local", ignore_errors=True)
    run_query(op.apply(stream(spark, source), "at"), tmp_path / "o2", tmp_path / "c2")
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == rows(spark.read.parquet(str(tmp_path / "o2")))
    capsys.readouterr()
    assert main(["summary", str(tmp_path / "cp"), "--keys", "10"]) == 0
    assert "key-3" in capsys.readouterr().out


@pytest.mark.slow
def test_a_snapshot_folder_that_fails_and_is_there_again(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Batches continue meanwhile; then snapshots are complete again, and folders of queries that are gone may go."""
    folder, given, files = tmp_path / "snapshots", tmp_path / "given", sorted(source.iterdir())
    given.mkdir()
    op = WINDOWS.aggregate(n=agg.count())
    options = {"state.snapshots.folder": str(folder), "state.snapshots.batches": 1}

    def run(number: int, name: str = "cp") -> list[dict[str, int]]:
        shutil.copy2(files[number], given)
        out = op.apply(stream(spark, given), "at", options=options)
        query = run_query(out, tmp_path / f"out-{name}", tmp_path / name)
        return [each["observedMetrics"]["windows_out"]["counts"] for each in query.recentProgress]

    run(0)
    shutil.move(folder, tmp_path / "elsewhere")
    folder.write_text("no folder any more")
    assert sum(each["snapshot_failures"] for each in [*run(1), *run(2)]) > 0
    folder.unlink()
    shutil.move(tmp_path / "elsewhere", folder)
    of_this_query = {path.name for path in folder.iterdir()}
    assert run(3)[-1]["snapshots_overdue"] == 0
    run_query(op.apply(stream(spark, source), "at", options=options), tmp_path / "o2", tmp_path / "c2")
    shutil.rmtree(tmp_path / "c2")
    for path in folder.iterdir():
        if path.name not in of_this_query:
            shutil.rmtree(path)
    run_query(op.apply(stream(spark, given), "at", options=options), tmp_path / "out-cp", tmp_path / "cp")
    assert rows(spark.read.parquet(str(tmp_path / "out-cp"))) == rows(
        spark.read.parquet(str(tmp_path / "o2"))
    )


@pytest.mark.slow
def test_what_sparks_deduplication_drops_never_comes_to_the_operator(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark counts it in its own operator, which is behind this one in the list. It drops what is late by two batches."""
    source = tmp_path / "in"
    write_source(source, files=4, rows=200, seed=7, disorder_ms=30_000)
    frame = stream(spark, source).selectExpr("*", "explode(array(1, 2)) copy")
    frame = frame.withWatermark("at", "1 second").dropDuplicatesWithinWatermark(["k", "at", "v", "x"])
    query = run_query(WINDOWS.aggregate(n=agg.count()).apply(frame, "at"), tmp_path / "out", tmp_path / "cp")
    of_spark = [each["stateOperators"][-1] for each in query.recentProgress]
    late = sum(each["numRowsDroppedByWatermark"] for each in of_spark)
    duplicates = sum(each["customMetrics"]["numDroppedDuplicateRows"] for each in of_spark)
    assert (late > 50, duplicates > 50) == (True, True)
    came = sum(each["observedMetrics"]["windows_in"]["counts"]["rows"] for each in query.recentProgress)
    assert came + late + duplicates == 2 * spark.read.parquet(str(source)).count()
