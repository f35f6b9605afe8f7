"""Windows of calendars: against brute force with Python's clocks, and where clocks do strange things."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import DefinitionError, HoppingWindows, TumblingWindows
from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from operators.columns.zones import Zone, zone_of
from operators.kinds.calendars import Calendar
from operators.kinds.timetables import CalendarTimetable
from operators.runtime.local import LocalRunner
from operators.testing import evaluate
from operators.testing.calendars import Periods
from operators.testing.oracles import Record
from state_backends import StateError
from tests.effort import examples, few

pytestmark = pytest.mark.usefixtures("pages_of_few_entries")
DAY = 86_400_000
ZONES = (
    "Africa/Cairo",
    "Africa/Monrovia",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Vostok",
    "Asia/Manila",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Kwajalein",
)
LENGTHS: tuple[tuple[str, str, str | int], ...] = (
    ("1 day", "1 day", 0),
    ("1 day", "1 day", "6 hours"),
    ("2 days", "1 day", 0),
    ("3 days", "2 days", "-90 minutes"),
    ("1 week", "1 week", "-1 day"),
    ("2 weeks", "1 week", 0),
    ("1 month", "1 month", 0),
    ("3 months", "2 months", "10 days"),
    ("1 quarter", "1 month", 0),
    ("1 year", "1 year", "3 months"),
)
SPECIAL = {  # A day around which something happens
    "Africa/Cairo": ("2010-08-11", "2014-05-15", "2023-04-28", "2040-04-27"),
    "Africa/Monrovia": ("1972-01-07", "1882-01-01"),
    "America/Sao_Paulo": ("2018-11-04", "2019-02-17"),
    "America/St_Johns": ("2010-11-07", "1935-03-30", "2006-10-29"),
    "Antarctica/Casey": ("2010-03-05", "2009-10-18", "2020-10-04"),
    "Antarctica/Vostok": ("1994-02-01", "1994-11-01", "2023-12-18"),
    "Asia/Manila": ("1844-12-31", "1942-05-01"),
    "Australia/Lord_Howe": ("2026-04-05", "2026-10-04", "1981-03-01"),
    "Europe/Berlin": ("2026-03-29", "2026-10-25", "2500-10-31", "1945-05-24"),
    "Europe/Dublin": ("1916-05-21", "1916-10-01", "2040-03-25"),
    "Pacific/Apia": ("2011-12-30", "2010-09-26"),
    "Pacific/Kwajalein": ("1993-08-21", "1969-10-01"),
}


def ms(moment: str) -> int:
    """A moment in UTC in milliseconds."""
    return int(np.datetime64(moment, "ms").astype(int))


def near(zone: str, chance: random.Random, count: int) -> list[int]:
    """Times around the days on which the clock of a zone does something, and around the starts of months there."""
    days = [ms(day) for day in SPECIAL[zone]]
    return [
        chance.choice(days)
        + chance.choice([0, -1, 31 * DAY, -40 * DAY])
        + chance.randrange(-2 * DAY, 2 * DAY)
        for _ in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("zone", few(ZONES, 4))
def test_windows_are_those_of_python_s_clocks(zone: str) -> None:
    """Of each length, at the changes of the clock and around them: all windows of a time, and their bounds."""
    chance = random.Random(zone)
    for size, advance, offset in LENGTHS:
        times = HoppingWindows(size, advance, offset=offset, zone=zone).times
        judge = Periods(zone, size, advance, offset)
        moments = np.array(near(zone, chance, 12))
        first, last = times.first_after(moments), times.last_at(moments)
        for moment, low, high in zip(moments.tolist(), first.tolist(), last.tolist(), strict=True):
            numbers = np.arange(low, high + 1)
            left_out = times.left_out(numbers)
            numbers = numbers if left_out is None else numbers[~left_out]
            found = list(zip(times.start(numbers).tolist(), times.end(numbers).tolist(), strict=True))
            assert found == judge.windows(moment)
            assert {low, high} <= {*numbers.tolist()}
            assert max(end - start for start, end in found) <= times.size


@pytest.mark.parametrize("zone", [*ZONES, "UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize(
    ("size", "offset"), [("1 day", 0), ("1 day", "23 hours"), ("1 week", 0), ("1 month", "5 days")]
)
def test_windows_tile_the_line(zone: str, size: str, offset: str | int) -> None:
    """Without gap or overlap, from before the first change of the clock to after 2500; each tick is in its pane."""
    times = TumblingWindows(size, offset=offset, zone=zone).times
    numbers = np.arange(*times.first_after(np.array([ms("1840-01-01"), ms("2510-01-01")])).tolist())
    start, end = times.start(numbers), times.end(numbers)
    assert (start[1:] == end[:-1]).all()
    assert (start <= end).all()
    start = start[start < end]
    for offset_ms in (0, 1):
        assert (times.pane_of(start + offset_ms) == start).all()
        one = [times.pane_of(start[n : n + 1] + offset_ms)[0] for n in range(0, len(start), 997)]
        assert one == start[::997].tolist()
    assert (times.pane_of(start[1:] - 1) == start[:-1]).all()


def utc(day: str, zone: str) -> int:
    """The first tick of a date by Python's clock."""
    local = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    return int(local.timestamp() * 1_000)


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("Europe/Berlin", "2500-10-31", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("Africa/Cairo", "2023-04-28", 23),
        ("Pacific/Apia", "2011-12-29", 24),
        ("America/Sao_Paulo", "2018-11-04", 23),
        ("Europe/Berlin", "2026-06-01", 24),
    ],
)
def test_a_day_has_its_hours(zone: str, day: str, hours: float) -> None:
    """Where no clock goes back over midnight, a day holds the instants of its date."""
    times = TumblingWindows("1 day", zone=zone).times
    noon = np.array([utc(f"{day}T12:00", zone)])
    start, end = times.start(times.last_at(noon)), times.end(times.last_at(noon))
    assert [hours * 3_600_000] == (end - start).tolist()
    shown = [
        datetime.fromtimestamp(int(at) / 1_000, ZoneInfo(zone)).date().isoformat()
        for at in (start[0], end[0] - 1)
    ]
    assert shown == [day, day]


