"""What a reader answers of windows with a calendar, from published pages: days and months so far, and open windows."""

import datetime as dt
import random
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from operators import HoppingWindows, RollingWindows, TumblingWindows
from operators import aggregates as agg
from operators.definitions.rolling import RollingAggregation
from operators.sinks import SinkError, SQLitePages
from tests.operators.sinks.publishing import BEGIN, Publisher, Record, moment, table_of
from tests.operators.sinks.test_features_now import as_of

BERLIN = "Europe/Berlin"
MINUTE, HOUR = 60_000, 3_600_000
BY_DAY = {"state.segment": "1 day"}
RESULTS = {"n": agg.count(), "s": agg.sum("v")}


def ms(text: str) -> int:
    """Return a moment in UTC in milliseconds after BEGIN."""
    return round((dt.datetime.fromisoformat(f"{text}+00:00") - BEGIN).total_seconds() * 1_000)


CHANGE = ms("2026-03-29T01:00")
"""When clocks go forward in Berlin."""


def so_far(zone: str, **lookbacks: str) -> RollingAggregation:
    """Features of windows to date."""
    return RollingWindows(lookbacks, zone=zone).group_by("k").aggregate(**RESULTS)


def begins(at: int, lookback: str) -> int:
    """Return when the local day, week or month of a moment begins, by Python's own zones, where clocks change in the day."""
    local = moment(at).astimezone(ZoneInfo(BERLIN)).replace(hour=0, minute=0, second=0, microsecond=0)
    if lookback == "month to date":
        local = local.replace(day=1)
    if lookback == "week to date":
        local -= dt.timedelta(local.weekday())
    return round((local.astimezone(dt.timezone.utc) - BEGIN).total_seconds() * 1_000)


@pytest.mark.slow
def test_days_weeks_and_months_so_far_are_those_of_brute_force(tmp_path: Path) -> None:
    """At moments around a change of the clock, the begin of a month, and at midnight itself; `apply_as_of` says the same."""
    lookbacks = {"today": "day to date", "wtd": "week to date", "mtd": "month to date", "3h": "3 hours"}
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - to repeat the test
    rnd, defined = random.Random(seed), so_far(BERLIN, **lookbacks)
    pages, records = SQLitePages(tmp_path / "f.db", "pages"), list[Record]()
    batches = []
    with Publisher(defined, pages, options=BY_DAY) as publisher, defined.reader(pages) as reader:
        for now in (CHANGE - 10 * HOUR, CHANGE + 30 * HOUR, CHANGE + 9 * 24 * HOUR):
            edges = [begins(now, lookback) for lookback in lookbacks.values() if "date" in lookback]
            times = [now - rnd.randrange(9 * 24 * HOUR) for _ in range(40)]
            times += [edge + by for edge in edges for by in (-1, 0, 1) if edge + by <= now]
            more = [(rnd.choice("aab"), time, rnd.randrange(9)) for time in times]
            records += more
            batches.append((more, now))
            publisher.step(more, stream_time=moment(now))
            for at in (
                now,
                now + 1,
                now + 20 * HOUR,
                begins(now, "day to date") + 24 * HOUR,
                now + 40 * 24 * HOUR,
            ):
                if at < now:
                    continue
                wanted = []
                for key in "abcx":
                    row: dict[str, Any] = {"k": key}
                    for name, lookback in lookbacks.items():
                        since = at - 3 * HOUR if name == "3h" else begins(at, lookback)
                        inside = [v for k, time, v in records if k == key and since <= time <= at]
                        row |= {f"n_{name}": len(inside), f"s_{name}": sum(inside) if inside else None}
                    wanted.append(row)
                found = reader.get_many([{"k": key} for key in "abcx"], moment(at)).table.to_pylist()
                assert [dict(sorted(row.items())) for row in wanted] == [
                    dict(sorted(row.items())) for row in found
                ]
        assert (
            as_of(defined, batches, now)
            == reader.get_many([{"k": key} for key in "abcx"], moment(now)).table.to_pylist()
        )


