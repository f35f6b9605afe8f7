"""The command on checkpoints of real queries, in the session of the tests and as a process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from operators import HoppingWindows, read_windows
from operators import aggregates as agg
from operators.command.main import main
from state_backends import read_state, summarize_state
from state_backends.checkpoints.savepoint import read_header
from tests.compatibility.archives import CHECKPOINTS, unpack
from tests.effort import slow_but

ROOT = Path(__file__).parents[3]
WRITTEN_BY = (4, 3)
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        tuple(map(int, pyspark.__version__.split(".")[:2])) < WRITTEN_BY,
        reason="Spark 4.3 wrote the checkpoints; Spark reads those of its own and of earlier versions only",
    ),
]
JOB = """
from operators import HoppingWindows, aggregates as agg

op = HoppingWindows("30 seconds", "10 seconds", grace="20 seconds").group_by("k").aggregate(n=agg.count())
"""
INPUT = "k string, at timestamp"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a chain of two operators, stopped: hopping windows (1), and tumbling ones over them (0)."""
    return unpack(CHECKPOINTS / "rocksdb-chain.tar.gz", tmp_path_factory.mktemp("chain"))


@pytest.fixture
def printed(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Iterator[object]:
    """Runs a command in the session of the tests, and returns what it prints."""
    before = spark.conf.getAll

    def run(*arguments: object, code: int = 0) -> str:
        found = main([*map(str, arguments)])
        shown = capsys.readouterr()
        assert code == found, shown.err
        return shown.err if code else shown.out

    yield run
    assert before == spark.conf.getAll
    assert spark.range(3).count() == 3


@pytest.mark.slow
def test_a_summary_has_what_is_stored(spark: SparkSession, stored: Path, printed) -> None:
    """Of each operator: what it is, and the numbers that `summarize_state` has."""
    checkpoint = stored / "checkpoint"
    found = json.loads(printed("summary", checkpoint, "--json"))
    assert ["tumbling windows of 1 min", "hopping windows of 30 s every 10 s"] == [
        operator["title"] for operator in found["operators"]
    ]
    for number, operator in enumerate(found["operators"]):
        rows = (
            summarize_state(checkpoint, operator=number, spark=spark).orderBy("bucket", "segment").collect()
        )
        assert [(row.bucket, row.segment, row["keys"], row.panes, row.bytes) for row in rows] == [
            (bucket["bucket"], *(segment[name] for name in ("segment", "keys", "panes", "bytes")))
            for bucket in operator["buckets"]
            for segment in bucket["segments"]
        ]
    text = printed("summary", checkpoint, "--limit", 1)
    assert (
        f"query {found['query']}, after batch 3, watermark 2023-11-14 22:02:39.999 (times are in UTC)" in text
    )
    assert "operator 1: hopping windows of 30 s every 10 s" in text
    assert "5 keys, 8 panes, 365 B before compression" in text
    assert "the first 1 of 3 rows: --limit N shows more" in text


@pytest.mark.slow
def test_stored_panes_are_printed_and_written(
    spark: SparkSession, stored: Path, tmp_path: Path, printed
) -> None:
    """As a table, as JSON, and as files of each format: the rows of `read_state`."""
    state = ("state", stored / "checkpoint", "--operator-number", 1)
    names = ["k", "time"]
    expected = read_state(stored / "checkpoint", operator=1, spark=spark).orderBy(*names).toArrow()
    keys = expected.select(names).to_pylist()
    assert [row["k"] for row in keys[:3]] == [
        json.loads(line)["k"] for line in printed(*state, "--json", "--limit", 3).splitlines()
    ]
    table = printed(*state)
    assert "k     time                 n" == table.splitlines()[0]
    assert "8 rows" == table.splitlines()[-1]
    assert "the first 3 rows: --limit N shows more, --out FILE writes all" in printed(*state, "--limit", 3)

    parquet, json_lines, csv = tmp_path / "rows.parquet", tmp_path / "rows.json", tmp_path / "rows.csv"
    for file in (parquet, json_lines, csv):
        assert f"8 rows in {file}\n" == printed(*state, "--out", file)
    order = [(name, "ascending", "at_start") for name in names]
    read = pq.read_table(parquet)
    assert expected.to_pylist() == read.take(pyarrow.compute.sort_indices(read, order)).to_pylist()
    written = [json.loads(line) for line in json_lines.read_text().splitlines()]
    assert sorted((str(row["k"]), row["time"].isoformat()) for row in keys) == sorted(
        (str(row["k"]), row["time"]) for row in written
    )
    assert [*names, "n.count"] == pyarrow.csv.read_csv(csv).column_names
    assert 8 == pyarrow.csv.read_csv(csv).num_rows
    assert ["rows.csv", "rows.json", "rows.parquet"] == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.slow
def test_open_windows_are_those_of_read_windows(
    spark: SparkSession, stored: Path, tmp_path: Path, printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator is imported from the working directory; another one's state is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("job_of_windows.py").write_text(JOB)
    given = ("--operator", "job_of_windows:op", "--schema", INPUT, "--event-time", "at")
    op = HoppingWindows("30 seconds", "10 seconds", grace="20 seconds").group_by("k").aggregate(n=agg.count())
    frame = spark.createDataFrame([], INPUT)
    windows = read_windows(stored / "checkpoint", op, frame, "at", number=1)
    expected = sorted(
        (str(row.k), row.start.isoformat(), row.n)
        for row in windows.select("k", "window.start", "n").collect()
    )
    lines = printed(
        "windows", stored / "checkpoint", *given, "--operator-number", 1, "--json", "--limit", 100
    ).splitlines()
    found = [json.loads(line) for line in lines]
    assert expected == sorted((str(row["k"]), row["window"]["start"][:19], row["n"]) for row in found)
    refused = printed("windows", stored / "checkpoint", *given, code=1)
    assert "the checkpoint holds the state of another operator: size was 1 minute, is 30 seconds" in refused
    assert 1 == len(refused.splitlines())


@pytest.mark.slow
def test_a_savepoint_is_written_once(stored: Path, tmp_path: Path, printed) -> None:
    """Where to go on from is printed; a folder with a savepoint is refused."""
    text = printed("savepoint", stored / "checkpoint", tmp_path / "saved")
    assert f"5 entries in 1 file in {tmp_path}/saved" in text
    assert '\n  {"logOffset": 2}\n' in text
    assert f"a logOffset counts the lists of files in {stored}/checkpoint/sources: " in text
    assert 5 == sum(file.rows for file in read_header(str(tmp_path / "saved")).files)
    again = printed("savepoint", stored / "checkpoint", tmp_path / "saved", code=1)
    assert "already contains a savepoint: choose a new folder" in again


TITLES = {
    "spark-custom": (
        "session windows with a gap of 9 s",
        "custom operator Reminders, version 1",
        "custom operator Silence, version 1",
    ),
    "memory-windows": (
        "tumbling windows of 30 s",
        "hopping windows of 30 s every 10 s",
        "sliding windows of 15 s",
        "session windows with a gap of 9 s",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("archive", slow_but(["spark-custom"], TITLES))
def test_a_report_has_a_section_for_each_operator(archive: str, tmp_path: Path, printed) -> None:
    """Of all kinds, on each backend, with snapshots that were moved."""
    folder = unpack(CHECKPOINTS / f"{archive}.tar.gz", tmp_path / "query")
    page, snapshots = tmp_path / "page.html", ("--snapshots", folder / "snapshots")
    assert f" in {page}\n" in printed("report", folder / "checkpoint", *snapshots, "--out", page)
    html = page.read_text("utf-8")
    for number, title in enumerate(TITLES[archive]):
        assert f'id="operator-{number}"><h2>Operator {number}: {title}</h2>' in html
    assert ("Spark&#x27;s state store (the backend spark)" in html) == (archive == "spark-custom")
    assert "Its state cannot be read" not in html


@pytest.mark.slow
def test_what_cannot_be_read_is_said_in_a_line(
    spark: SparkSession, stored: Path, tmp_path: Path, printed
) -> None:
    """A batch, an operator or a file that is not there; a checkpoint of Spark's own operators."""
    checkpoint = stored / "checkpoint"
    assert "the state of operator 7 in" in printed("state", checkpoint, "--operator-number", 7, code=1)
    assert "after batch 99, its last one is 3" in printed("state", checkpoint, "--batch", 99, code=1)
    assert "of an unknown format: known are .parquet" in printed(
        "state", checkpoint, "--out", tmp_path / "x.xls", code=1
    )
    source = tmp_path / "source"
    spark.range(3).write.parquet(str(source))
    distinct = spark.readStream.schema("id bigint").parquet(str(source)).dropDuplicates(["id"])
    writer = distinct.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "others"))
    writer.trigger(availableNow=True).start().awaitTermination()
    for command in (["summary"], ["state"], ["report", "--out", tmp_path / "page.html"]):
        message = printed(command[0], tmp_path / "others", *command[1:], code=1)
        assert "the query has the state of other operators: 0 (dedupe)" in message
        assert 1 == len(message.splitlines())
    assert not (tmp_path / "page.html").exists()


@pytest.mark.slow
def test_damaged_state_is_one_line_and_the_page_has_the_rest(stored: Path, tmp_path: Path, printed) -> None:
    """The state of one operator cannot be read, by Spark or in a worker: the other one has its section."""
    message = printed("state", stored / "checkpoint", "--backend", "nosuch", code=1)
    assert message.startswith("windows: error: ")
    assert "nosuch" in message
    assert "Traceback" not in message
    assert 1 == len(message.splitlines())
    folder = unpack(CHECKPOINTS / "rocksdb-chain.tar.gz", tmp_path / "query")
    for file in (folder / "checkpoint" / "state" / "1" / "0").rglob("*.*"):
        file.unlink()
    page = tmp_path / "page.html"
    message = printed("report", folder / "checkpoint", "--out", page, code=1)
    assert message.startswith("windows: error: the page lacks the state of operator 1: the state in ")
    assert "start with a new checkpoint" in message
    assert 1 == len(message.splitlines())
    html = page.read_text("utf-8")
    assert "Operator 0: tumbling windows of 1 min" in html
    assert "Its state cannot be read: the state in " in html


def started(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """The command as a process of its own, in a folder."""
    folder.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "operators", *map(str, arguments)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
def test_a_process_prints_its_tables_and_leaves_nothing(stored: Path, tmp_path: Path) -> None:
    """Nothing of Spark's on stderr, and no files in the working directory."""
    process = started(tmp_path / "cwd", "state", stored / "checkpoint", "--limit", 3)
    out, err = process.communicate(timeout=300)
    assert (0, "") == (process.returncode, err)
    assert "the first 3 rows: --limit N shows more, --out FILE writes all" in out
    assert [] == [*(tmp_path / "cwd").iterdir()]


@pytest.mark.slow
def test_ctrl_c_ends_a_command(stored: Path, tmp_path: Path) -> None:
    """With the code of a shell, one line, and no file half written."""
    process = started(tmp_path / "cwd", "report", stored / "checkpoint", "--out", "page.html", "--progress")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("operator ")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert 130 == process.returncode
    assert "windows: interrupted" == err.splitlines()[-1]
    assert "Traceback" not in err
    assert [] == [*(tmp_path / "cwd").iterdir()]


@pytest.mark.slow
def test_a_spark_that_does_not_start_is_one_line(stored: Path, tmp_path: Path) -> None:
    """With what its JVM printed."""
    process = started(tmp_path / "cwd", "state", stored / "checkpoint", "--conf", "spark.driver.memory=1k")
    out, err = process.communicate(timeout=120)
    assert (1, "") == (process.returncode, out)
    assert err.startswith("windows: error: Spark does not start: ")
    assert "Too small maximum heap" in err
    assert 1 == len(err.splitlines())