def test_a_day_that_is_left_out_has_no_window() -> None:
    """Samoa went from December 29 to 31 in 2011: of windows of two days, those that would share a bound are left out."""
    midnight = utc("2011-12-31", "Pacific/Apia")
    records = [("a", midnight - 1, 1), ("a", midnight, 2), ("a", midnight + 5 * DAY, 3)]
    for size, wanted in (
        ("1 day", [(-DAY, 0), (0, DAY)]),
        ("2 days", [(-2 * DAY, 0), (0, 2 * DAY)]),
    ):
        windows = HoppingWindows(size, "1 day", zone="Pacific/Apia")
        outputs = evaluate(windows, [records])
        spans = [(w.start - midnight, w.end - midnight) for each in outputs for w in each.windows]
        assert sorted(spans) == wanted
        with runner_of(windows) as runner:
            assert [
                (start - midnight, end - midnight)
                for _, start, end, _, _ in rows(runner.process(table(records)))
            ] == wanted


def test_several_units_have_one_anchor() -> None:
    """Twelve months are a year, four quarters too; seven days from 1970 are not a week, which begins on Monday."""
    assert TumblingWindows("12 months", zone="UTC").times == TumblingWindows("1 year", zone="UTC").times
    assert TumblingWindows("4 quarters", zone="UTC").times == TumblingWindows("P1Y", zone="UTC").times
    assert TumblingWindows("1 week", zone="UTC").times != TumblingWindows("7 days", zone="UTC").times
    sunday = TumblingWindows("1 week", offset="-1 day", zone="UTC").times.start(np.array([0, 1]))
    assert [6, 6] == [(datetime.fromtimestamp(at / 1_000, timezone.utc)).weekday() for at in sunday.tolist()]
    april = TumblingWindows("1 year", offset="3 months", zone="UTC").times
    assert april.start(april.last_at(np.array([ms("2026-03-31"), ms("2026-04-01")]))).tolist() == [
        ms("2025-04-01"),
        ms("2026-04-01"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"size": "1 month", "advance": "1 month"},
            "size is '1 month': months, quarters and years have no fixed length",
        ),
        (
            {"size": "P1Y", "advance": "1 day"},
            "size is 'P1Y': months, quarters and years have no fixed length",
        ),
        ({"size": "9 days", "advance": "1 day", "offset": "1 month"}, "offset is '1 month': months"),
        (
            {"size": "2 hours", "advance": "1 hour", "zone": "UTC"},
            "size is '2 hours': with a zone, give",
        ),
        ({"size": DAY, "advance": DAY, "zone": "UTC"}, "size is 86400000: with a zone"),
        ({"size": "1 day", "advance": timedelta(1), "zone": "UTC"}, "advance is .*: with a zone"),
        (
            {"size": "1 day 2 hours", "advance": "1 day", "zone": "UTC"},
            "size is '1 day 2 hours': with a zone",
        ),
        ({"size": "0 days", "advance": "1 day", "zone": "UTC"}, "size is '0 days': it must be positive"),
        ({"size": "1 day", "advance": "1 day", "zone": "Europe/Berln"}, "did you mean 'Europe/Berlin'"),
        (
            {"size": "1 month", "advance": "1 day", "zone": "UTC"},
            "size is '1 month' and advance '1 day': months",
        ),
        (
            {"size": "1 day", "advance": "2 days", "zone": "UTC"},
            "advance is '2 days', more than size '1 day'",
        ),
        (
            {"size": "3 days", "advance": "1 day", "offset": "25 hours", "zone": "UTC"},
            "must be shorter than 1 day",
        ),
        (
            {"size": "1 day", "advance": "1 day", "offset": "1 month", "zone": "UTC"},
            "must be shorter than 1 day",
        ),
        (
            {"size": "1 year", "advance": "1 month", "offset": "-1 month", "zone": "UTC"},
            "must be shorter than 1 month",
        ),
        (
            {"size": "1 month", "advance": "1 month", "offset": "28 days", "zone": "UTC"},
            "must be shorter than 1 month",
        ),
        (
            {"size": "1 year", "advance": "1 year", "offset": "11 months 31 days", "zone": "UTC"},
            "must be shorter than 1 year",
        ),
    ],
)
def test_what_no_calendar_has_is_refused(arguments: dict[str, Any], message: str) -> None:
    """By name, with the way out."""
    with pytest.raises(DefinitionError, match=message):
        HoppingWindows(**arguments)


