"""Aggregates since the local day, week, month, quarter or year began, beside each record: against brute force."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import DefinitionError, RollingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.kinds.rolling import Rolling
from operators.testing import expected_rows, late_rows, timeline
from state_backends import StateError
from tests.effort import examples

pytestmark = pytest.mark.usefixtures("pages_of_few_entries")
DAY = 86_400_000
DAYS = {
    "Africa/Cairo": "2023-04-28",
    "America/St_Johns": "2010-11-07",
    "Antarctica/Casey": "2010-03-05",
    "Asia/Manila": "1844-12-31",
    "Australia/Lord_Howe": "2026-04-05",
    "Europe/Berlin": "2500-10-31",
    "Europe/Dublin": "1916-10-01",
    "Pacific/Apia": "2011-12-30",
}
LOOKBACKS: Mapping[str, str] = {
    "today": "day to date",
    "wtd": "week to date",
    "mtd": "month to date",
    "qtd": "quarter to date",
    "ytd": "year to date",
    "2d": "2 days",
    "ever": "lifetime",
}
RESULTS = {"n": agg.count(), "total": agg.sum("value"), "low": agg.min("value")}
BY_HAND: Mapping[str, Callable[[list[dict[str, Any]]], Any]] = {
    "n": len,
    "total": lambda rows: sum(row["value"] for row in rows) if rows else None,
    "low": lambda rows: min((row["value"] for row in rows), default=None),
}
Record = tuple[str | None, int, int]


def ms(moment: str) -> int:
    """A moment in UTC in milliseconds."""
    return int(np.datetime64(moment, "ms").astype(int))


def table(records: list[Record]) -> pa.Table:
    """Records as a table."""
    key, time, value = zip(*records, strict=True) if records else ([], [], [])
    types = pa.string(), pa.timestamp("ms", "UTC"), pa.int64()
    columns = [pa.array(column, type_) for column, type_ in zip((key, time, value), types, strict=True)]
    return pa.table(columns, ["key", "time", "value"])


def plain(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order of their own."""
    return sorted(map(repr, rows))


@dataclass(frozen=True)
class Scenario:
    """Windows, how their state is kept, and batches."""

    windows: RollingWindows
    emit: str
    backend: str
    segment: str
    batches: list[list[Record]]

    def runner(self) -> Any:
        """A new runner."""
        operator = self.windows.group_by("key").aggregate(**RESULTS).emit(self.emit)  # type: ignore[arg-type]
        return operator.local_runner("time", self.backend, options={"state.segment": self.segment})


@st.composite
def scenarios(draw: Callable[..., Any]) -> Scenario:
    """Records around the days on which clocks do something, with some of the lookbacks."""
    zone = draw(st.sampled_from([*DAYS]))
    span = draw(st.sampled_from([DAY, 3 * DAY, 400 * DAY]))
    times = st.integers(-span, span).map(lambda by: ms(DAYS[zone]) + by)
    records = st.tuples(st.sampled_from([None, "a"]), times, st.integers(0, 9))
    names = draw(st.lists(st.sampled_from([*LOOKBACKS]), min_size=1, max_size=3, unique=True))
    dated = [name for name in names if "date" in LOOKBACKS[name]]
    if not dated:
        names, dated = [*names, "today"], ["today"]
    windows = RollingWindows(
        {name: LOOKBACKS[name] for name in names},
        draw(st.sampled_from([0, DAY, 40 * DAY])),
        closed=draw(st.sampled_from(["both", "left", "right", "none"])),
        forget_after=draw(st.sampled_from([None, DAY])) if "ever" in names else None,
        zone=zone,
        offset=draw(st.sampled_from([0, "6 hours", "-1 hour", {dated[0]: "90 minutes"}])),
    )
    return Scenario(
        windows,
        draw(st.sampled_from(["on_close", "on_arrival"])),
        draw(st.sampled_from(["memory", "rocksdb", "spark"])),
        draw(st.sampled_from(["1 hour", "5 days", "400 days"])),
        draw(st.lists(st.lists(records, max_size=6), min_size=1, max_size=5)),
    )


@examples(3)
@given(scenarios(), st.lists(st.booleans(), min_size=5, max_size=5))
def test_rows_are_those_of_the_oracle(scenario: Scenario, restarts: list[bool]) -> None:
    """Each record has the aggregates of its key since its period began, mixed with other lookbacks, also after restarts."""
    tables = [table(records) for records in scenario.batches]
    steps = [*tables, (table([]), FAR_FUTURE)]
    wanted = expected_rows(scenario.windows, steps, "time", BY_HAND, ["key"], scenario.emit)
    with scenario.runner() as runner:
        for records, expected, restart in zip(tables, wanted, restarts, strict=False):
            if restart:
                runner.restart()
            assert plain(expected) == plain(runner.process(records).to_pylist())
        assert plain(wanted[-1]) == plain(runner.process(table([]), FAR_FUTURE).to_pylist())
        assert runner.counters.late == len(late_rows(scenario.windows, tables, "time", ["key"]))


def test_state_reaches_back_to_the_earliest_begin() -> None:
    """On New Year's Day the week began in December, and the fiscal year in April; a longer fixed lookback is earlier still."""
    new_year = ms("2026-01-01T12:00")
    for lookbacks, offset, begin in (
        ({"mtd": "month to date", "ytd": "year to date"}, 0, ms("2025-12-31T23:00")),
        ({"mtd": "month to date", "wtd": "week to date"}, 0, ms("2025-12-28T23:00")),
        ({"fiscal": "year to date"}, "3 months", ms("2025-03-31T22:00")),
        ({"mtd": "month to date", "90d": "90 days"}, 0, new_year - 90 * DAY),
    ):
        windows = RollingWindows(lookbacks, zone="Europe/Berlin", offset=offset)
        assert Rolling(windows.lookback_ticks, "both").dead_before(new_year) == begin
    for edge in (-FAR_FUTURE, FAR_FUTURE):
        kind = Rolling(RollingWindows("month to date", zone="Europe/Berlin").lookback_ticks, "both")
        assert edge - 40 * DAY < kind.dead_before(edge) <= edge


