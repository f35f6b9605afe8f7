"""What do windows of a zone's calendar cost, beside fixed lengths of about as many panes?"""

import pyarrow as pa
import pytest

from benchmarks.data import KEYS, RECORDS, records
from benchmarks.measure import Measure
from benchmarks.operators.feeding import fed
from operators import HoppingWindows, RollingAggregation, RollingWindows, TumblingWindows, WindowedAggregation
from operators import aggregates as agg

ZONE = "Europe/Berlin"
_STRETCHED = 1_728
"""The thousand seconds of the records become twenty days, from March 20, 2026, over a change of the clock."""
_MARCH_MS = 1_773_964_800_000
PAIRS: dict[str, tuple[HoppingWindows | RollingWindows, HoppingWindows | RollingWindows]] = {
    "days": (TumblingWindows("1 day"), TumblingWindows("1 day", zone=ZONE)),
    "7 days by 1": (HoppingWindows("7 days", "1 day"), HoppingWindows("7 days", "1 day", zone=ZONE)),
    "months": (TumblingWindows("30 days"), TumblingWindows("1 month", zone=ZONE)),
    "today": (RollingWindows("12 hours"), RollingWindows("day to date", zone=ZONE)),
}
"""Windows of fixed lengths, and of the calendar."""


@pytest.fixture(scope="module")
def days() -> pa.Table:
    """A million records of a hundred keys over twenty days."""
    table = records()
    at = table.column("at").cast(pa.int64()).to_numpy() * _STRETCHED + _MARCH_MS
    return table.set_column(1, "at", pa.array(at, pa.timestamp("ms", "UTC")))


def operator(windows: HoppingWindows | RollingWindows) -> WindowedAggregation | RollingAggregation:
    """Return a count and a sum by key; records beside their windows come out at once."""
    made = windows.group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    return made.emit("on_arrival") if isinstance(made, RollingAggregation) else made


@pytest.mark.parametrize("system", ["fixed", "calendar"])
@pytest.mark.parametrize("pair", PAIRS)
def test_calendars(measure: Measure, days: pa.Table, pair: str, system: str) -> None:
    windows = PAIRS[pair][system == "calendar"]
    rows = measure.processor(
        lambda: fed(operator(windows), days, "memory"),
        section="windows of a calendar, local",
        system=system,
        rows=RECORDS,
        keys=KEYS,
        windows=pair,
    )
    assert rows or pair == "months"