def test_local_times_are_refused() -> None:
    """A column without a zone holds no instants; whole numbers are ticks since the epoch."""
    operator = TumblingWindows("1 day", zone="UTC").aggregate(n=agg.count())
    naive = pa.table({"at": pa.array([0], pa.timestamp("ms"))})
    with (
        operator.local_runner("at") as runner,
        pytest.raises(DefinitionError, match="'at' is of type timestamp_ntz"),
    ):
        runner.process(naive)
    with operator.local_runner("at") as runner:
        assert runner.process(pa.table({"at": [0, DAY]})).num_rows == 1


def appended(values: list[int], value: int) -> list[int]:
    """The values, and one more."""
    return [*values, value]


EXACT = {"n": agg.count(), "listed": agg.collect_list("value")}
FOLDED = {
    "n": agg.fold(0, lambda n: n + 1, type="bigint"),
    "listed": agg.fold(list, appended, "value", type="array<bigint>"),
}


def runner_of(
    windows: HoppingWindows, emit: str = "on_close", folded: bool = False, **state: Any
) -> LocalRunner:
    """A local runner of windows by key."""
    operator = windows.group_by("key").aggregate(**(FOLDED if folded else EXACT)).emit(emit)  # type: ignore[arg-type]
    return operator.local_runner("time", **state)


def table(records: list[Record]) -> pa.Table:
    """Records as a table."""
    key, time, value = zip(*records, strict=True) if records else ([], [], [])
    return pa.table(
        {
            "key": pa.array(key, pa.string()),
            "time": pa.array(time, pa.timestamp("ms", "UTC")),
            "value": pa.array(value, pa.int64()),
        }
    )


def rows(emitted: pa.Table) -> list[tuple[Any, ...]]:
    """Windows as tuples of key, bounds in ms, number of records and their values."""
    window = emitted.column("window").combine_chunks()
    bounds = [window.field(name).cast(pa.int64()).to_pylist() for name in ("start", "end")]
    results = [emitted.column(name).to_pylist() for name in EXACT]
    found = zip(emitted.column("key").to_pylist(), *bounds, *results, strict=True)
    return sorted(((*row[:-1], sorted(row[-1])) for row in found), key=repr)


@dataclass(frozen=True)
class Scenario:
    """Windows, how their state is kept, and batches."""

    zone: str
    lengths: tuple[str, str, str | int]
    grace: int
    emit: str
    backend: str
    segment: str
    folded: bool
    batches: list[list[Record]]

    @property
    def windows(self) -> HoppingWindows:
        """The window definition."""
        size, advance, offset = self.lengths
        return HoppingWindows(size, advance, self.grace, offset, zone=self.zone)

    def runner(self, **changed: Any) -> LocalRunner:
        """A new runner."""
        state = {"backend": self.backend, "options": {"state.segment": self.segment}, **changed}
        return runner_of(self.windows, self.emit, self.folded, **state)


