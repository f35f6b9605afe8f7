"""Windows of calendars against `date_trunc` of a PostgreSQL server, and by name the places where it means something else."""

import random

import numpy as np
import psycopg

from operators import TumblingWindows
from operators.columns.ranges import Ints
from operators.columns.zones import zone_of
from tests.operators.kinds.test_calendars import DAY, ZONES, ms

UNITS = ("day", "week", "month", "quarter", "year")
AROUND = (-DAY, -3_600_000, -1_800_000, -1, 0, 1, 1_800_000, 3_600_000, DAY - 1)
TWICE, BACK = "its midnight comes twice, and PostgreSQL takes the second one", "the date before comes again"
OTHERWISE = {
    ("America/Sao_Paulo", "1950-04-16"): {TWICE},
    ("Antarctica/Casey", "2010-03-05"): {TWICE, BACK},
    ("Antarctica/Casey", "2019-03-17"): {TWICE},
    ("Antarctica/Casey", "2020-03-08"): {TWICE},
    ("Antarctica/Casey", "2023-03-09"): {TWICE},
    ("Antarctica/Vostok", "2023-12-18"): {TWICE},
    ("Europe/Berlin", "1916-10-01"): {TWICE},
    ("Pacific/Apia", "1892-07-04"): {TWICE},
}
"""Days that begin at another instant there. Those of St John's, at one minute past midnight, are in `AUTUMNS`."""
AUTUMNS = """
1987-10-25 1988-10-30 1989-10-29 1990-10-28 1991-10-27 1992-10-25 1993-10-31 1994-10-30
1995-10-29 1996-10-27 1997-10-26 1998-10-25 1999-10-31 2000-10-29 2001-10-28 2002-10-27
2003-10-26 2004-10-31 2005-10-30 2006-10-29 2007-11-04 2008-11-02 2009-11-01 2010-11-07
"""
QUERY = """
SELECT unit, zone, at, extract(epoch FROM moment AT TIME ZONE zone) * 1000 AS local,
       extract(epoch FROM date_trunc(unit, moment, zone)) * 1000 AS start
FROM unnest(%s::text[], %s::bigint[]) AS asked (zone, at), unnest(%s::text[]) AS unit,
     LATERAL (SELECT timestamptz 'epoch' + at * interval '1 ms' AS moment) AS at_moment
"""


def instants(zone: str) -> list[int]:
    """Times in ms: around each change of the clock until 2040 and some later ones, and any others."""
    chance = random.Random(zone)
    changes = (zone_of(zone).table[0] * 1_000).tolist()
    listed = [at for at in changes if ms("1800-01-01") < at < ms("2040-01-01")]
    listed += chance.sample([at for at in changes if at >= ms("2040-01-01")] or listed, min(20, len(listed)))
    others = [chance.randrange(ms("1800-01-01"), ms("2500-01-01")) for _ in range(300)]
    return [at + by for at in listed for by in AROUND] + others


def places(zone: str, unit: str, at: Ints, theirs: Ints) -> dict[tuple[str, str], set[str]]:
    """Where periods start at another instant than theirs: the zone and the date, and why."""
    times = TumblingWindows(f"1 {unit}", zone=zone).times
    ours = times.start(times.last_at(at))
    found: dict[tuple[str, str], set[str]] = {}
    for start, wanted in {*zip(ours.tolist(), theirs.tolist(), strict=True)}:
        if start != wanted:
            ahead = int(zone_of(zone).ahead(np.array([start // 1_000]))[0])
            date = str(np.datetime64(start + ahead * 1_000, "ms"))[:10]
            found.setdefault((zone, date), set()).add(TWICE if wanted > start else BACK)
    return found


def test_periods_are_those_of_date_trunc(postgres: str) -> None:
    """Days, weeks, months, quarters and years, where its tz database has the same clock; other starts are those listed.

    A server has a tz database of its own, or the system's, which may not be the one that Python reads.
    """
    asked = [(zone, at) for zone in ZONES for at in instants(zone)]
    with psycopg.connect(postgres) as db:
        rows = db.execute(QUERY, [*map(list, zip(*asked, strict=True)), list(UNITS)]).fetchall()
    units, zones, *numbers = (np.array(column) for column in zip(*rows, strict=True))
    at, local, theirs = (column.astype(np.int64) for column in numbers)
    judged = []
    found: dict[tuple[str, str], set[str]] = {}
    for zone in ZONES:
        here = zones == zone
        if (local[here] - at[here] == zone_of(zone).ahead(at[here] // 1_000) * 1_000).all():
            judged.append(zone)
            for unit in UNITS:
                chosen = here & (units == unit)
                for place, why in places(zone, unit, at[chosen], theirs[chosen]).items():
                    found[place] = found.get(place, set()) | why
    listed = OTHERWISE | {("America/St_Johns", date): {TWICE, BACK} for date in AUTUMNS.split()}
    assert found == {place: why for place, why in listed.items() if place[0] in judged}
    assert len(judged) > len(ZONES) // 2
