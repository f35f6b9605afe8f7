"""Windows of calendars of several inputs, in chains, and after a savepoint: against Python's own clocks, without Spark."""

import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from operators import TumblingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE

ZONE = "America/New_York"
"""Whose clock goes back on November 1, and forward on March 8."""
BEGIN = datetime(2026, 10, 20, tzinfo=timezone.utc)
DAYS = TumblingWindows("1 day", zone=ZONE, grace="3 days")
MONTHS = TumblingWindows("1 month", zone=ZONE)
COUNT = {"n": agg.count(), "s": agg.sum("v")}
Rows = list[tuple[str, datetime, int]]


def records(count: int, days: int) -> Rows:
    """Some records of a few weeks, in any order."""
    chance = random.Random(count)
    return [
        (chance.choice("ab"), BEGIN + timedelta(seconds=chance.randrange(days * 86_400)), chance.randrange(9))
        for _ in range(count)
    ]


def table(rows: Rows) -> pa.Table:
    """Records as a table."""
    types = pa.string(), pa.timestamp("us", "UTC"), pa.int64()
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)], ["k", "at", "v"]
    )


def by_day(rows: Rows) -> Counter[tuple[str, Any]]:
    """The number of records of each local date."""
    return Counter((key, at.astimezone(ZoneInfo(ZONE)).date()) for key, at, _ in rows)


def found(rows: pa.Table, *names: str) -> dict[tuple[str, Any], Any]:
    """Results by key and local date of the begin; each window is there once, and begins at midnight."""
    results: dict[tuple[str, Any], Any] = {}
    for row in rows.to_pylist():
        begin = row["window"]["start"].astimezone(ZoneInfo(ZONE))
        assert (0, 0, 0) == (begin.hour, begin.minute, begin.second)
        key = row["k"], begin.date()
        assert key not in results
        results[key] = tuple(row[name] for name in names)
    return results


@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_days_of_two_inputs(backend: str) -> None:
    """Each input's records of a local date, over a day of 25 hours; a restart in between changes nothing."""
    left, right = records(200, 30), records(150, 30)
    both = DAYS.group_by("k").cogroup(left={"n": agg.count()}, right={"m": agg.count()})
    parts = []
    with both.local_runner("at", backend) as runner:
        for n in range(4):
            parts.append(runner.process({"left": table(left[n::4]), "right": table(right[n::4])}, BEGIN))
            runner.runner.restart()
        parts.append(runner.process({"left": table([]), "right": table([])}, FAR_FUTURE))
    n, m = by_day(left), by_day(right)
    assert found(pa.concat_tables(parts), "n", "m") == {day: (n[day], m[day]) for day in {*n, *m}}


def test_months_over_days() -> None:
    """A chain has the months of the records: a day ends within its month, at the last instant before the next one begins."""
    rows = sorted(records(300, 90), key=lambda row: row[1])
    months = MONTHS.group_by("k").aggregate(n=agg.sum("n"), days=agg.count())
    out = []
    with (
        DAYS.group_by("k").aggregate(**COUNT).local_runner("at") as first,
        months.local_runner("ended") as second,
    ):
        for n in range(0, 300, 50):
            time = FAR_FUTURE if n == 250 else None
            days = first.process(table(rows[n : n + 50]), time)
            ends = pc.subtract(days["window"].combine_chunks().field("end"), pa.scalar(1, pa.duration("us")))
            done = FAR_FUTURE if n == 250 else first.close_time
            out.append(second.process(days.append_column("ended", ends), done))
    dates = by_day(rows)
    wanted: Counter[tuple[str, Any]] = Counter()
    for (key, date), count in dates.items():
        wanted[key, date.replace(day=1)] += count
    days_of = Counter((key, date.replace(day=1)) for key, date in dates)
    assert found(pa.concat_tables(out), "n", "days") == {
        month: (n, days_of[month]) for month, n in wanted.items()
    }


@pytest.mark.parametrize("emit", ["on_close", "on_update"])
def test_a_savepoint_goes_on_within_a_day_of_25_hours(tmp_path: Path, emit: Any) -> None:
    """The windows that are open at it are whole at the end, on another backend, in the calendar of the same zone."""
    change = datetime(2026, 11, 1, 5, tzinfo=timezone.utc)  # an hour before the clock goes back
    rows = sorted(records(300, 30), key=lambda row: row[1])
    before, after = ([row for row in rows if (row[1] < change) == early] for early in (True, False))
    operator = DAYS.group_by("k").aggregate(**COUNT).emit(emit)
    with operator.local_runner("at") as first:
        closed = first.process(table(before))
        saved = first.savepoint(tmp_path / "savepoint")
    options = {"state.savepoint": saved.uri}
    with operator.local_runner("at", "rocksdb", options=options) as second:
        begun = second.process(table(after))
        still = second.open_windows()
        rest = second.process(table([]), FAR_FUTURE)
    assert still.num_rows > 4
    if emit == "on_close":
        assert found(pa.concat_tables([closed, begun, rest]), "n") == {
            day: (n,) for day, n in by_day(rows).items()
        }
        return
    latest = {}
    for row in pa.concat_tables([closed, begun, rest]).to_pylist():
        assert row["change"] == "update"
        latest[row["k"], row["window"]["start"].astimezone(ZoneInfo(ZONE)).date()] = row["n"]
    assert latest == dict(by_day(rows))
