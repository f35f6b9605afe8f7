"""The examples of operators on five stormy days: a bounded frame and a stream give the rows of brute force."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from examples.flights_data import departed, load_flights, write_source
from examples.operators import flights as frames
from examples.operators.count_windows import LastFlights, worst
from examples.operators.delay_alert import DelayAlert, show
from examples.operators.funnel import Recovery, funnel
from operators import Operator
from tests.effort import slow
from tests.operators.spark.frames import run_query

pytestmark = pytest.mark.spark

DAYS = ((24, 25, 26), (27, 28))
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
Flights = dict[str, list[tuple[int, int]]]
Emitted = Iterator[tuple[int, tuple[Any, ...]]]
"""Rows, each behind the time in milliseconds when nothing can change it any more."""


@pytest.fixture(scope="module")
def june() -> list[pa.Table]:
    """The flights of some days in June, with their aircraft, in two parts."""
    left = departed(load_flights("tailnum"))
    left = left.filter(pc.equal(pc.month(left.column("scheduled")), 6))
    day = pc.day(left.column("scheduled"))
    return [left.filter(pc.is_in(day, pa.array(days))) for days in DAYS]


@pytest.fixture(scope="module")
def source(june: list[pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Them as files."""
    folder = tmp_path_factory.mktemp("june") / "source"
    write_source(pa.concat_tables(june), june, folder)
    return folder


def by_key(june: list[pa.Table], name: str) -> Flights:
    """Departures in milliseconds with their delay, in order of both, of each value of a column."""
    found = defaultdict(list)
    for row in pa.concat_tables(june).to_pylist():
        found[row[name]].append(((row["departure"] - EPOCH) // timedelta(milliseconds=1), row["dep_delay"]))
    return {key: sorted(flights) for key, flights in found.items()}


def moment(time: int) -> datetime:
    return (EPOCH + timedelta(milliseconds=time)).replace(tzinfo=None)


def last_flights(flights: Flights) -> Emitted:
    for key, departures in flights.items():
        for number in range(5, len(departures) + 1, 5):
            time, _ = departures[number - 1]
            last = [delay for _, delay in departures[max(0, number - 30) : number]]
            yield time, (key, moment(time), number, sum(last) / len(last), float(max(last)))


def alerts(flights: Flights) -> Emitted:
    for key, departures in flights.items():
        since = None
        for time in sorted({t + later for t, _ in departures for later in (0, HOUR + 1)}):
            window = [delay for t, delay in departures if time - HOUR <= t <= time]
            mean = sum(window) / len(window) if window else None
            if since is None and len(window) >= 10 and mean > 60:
                since = time
                yield time, (key, "fired", moment(time), len(window), mean, None)
            elif since is not None and (len(window) < 10 or mean < 45):
                yield time, (key, "cleared", moment(time), len(window), mean, (time - since) / MINUTE)
                since = None


def sessions(flights: Flights) -> Emitted:
    for key, departures in flights.items():
        begins = [n for n, (time, _) in enumerate(departures) if n == 0 or time - departures[n - 1][0] > DAY]
        for begin, end in zip(begins, [*begins[1:], len(departures)], strict=True):
            session = departures[begin:end]
            late = next((n for n, (_, delay) in enumerate(session) if delay >= 60), len(session))
            reached = [time for time, _ in session[late : late + 2]]
            reached += [time for time, delay in session[late + 1 :] if delay <= 5][:1]
            after = [(time - reached[0]) / HOUR for time in reached[1:]] + [None, None]
            yield session[-1][0] + DAY, (key, moment(session[0][0]), len(session), len(reached), *after[:2])


@pytest.mark.parametrize(
    ("definition", "key", "judge", "backend"),
    [
        slow(
            LastFlights(n=30, every=5, grace="24 hours"), "origin", last_flights, "memory", id="count windows"
        ),
        slow(DelayAlert(grace="24 hours"), "origin", alerts, "rocksdb", id="alerts"),
        slow(Recovery(grace="24 hours"), "tailnum", sessions, "spark", id="funnel"),
    ],
)
def test_rows_are_those_of_brute_force(
    spark: SparkSession,
    june: list[pa.Table],
    source: Path,
    tmp_path: Path,
    definition: Operator,
    key: str,
    judge: Any,
    backend: str,
) -> None:
    """All of them from a bounded frame; from a stream those that are final at its last close time."""
    expected = sorted(judge(by_key(june, key)), key=repr)
    grouped = definition.group_by(key)
    bounded = grouped.apply(spark.read.schema(frames.DDL).parquet(str(source)), event_time="departure")
    assert [row for _, row in expected] == sorted(map(tuple, bounded.collect()), key=order(expected))
    files = spark.readStream.schema(frames.DDL).option("maxFilesPerTrigger", 1).parquet(str(source))
    made = grouped.apply(files, event_time="departure", backend=backend)
    run_query(made, tmp_path / "rows", tmp_path / "checkpoint")
    close = max(time for departures in by_key(june, key).values() for time, _ in departures) - DAY
    final = [(time, row) for time, row in expected if time < close]
    found = map(tuple, spark.read.schema(made.schema).parquet(str(tmp_path / "rows")).collect())
    assert 20 < len(final) < len(expected)
    assert [row for _, row in final] == sorted(found, key=order(expected))


def order(expected: list[tuple[int, tuple[Any, ...]]]) -> Any:
    """Sort rows as the expected ones are, and others behind them."""
    places = {row: place for place, (_, row) in enumerate(expected)}
    return lambda row: (places.get(row, len(places)), repr(row))


@pytest.mark.slow
def test_what_the_commands_print(
    spark: SparkSession, june: list[pa.Table], source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worst flights of each airport, the longest alert, and the funnel."""
    flights = spark.read.schema(frames.DDL).parquet(str(source))
    windows = LastFlights(n=100, every=10).group_by("origin").apply(flights, event_time="departure")
    found = {row.origin: row.mean for row in worst(windows).collect()}
    means = defaultdict(list)
    for key, departures in by_key(june, "origin").items():
        for number in range(100, len(departures) + 1, 10):
            means[key].append(sum(delay for _, delay in departures[number - 100 : number]) / 100)
    assert {key: max(several) for key, several in means.items()} == found
    show(DelayAlert().group_by("origin").apply(flights, event_time="departure"), 7)
    longest = max(row[-1] or 0 for _, row in alerts(by_key(june, "origin")))
    assert "batch  7: " in (said := capsys.readouterr().out)
    assert f": {longest // 60:.0f} h {longest % 60:02.0f} min" in said
    lines = funnel(Recovery().group_by("tailnum").apply(flights, event_time="departure"))
    rows = [row for _, row in sessions(by_key(june, "tailnum"))]
    assert [len(rows), *(sum(row[3] > step for row in rows) for step in range(3))] == [
        int(line.split()[0].replace(",", "")) for line in lines
    ]
