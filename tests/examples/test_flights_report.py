"""The demo's results: reading them back, the worst hours, lines, tables, sentences and the picture."""

import json
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.flights import main
from examples.flights_data import AIRPORTS, About
from examples.flights_log import Batch, RunLog
from examples.flights_picture import DAYS, cells, draw
from examples.flights_report import BATCH_HEADER, TABLE_HEADER, batch_line, notes, spoken, worst_table
from examples.flights_windows import (
    WINDOW_SCHEMA,
    Hour,
    committed_files,
    operating_day,
    read_windows,
    worst_hours,
)

NOON = datetime(2013, 7, 10, 12, 0)
JULY = Batch(
    number=12,
    backend="rocksdb",
    first=datetime(2013, 7, 1, 4, 59),
    last=datetime(2013, 7, 16, 0, 47),
    flights=13_473,
    bad=0,
    late=93,
    windows=22_785,
    closed_to=datetime(2013, 6, 30, 20, 17),
    seconds=1.84,
)
LAST = Batch(24, "memory", None, None, 0, 0, 0, 23_989, datetime(2013, 12, 31, 18, 26), 1.1)


def windows(*rows: tuple[str, str, str, int, float, int]) -> pa.Table:
    """Windows from rows of origin, start, end, flights, mean delay, worst delay."""
    made = [
        (origin, datetime.fromisoformat(start), datetime.fromisoformat(end), *rest)
        for origin, start, end, *rest in rows
    ]
    columns = zip(*made, strict=True)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, WINDOW_SCHEMA, strict=True)],
        WINDOW_SCHEMA,
    )


def test_files_of_broken_off_batches_do_not_count(tmp_path: Path) -> None:
    """Only files that the sink's log names are read, also where a name had to be quoted."""
    logged, left_behind, log = (
        tmp_path / "part 0.parquet",
        tmp_path / "part-1.parquet",
        tmp_path / "_spark_metadata",
    )
    bounds = pa.StructArray.from_arrays([pa.array([NOON]), pa.array([NOON])], ["start", "end"])
    values = [pa.array(["EWR"]), bounds, pa.array([3]), pa.array([1.5]), pa.array([4], pa.int32())]
    for path in (logged, left_behind):
        pq.write_table(pa.table(values, ["origin", "window", "flights", "mean_delay", "worst"]), path)
    log.mkdir()
    (log / "0").write_text("v1\n" + json.dumps({"path": logged.as_uri(), "action": "add"}))
    (log / ".1.tmp").write_text("v1\n" + json.dumps({"path": left_behind.as_uri(), "action": "add"}))
    assert [logged] == committed_files(tmp_path)
    assert windows(("EWR", str(NOON), str(NOON), 3, 1.5, 4)).equals(read_windows(tmp_path))


def test_worst_hours_are_one_a_day_and_busy() -> None:
    """Neither a window of few flights nor a second one of the same day is among the worst hours."""
    found = worst_hours(
        windows(
            ("EWR", "2013-07-10 20:00", "2013-07-10 21:00", 20, 100.0, 300),
            ("EWR", "2013-07-10 20:00:00.001", "2013-07-10 21:00:00.001", 25, 120.0, 300),
            ("EWR", "2013-07-11 00:10", "2013-07-11 01:10", 30, 110.0, 400),
            ("EWR", "2013-07-11 09:00", "2013-07-11 10:00", 30, 90.0, 100),
            ("EWR", "2013-07-12 09:00", "2013-07-12 10:00", 19, 500.0, 900),
        ),
        count=5,
    )
    assert [
        Hour(datetime(2013, 7, 10, 20, 1), datetime(2013, 7, 10, 21, 0), 25, 120.0, 300),
        Hour(datetime(2013, 7, 11, 9, 0), datetime(2013, 7, 11, 10, 0), 30, 90.0, 100),
    ] == found


def test_the_day_begins_at_four() -> None:
    """An hour after midnight is counted to the evening before."""
    late = Hour(datetime(2013, 3, 1, 0, 8), datetime(2013, 3, 1, 1, 8), 20, 200.0, 300)
    early = Hour(datetime(2013, 3, 1, 5, 0), datetime(2013, 3, 1, 6, 0), 20, 1.0, 3)
    assert [date(2013, 2, 28), date(2013, 3, 1)] == [operating_day(late), operating_day(early)]


def test_table_of_worst_hours() -> None:
    """Each airport has its name at its first line, its code at the second, and one hour a line."""
    hours = [
        Hour(datetime(2013, 9, 12, 19, 49), datetime(2013, 9, 12, 20, 49), 21, 219.9, 382),
        Hour(datetime(2013, 3, 8, 17, 21), datetime(2013, 3, 8, 18, 20), 24, 45.4, 59),
        Hour(datetime(2013, 4, 19, 22, 55), datetime(2013, 4, 19, 23, 54), 20, -3.2, 0),
    ]
    assert [
        TABLE_HEADER,
        "",
        "Newark Liberty   Thu 12 Sep  19:49\u201320:49         21   3 h 40 min   6 h 22 min",
        "EWR              Fri 8 Mar   17:21\u201318:20         24       45 min       59 min",
        "                 Fri 19 Apr  22:55\u201323:54         20       -3 min        0 min",
    ] == worst_table({"EWR": hours}).splitlines()
    assert {len(TABLE_HEADER)} == {len(line) for line in worst_table({"EWR": hours}).splitlines() if line}


