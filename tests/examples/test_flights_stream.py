"""The demo's stream on three days of June, against brute force: late flights, backends, stopping and going on."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracle import Batch, Window, evaluate
from pyspark.sql import SparkSession

from examples.flights import main
from examples.flights_data import departed, write_source
from examples.flights_log import RunLog
from examples.flights_stream import Folders, run
from examples.flights_windows import read_windows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# A flight of 15 June left nineteen hours late: six hours of grace are then over for the morning of the 16th.
DAYS = (15, 16, 17)
GRACE = "6 hours"
GRACE_MS = 6 * 3_600_000
HOUR_MS = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

Row = tuple[str, int, int, int, float, int]


@pytest.fixture(scope="module")
def june(flights: pa.Table) -> list[pa.Table]:
    """The flights of each day."""
    scheduled = departed(flights).column("scheduled")
    month = departed(flights).filter(pc.equal(pc.month(scheduled), 6))
    return [month.filter(pc.equal(pc.day(month.column("scheduled")), day)) for day in DAYS]


@pytest.fixture(scope="module")
def expected(june: list[pa.Table]) -> tuple[list[Row], int]:
    """The windows, and the number of late flights, by brute force over records with Spark's watermarks."""
    outputs = evaluate(batches(june), HOUR_MS, "on_close")
    rows = [row(window) for output in outputs for window in output.windows]
    return sorted(rows), sum(len(output.late) for output in outputs)


def batches(june: list[pa.Table]) -> Iterator[Batch]:
    """A batch for each day, and one without rows; the watermark of each is that of the days before."""
    close = float("-inf")
    highest = close
    for day in [*june, june[0].slice(0, 0)]:
        records = [(r["origin"], millis(r["departure"]), r["dep_delay"]) for r in day.to_pylist()]
        yield Batch(records, close, close)
        highest = max([highest, *(time for _, time, _ in records)])
        close = highest - GRACE_MS


def millis(when: datetime) -> int:
    return (when - EPOCH) // timedelta(milliseconds=1)


def row(window: Window) -> Row:
    delays = [delay for _, delay in window.content]
    return (window.key, window.start, window.end, len(delays), sum(delays) / len(delays), max(delays))


def rows_of(folders: Folders) -> list[Row]:
    table = read_windows(folders.windows)
    times = [table.column(name).cast(pa.int64()) for name in ("start", "end")]
    rest = [table.column(name) for name in ("flights", "mean_delay", "worst")]
    return sorted(
        zip(*(column.to_pylist() for column in [table.column("origin"), *times, *rest]), strict=True)
    )


@pytest.fixture
def folders(tmp_path: Path, flights: pa.Table, june: list[pa.Table]) -> Folders:
    """Folders with a source of a file per day."""
    write_source(flights, june, tmp_path / "source")
    return Folders(tmp_path)


def stream(
    spark: SparkSession, folders: Folders, backend: str, stop_after: int | None = None
) -> tuple[bool, RunLog]:
    """Run the stream as a new start of the demo would; return whether it finished, and its log."""
    log = RunLog.open(folders.log, GRACE)
    told: list[int] = []
    finished = run(
        spark,
        folders,
        log,
        backend=backend,
        stop_after=stop_after,
        tell=lambda batch: told.append(batch.number),
    )
    assert told
    assert set(told) <= set(log.batches)
    return finished, log


def test_windows_are_those_of_brute_force(
    spark: SparkSession, folders: Folders, expected: tuple[list[Row], int]
) -> None:
    """All windows come out once, with late flights left out and counted."""
    rows, late = expected
    finished, log = stream(spark, folders, "memory")
    assert finished
    assert rows == rows_of(folders)
    assert late > 0
    assert (late, 0, len(rows)) == (log.total("late"), log.total("bad"), log.total("windows"))
    assert [0, 1, 2, 3] == sorted(log.batches)


def test_stopping_and_another_backend_change_nothing(
    spark: SparkSession, folders: Folders, expected: tuple[list[Row], int], capsys: pytest.CaptureFixture[str]
) -> None:
    """RocksDB, stopped after a batch, gone on with, stopped again and ended on memory gives the same rows and counts."""
    rows, late = expected
    ends = [
        stream(spark, folders, backend, stop)[0]
        for backend, stop in [("rocksdb", 1), ("rocksdb", 1), ("memory", None)]
    ]
    assert [False, False, True] == ends
    log = RunLog.open(folders.log, GRACE)
    assert rows == rows_of(folders)
    assert (late, len(rows)) == (log.total("late"), log.total("windows"))
    assert 0 == main(
        ["--out", str(folders.out)]
    )  # A finished run only draws its report again: no Spark is started.
    assert "Spark" not in capsys.readouterr().out
    assert folders.picture.stat().st_size > 20_000