def test_labels_see_what_records_do() -> None:
    """As of the time of a label: what a record of that time has beside it."""
    operator = RollingWindows(
        {"mtd": "month to date", "today": "day to date"}, zone="Europe/Berlin"
    ).group_by("key")
    features = operator.aggregate(n=agg.count(), total=agg.sum("value"))
    records = table(
        [("a", ms("2026-02-28T22:59"), 1), ("a", ms("2026-02-28T23:00"), 2), ("a", ms("2026-03-29T22:00"), 4)]
    )
    labels = pa.table(
        {
            "key": ["a", "a"],
            "asked": pa.array([ms("2026-02-28T22:59"), ms("2026-03-29T22:00")], pa.timestamp("ms", "UTC")),
        }
    )
    with features.local_runner_as_of("asked", "time") as runner:
        found = runner.process(labels, records, FAR_FUTURE).to_pylist()
    with features.local_runner("time") as runner:
        beside = {row["time"]: row for row in runner.process(records, FAR_FUTURE).to_pylist()}
    names = ("n_mtd", "n_today", "total_mtd", "total_today")
    assert [(1, 1, 1, 1), (2, 1, 6, 4)] == [tuple(row[name] for name in names) for row in found]
    assert [[row[name] for name in names] for row in found] == [
        [beside[row["asked"]][name] for name in names] for row in found
    ]


def test_another_zone_is_refused(tmp_path: Path) -> None:
    """And other lookbacks to date; a state without them cannot go on with one."""

    def process(lookbacks: Any, records: list[Record], **calendar: Any) -> list[dict[str, Any]]:
        operator = RollingWindows(lookbacks, **calendar).group_by("key").aggregate(n=agg.count())
        with operator.local_runner("time", directory=tmp_path) as runner:
            return runner.process(table(records)).to_pylist()

    process({"mtd": "month to date"}, [("a", ms("2026-03-10"), 1)], zone="Europe/Berlin")
    process({"mtd": "month to date"}, [], zone="Europe/Paris")
    with pytest.raises(StateError, match=r"'Europe/Paris' as it was .*'Europe/London' differs from 2026-02"):
        process({"mtd": "month to date"}, [], zone="Europe/London")
    with pytest.raises(StateError, match="to date was 1 month since 1970-01-01, is 1 day since 1970-01-01"):
        process({"mtd": "day to date"}, [], zone="Europe/Paris")
    with pytest.raises(StateError, match="to date was 1 month since 1970-01-01, is none"):
        process({"mtd": "31 days"}, [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"lookbacks": {"mtd": "month to date"}},
            "lookback 'mtd' is 'month to date': give zone='Europe/Berlin'",
        ),
        ({"lookbacks": {"1h": "1 hour"}, "zone": "UTC"}, "zone is 'UTC', and no lookback is to date"),
        (
            {"lookbacks": {"1h": "1 hour"}, "offset": "1 hour"},
            "offset is '1 hour', and no lookback is to date",
        ),
        (
            {"lookbacks": {"d": "day to date"}, "zone": "UTC", "offset": {"e": "1 hour"}},
            "offset of lookback 'e': the lookbacks to date are d",
        ),
        (
            {"lookbacks": {"d": "day to date"}, "zone": "UTC", "offset": "1 day"},
            "offset of lookback 'd' is '1 day': it must be shorter than 1 day",
        ),
        (
            {"lookbacks": {"d": "day to date", "e": "Day to date"}, "zone": "UTC"},
            "lookbacks 'd' and 'e' are equal",
        ),
        ({"lookbacks": {"d": "hour to date"}, "zone": "UTC"}, "zone is 'UTC', and no lookback is to date"),
        (
            {"lookbacks": {"d": "day to date"}, "zone": "Mars"},
            "zone is 'Mars', which the tz database does not have",
        ),
    ],
)
def test_what_no_calendar_has_is_refused(arguments: dict[str, Any], message: str) -> None:
    """By name, with the way out."""
    with pytest.raises(DefinitionError, match=message):
        RollingWindows(**arguments)


def test_local_times_are_refused_and_windows_are_explained() -> None:
    """A column without a zone holds no instants; bounds are said, and drawn."""
    windows = RollingWindows({"today": "day to date"}, zone="Europe/Berlin")
    operator = windows.group_by("key").aggregate(n=agg.count())
    naive = pa.table({"key": ["a"], "time": pa.array([0], pa.timestamp("ms"))})
    with (
        operator.local_runner("time") as runner,
        pytest.raises(DefinitionError, match="'time' is of type timestamp_ntz"),
    ):
        runner.process(naive)
    records = table([("a", ms("2026-03-28T23:00"), 1), ("a", ms("2026-03-29T21:00"), 2)])
    kind = Rolling(windows.lookback_ticks, "left").describe(1_000)
    assert (
        kind.bounds == "[the last begin of the day since 1970-01-01 in Europe/Berlin, t) for each record at t"
    )
    rows = [
        row
        for step in expected_rows(windows, [records, (table([]), FAR_FUTURE)], "time", {"n": len}, ["key"])
        for row in step
    ]
    assert "[03-28 23:00, 03-29 21:00]" in timeline(records, rows, windows, "time", key={"key": "a"})
