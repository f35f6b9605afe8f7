"""The windows of a run: reading them back from the sink, and finding the worst hours."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

WINDOW_SCHEMA = pa.schema(
    [
        ("origin", pa.string()),
        ("start", pa.timestamp("ms")),
        ("end", pa.timestamp("ms")),
        ("flights", pa.int64()),
        ("mean_delay", pa.float64()),
        ("worst", pa.int32()),
    ]
)
LEAST_FLIGHTS = 20
DAY_BEGINS = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class Hour:
    """A window of one airport: its first and last whole minute, both within it; delays in minutes."""

    first: datetime
    last: datetime
    flights: int
    mean_delay: float
    worst: int


def committed_files(folder: Path) -> list[Path]:
    """Return the files that count in a folder of Spark's file sink.

    A batch that was broken off may have left files behind; the sink's log names those of committed batches.
    """
    lines = [line for log in (folder / "_spark_metadata").glob("[0-9]*") for line in _entries(log)]
    paths = {entry["path"] for entry in map(json.loads, lines) if entry["action"] == "add"}
    return sorted(Path(unquote(urlparse(path).path)) for path in paths)


def _entries(log: Path) -> list[str]:
    _version, *entries = log.read_text("utf-8").splitlines()
    return entries


def read_windows(folder: Path) -> pa.Table:
    """Return the windows that a run has emitted, as `WINDOW_SCHEMA`, in no order."""
    tables = [_flat(pq.ParquetFile(path).read()) for path in committed_files(folder)]
    return pa.concat_tables([WINDOW_SCHEMA.empty_table(), *tables])


def _flat(table: pa.Table) -> pa.Table:
    return table.flatten().rename_columns(WINDOW_SCHEMA.names).cast(WINDOW_SCHEMA)


def of_airport(windows: pa.Table, origin: str) -> pa.Table:
    """Return the windows of one airport."""
    return windows.filter(pc.equal(windows.column("origin"), origin))


def worst_hours(windows: pa.Table, count: int, least_flights: int = LEAST_FLIGHTS) -> list[Hour]:
    """Return the windows of one airport with the largest mean delay, one a day, worst first.

    Args:
        windows: of one airport.
        count: how many at most.
        least_flights: windows with fewer flights say little about an hour and are passed over.
    """
    busy = windows.filter(pc.greater_equal(windows.column("flights"), least_flights))
    order = busy.sort_by([("mean_delay", "descending"), ("flights", "descending"), ("start", "ascending")])
    found: dict[date, Hour] = {}
    for batch in order.to_batches(max_chunksize=1_000):
        for row in batch.to_pylist():
            if len(found) == count:
                return list(found.values())
            hour = _hour(row)
            found.setdefault(operating_day(hour), hour)
    return list(found.values())


def _hour(row: Mapping[str, Any]) -> Hour:
    first, last = (row[name].replace(second=0, microsecond=0) for name in ("start", "end"))
    # A right window begins one tick after its record: its first whole minute is the next.
    if first != row["start"]:
        first += timedelta(minutes=1)
    return Hour(first, last, row["flights"], row["mean_delay"], row["worst"])


def operating_day(hour: Hour) -> date:
    """Return the day that an hour is counted to: it begins at four in the morning."""
    return (hour.first + (hour.last - hour.first) / 2 - DAY_BEGINS).date()