@st.composite
def scenarios(draw: Callable[..., Any]) -> Scenario:
    """Records around the days on which clocks do something."""
    zone = draw(st.sampled_from(ZONES))
    day = ms(draw(st.sampled_from(SPECIAL[zone])))
    span = draw(st.sampled_from([2 * DAY, 2 * DAY, 40 * DAY]))
    times = st.integers(-span, span).map(lambda by: day + by)
    records = st.tuples(st.sampled_from([None, "a"]), times, st.integers(0, 9))
    return Scenario(
        zone,
        draw(st.sampled_from(LENGTHS)),
        draw(st.sampled_from([0, DAY // 24, 3 * DAY])),
        draw(st.sampled_from(["on_close", "on_update"])),
        draw(st.sampled_from(["memory", "rocksdb", "spark"])),
        draw(st.sampled_from(["1 hour", "5 days", "400 days"])),
        draw(st.booleans()),
        draw(st.lists(st.lists(records, max_size=5), min_size=1, max_size=6)),
    )


@examples(3)
@given(scenarios(), st.lists(st.booleans(), min_size=6, max_size=6))
def test_rows_are_those_of_the_oracle(scenario: Scenario, restarts: list[bool]) -> None:
    """Every batch emits exactly the windows that follow from all raw records, also after restarts; nothing stays stored."""
    outputs = evaluate(scenario.windows, scenario.batches, scenario.emit)
    late = 0
    with scenario.runner() as runner:
        for records, output, restart in zip(scenario.batches, outputs, restarts, strict=False):
            if restart:
                runner.restart()
            wanted = [
                (w.key, w.start, w.end, len(w.content), sorted(value for _, value in w.content))
                for w in output.windows
            ]
            assert sorted(wanted, key=repr) == rows(runner.process(table(records)))
            late += len(output.late)
            assert late == runner.counters.late
        runner.process(table([]), FAR_FUTURE)
        assert runner.store.is_empty()


def test_another_clock_is_refused_by_its_first_difference(tmp_path: Path) -> None:
    """Over what is stored; a zone of another name with the same clock goes on, and so does one that differs elsewhere."""
    records = [("a", ms("2026-03-10T12:00"), 1)]

    def go_on(zone: Zone | str, directory: Path, more: list[Record] | None = None) -> list[Any]:
        windows = TumblingWindows("1 month", zone="Europe/Kyiv")
        if isinstance(zone, Zone):
            panes = replace(windows.times.panes, zone=zone)  # type: ignore[attr-defined]
            object.__setattr__(windows, "times", CalendarTimetable(panes, 1, 1))
        else:
            windows = TumblingWindows("1 month", zone=zone)
        with runner_of(windows, directory=directory) as runner:
            return rows(runner.process(table(more or [])))

    go_on("Europe/Kyiv", tmp_path, records)
    go_on("Europe/Kiev", tmp_path)
    kyiv = zone_of("Europe/Kyiv")
    instants, offsets = (column.copy() for column in kyiv.table)
    for day, taken in (("2026-10-25", True), ("2025-03-30", True), ("2026-03-29", False)):
        at = int(np.argmin(np.abs(instants - ms(day) // 1_000)))
        changed = np.stack([instants, offsets])
        changed[0, at] += 3_600
        other = Zone("Europe/Kyiv", changed.tobytes(), kyiv.repeats)
        assert other != kyiv
        if taken:
            go_on(other, tmp_path)
        else:
            with pytest.raises(
                StateError,
                match=r"from 2026-03-29 01:00:00 UTC on: it was 10800 s .*, and is 7200",
            ):
                go_on(other, tmp_path)
    with pytest.raises(
        StateError, match=r"'Europe/Kyiv' as it was .*'Europe/Berlin' differs from 2026-02-26"
    ):
        go_on("Europe/Berlin", tmp_path)
    for other, message in (
        (TumblingWindows("1 day", zone="Europe/Kyiv"), "size was '1 month', is '1 day'"),
        (TumblingWindows("1 day"), "windows were calendar tumbling, are tumbling"),
    ):
        with runner_of(other, directory=tmp_path) as runner, pytest.raises(StateError, match=message):
            runner.process(table([]))
    assert go_on("Europe/Kyiv", tmp_path, [("a", ms("2026-05-01"), 2)]) == [
        ("a", ms("2026-02-28T22:00"), ms("2026-03-31T21:00"), 1, [1])
    ]


def test_many_periods_are_numbered_without_their_edges() -> None:
    """Times centuries apart in one batch: a few records do not make edges for every day between them."""
    calendar = Calendar(zone_of("Europe/Berlin"), "day", 1, 0, 0, 1_000)
    times = np.array([ms("0001-06-01"), ms("2026-03-29"), ms("9999-06-01")])
    assert calendar._edges(times)[1] is None
    assert calendar.begin(times).tolist() == [calendar.begin(times[n : n + 1])[0] for n in range(3)]
    with runner_of(TumblingWindows("1 day", zone="Europe/Berlin")) as runner:
        found = rows(runner.process(table([("a", int(at), 1) for at in times]), FAR_FUTURE))
    assert [row[1] for row in found] == sorted(calendar.begin(times).tolist())