@pytest.mark.parametrize("policy", ["on_close", "on_update"])
@pytest.mark.parametrize(
    "windows",
    [
        TumblingWindows("1 day", zone=BERLIN, offset="6 hours", grace="2 hours"),
        HoppingWindows("2 weeks", "1 week", zone=BERLIN),
        TumblingWindows("1 month", zone=BERLIN),
    ],
    ids=["days", "weeks", "months"],
)
def test_open_windows_of_a_calendar_are_those_of_the_runner(
    windows: Any, policy: Any, tmp_path: Path
) -> None:
    """After each batch, over a change of the clock."""
    operator = windows.group_by("k").aggregate(**RESULTS).emit(policy)
    pages, seen = SQLitePages(tmp_path / "f.db", "pages"), 0
    with (
        Publisher(operator, pages, options=BY_DAY) as publisher,
        operator.reader(pages) as reader,
        operator.local_runner("at") as runner,
    ):
        for number in range(4):
            now = CHANGE + (number - 2) * 20 * HOUR
            records = [("ab"[n % 2], now - n * 3 * HOUR, n) for n in range(12)]
            publisher.step(records, stream_time=moment(now))
            runner.process(table_of(records), stream_time=moment(now))
            rows = runner.open_windows().to_pylist()
            for key in "abx":
                found = reader.windows({"k": key}).table.to_pylist()
                assert [row for row in rows if row["k"] == key] == found
                seen += len(found)
    assert seen > 4


def test_a_reader_may_have_another_clock_where_nothing_is_read(tmp_path: Path) -> None:
    """Moscow and Minsk have one clock since 2014-10-26: what a reader of the other zone gets after it is the same."""
    month, year = (so_far("Europe/Moscow", x=f"{unit} to date") for unit in ("month", "year"))
    pages = [SQLitePages(tmp_path / "f.db", name) for name in ("month", "year")]
    records = [("a", ms("2014-11-02T00:00") + n * HOUR, n) for n in range(100)]
    for defined, table in zip((month, year), pages, strict=True):
        with Publisher(defined, table, options=BY_DAY) as publisher:
            publisher.step(records)
    at = moment(ms("2014-11-20T10:00"))
    with month.reader(pages[0]) as same, so_far("Europe/Minsk", x="month to date").reader(pages[0]) as other:
        assert {"n_x": 100, "s_x": 4950} == dict(other.get({"k": "a"}, at)) == dict(same.get({"k": "a"}, at))
    with so_far("Europe/Minsk", x="year to date").reader(pages[1]) as other:
        with pytest.raises(
            SinkError,
            match=r"clock of 'Europe/Moscow' .*'Europe/Minsk' differs from 2013-12-2\d .* 14400 s .* 10800 s. Have the reader",
        ):
            other.get({"k": "a"}, at)
        assert {"n_x": 0, "s_x": None} == dict(other.get({"k": "a"}, moment(ms("2015-12-20T10:00"))))
    with (
        so_far("Europe/Minsk", x="day to date").reader(pages[0]) as other,
        pytest.raises(SinkError, match=r"has pages of other features: .*to date was 1 month"),
    ):
        other.get({"k": "a"}, at)


def test_open_windows_of_another_clock(tmp_path: Path) -> None:
    """They are read if the clocks agree from the first open window to the end of the last one; refused if not."""
    moscow, minsk = (
        TumblingWindows("1 month", zone=zone).group_by("k").aggregate(**RESULTS)
        for zone in ("Europe/Moscow", "Europe/Minsk")
    )
    pages = SQLitePages(tmp_path / "f.db", "pages")
    with Publisher(moscow, pages, options=BY_DAY) as publisher, minsk.reader(pages) as reader:
        publisher.step([("a", ms("2014-10-20T00:00"), 1)])
        with pytest.raises(
            SinkError, match=r"differs from 2014-09-28 .*: it was 14400 s ahead of UTC, and is 10800 s"
        ):
            reader.windows({"k": "a"})
        publisher.step([("a", ms("2014-12-20T00:00"), 2)])
        (row,) = reader.windows({"k": "a"}).table.to_pylist()
        assert row["window"]["start"] == moment(ms("2014-11-30T21:00"))
        assert (row["n"], row["s"]) == (1, 2)


def test_a_reader_follows_a_query_to_another_clock(tmp_path: Path) -> None:
    """A query that went on with another clock is read by services that have the former one, and others' features are not."""
    pages, state = SQLitePages(tmp_path / "f.db", "pages"), tmp_path / "state"
    moscow, minsk, riga = (so_far(f"Europe/{name}", x="day to date") for name in ("Moscow", "Minsk", "Riga"))
    at = ms("2026-02-20T10:00")
    with Publisher(riga, pages, query="other", options=BY_DAY) as other, moscow.reader(pages) as reader:
        with Publisher(moscow, pages, directory=state, options=BY_DAY) as publisher:
            publisher.step([("a", at, 1)])
        assert 1 == reader.get({"k": "a"}, moment(at))["n_x"]
        with Publisher(minsk, pages, directory=state, options=BY_DAY) as publisher:
            publisher.step([("a", at, 2)])
        other.step([("a", at, n) for n in range(5)])
        with moscow.reader(pages) as later:
            assert 2 == later.get({"k": "a"}, moment(at))["n_x"]
        assert 5 == riga.reader(pages).get({"k": "a"}, moment(at))["n_x"]