@pytest.mark.parametrize(
    ("minutes", "text"),
    [(0, "0 min"), (59.4, "59 min"), (59.6, "1 h 00 min"), (-12, "-12 min"), (1301, "21 h 41 min")],
)
def test_lengths_are_spoken(minutes: float, text: str) -> None:
    """Lengths read as hours and minutes; early departures are negative."""
    assert text == spoken(minutes)


def test_batches_are_lines_of_one_table() -> None:
    """A batch's line stands below its header, with or without rows."""
    assert (
        "   12  1 Jul 04:59 \u2013 16 Jul 00:47      13,473    22,785    93  30 Jun 20:17  rocksdb      1.8"
        == batch_line(JULY)
    )
    assert (
        "   24  none, time moves on                  0    23,989     0  31 Dec 18:26  memory       1.1"
        == batch_line(LAST)
    )
    assert len(BATCH_HEADER) == len(batch_line(JULY))


def test_progress_becomes_a_batch() -> None:
    """What Spark reports of a batch is read; its first watermark, 1970, says nothing."""
    progress = {
        "batchId": 3,
        "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
        "observedMetrics": {
            "windows_in": {"counts": {"rows": 0, "bad": 0}},
            "windows_out": {"counts": {"late": 1, "windows": 2}},
        },
        "durationMs": {"triggerExecution": 1_500},
    }
    assert Batch(3, "memory", None, None, 0, 0, 1, 2, None, 1.5) == Batch.from_progress(progress, "memory")


def test_log_remembers(tmp_path: Path) -> None:
    """A log that is opened again has all batches, knows which are missing, and keeps its grace."""
    log = RunLog.open(tmp_path / "run.json", "6 hours")
    for batch in (LAST, JULY):
        log.add(batch)
    log.finish()
    again = RunLog.open(tmp_path / "run.json", "1 hour")
    assert log == RunLog(log.path, "6 hours", finished=True, batches=again.batches)
    assert {12: JULY, 24: LAST} == again.batches
    assert [*range(12), *range(13, 24)] == again.missing
    assert (13_473, 93) == (again.total("flights"), again.total("late"))
    assert LAST.closed_to == again.closed_to


def test_notes_tell_what_is_missing(tmp_path: Path) -> None:
    """Cancelled, late, open and unknown: nothing goes silently."""
    log = RunLog(tmp_path / "run.json", "6 hours", batches={0: JULY, 2: LAST})
    said = "\n".join(notes(About(336_776, 8_255), log, 555_753))
    for part in (
        "8,255 never left",
        "555,753 windows",
        "93 flights were late",
        "30 Jun 20:17",
        "31 Dec 18:26",
        "killed: 1.",
    ):
        assert part in said
    assert "No flight was late" in "\n".join(notes(About(1, 0), RunLog(log.path, "6 hours"), 0))


def test_cells_are_weighted_means_around_their_middle() -> None:
    """A window counts where its middle lies, by its flights; after midnight that is the day before; few flights are none."""
    values = cells(
        windows(
            ("EWR", "2013-01-02 05:00", "2013-01-02 06:00", 10, 30.0, 90),
            ("EWR", "2013-01-02 05:05", "2013-01-02 06:05", 30, 10.0, 90),
            ("EWR", "2013-01-03 00:30", "2013-01-03 01:30", 3, 60.0, 90),
            ("EWR", "2013-01-04 05:00", "2013-01-04 06:00", 2, 60.0, 90),
            ("EWR", "2014-01-01 05:00", "2014-01-01 06:00", 9, 60.0, 90),
        )
    )
    assert (62, DAYS) == values.shape
    assert {(0, 1): 15.0, (59, 1): 60.0} == {
        tuple(map(int, where)): values[tuple(where)] for where in np.argwhere(~np.isnan(values))
    }


def year_of_windows() -> pa.Table:
    """A window for each hour of the year and airport, with delays that grow during the day."""
    start = np.datetime64("2013-01-01", "ms") + np.arange(DAYS * 24) * np.timedelta64(1, "h")
    flights = np.full(len(start), 25)
    delay = np.arange(len(start)) % 24 * 6.0
    tables = [
        pa.table(
            [
                [origin] * len(start),
                start,
                start + np.timedelta64(1, "h"),
                flights,
                delay,
                delay.astype(np.int32),
            ],
            WINDOW_SCHEMA,
        )
        for origin in AIRPORTS
    ]
    return pa.concat_tables(tables)


@pytest.mark.slow
def test_picture_is_drawn(tmp_path: Path) -> None:
    """A PNG with something on it comes out, also where an airport has no windows."""
    year = year_of_windows()
    draw(year, {"EWR": worst_hours(year, 5)}, ["A note."], tmp_path / "year.png")
    draw(WINDOW_SCHEMA.empty_table(), {}, [], tmp_path / "empty.png")
    for name, least in (("year.png", 60_000), ("empty.png", 20_000)):
        content = (tmp_path / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert least < len(content)


def test_unknown_backends_are_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong name is answered with the known ones, and no folder is made."""
    with pytest.raises(SystemExit):
        main(["--backend", "rockdb", "--out", str(tmp_path / "out")])
    assert "rocksdb" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_grace_cannot_change_under_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run keeps its grace; another one is refused with the way out."""
    RunLog(tmp_path / "run.json", "6 hours").add(JULY)
    assert 2 == main(["--grace", "24 hours", "--out", str(tmp_path)])
    assert "--fresh" in capsys.readouterr().out
