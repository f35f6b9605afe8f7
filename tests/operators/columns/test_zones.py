"""The clocks of zones against those of Python's `zoneinfo`, which reads the same files."""

import base64
import random
import struct
import tracemalloc
import zlib
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from operators import DefinitionError
from operators.columns.zones import Zone, _later, _parsed, zone_of
from serializers import CorruptDataError

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
ZONES = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Godthab",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Antarctica/Vostok",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Manila",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "UTC",
)
"""With half hours, a second daylight saving time, missing days, seconds, a rule around midnight or before it, and none."""


def ahead(zone: ZoneInfo, at: int) -> int:
    """By how many seconds the clock of Python's zone is ahead of UTC."""
    offset = (EPOCH + timedelta(seconds=at)).astimezone(zone).utcoffset()
    assert offset is not None
    return round(offset.total_seconds())


@pytest.mark.parametrize("name", ZONES)
def test_clocks_are_those_of_python(name: str) -> None:
    """At each change and a second before it, until 2500 and in the centuries after; and before the first one."""
    zone, chance = zone_of(name), random.Random(name)
    changes = [at for at in zone.table[0].tolist() if at > -6e10]
    at = [near - late for near in chance.sample(changes, min(300, len(changes))) for late in (0, 1)]
    at += [chance.randrange(int(-6e10), int(2.5e11)) for _ in range(100)]
    wanted = [ahead(ZoneInfo(name), each) for each in at]
    assert wanted == zone.ahead(np.array(at)).tolist()
    local = zone.latest_local(np.array(sorted(at)) * 1_000, 1_000)
    assert (np.diff(local) >= 0).all()
    assert all(
        a + b <= each // 1_000
        for a, b, each in zip(sorted(at), map(ahead_of(name), sorted(at)), local, strict=True)
    )


def ahead_of(name: str):
    """How far Python's clock of a zone is ahead of UTC, by time."""
    return lambda at: ahead(ZoneInfo(name), at)


def test_what_is_stored_is_the_clock() -> None:
    """The text of a clock leads back to it; zones of other names with one clock are equal."""
    for name in ZONES:
        assert Zone.of_text("any", zone_of(name).text) == zone_of(name)
        assert len(zone_of(name).text) < 1_200
    assert zone_of("Europe/Kiev") == zone_of("Europe/Kyiv")
    assert zone_of("Europe/Berlin") != zone_of("Europe/Rome")


@pytest.mark.parametrize(
    "changes",
    [b"", bytes(8), bytes(24), bytes(20), bytes(1 << 26)],
    ids=["none", "one number", "three", "no numbers", "64 MiB of zeros"],
)
@pytest.mark.parametrize("cut", [0, 3])
def test_a_forged_clock_is_refused(changes: bytes, cut: int) -> None:
    """Before it is unpacked, if it is large: who can write to state can write any text there."""
    packed = zlib.compress(changes, 9)
    text = base64.b85encode(packed[: len(packed) - cut]).decode()
    tracemalloc.start()
    with pytest.raises(CorruptDataError, match="the clock of the zone 'any'"):
        Zone.of_text("any", text)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20
    for other in ("*", "\x00", "no zlib", 7, None):
        with pytest.raises(CorruptDataError):
            Zone.of_text("any", other)  # type: ignore[arg-type]


def test_the_first_difference_of_two_clocks_is_found() -> None:
    """Summer time ended on other days in 1995 in London and in Berlin; they are an hour apart anyhow."""
    berlin, paris, london = map(zone_of, ("Europe/Berlin", "Europe/Paris", "Europe/London"))
    since, until = 1_500_000_000, 1_900_000_000
    assert berlin.first_difference(paris, since, until) is None
    assert berlin.first_difference(london, since, until) == (since, 7_200, 3_600)
    at, _, _ = berlin.first_difference(paris, -(10**9), until) or (0, 0, 0)
    assert berlin.ahead(np.array([at]))[0] != paris.ahead(np.array([at]))[0]
    assert berlin.ahead(np.array([at - 1]))[0] == paris.ahead(np.array([at - 1]))[0] or at == -(10**9)


@pytest.mark.parametrize("name", ["Europe/Berln", "Europe", "../etc/passwd", "", 3, None])
def test_unknown_zones_are_refused(name: object) -> None:
    """By name, with the one that was probably meant."""
    with pytest.raises(
        DefinitionError, match=r"which the tz database does not have: (did you mean|give a name)"
    ):
        zone_of(name)


@pytest.mark.parametrize(
    ("footer", "year", "first"),
    [
        ("AAA0BBB,J60/0,J61/0", 2000, ["2000-03-01T00:00", "2000-03-01T23:00"]),
        ("AAA0BBB,59/0,60/0", 2000, ["2000-02-29T00:00", "2000-02-29T23:00"]),
        ("<+03>-3<+04>-4:30,M4.5.5/-24,M10.1.0/25:30:30", 2023, ["2023-04-26T21:00", "2023-10-01T21:00:30"]),
    ],
)
def test_rules_are_read(footer: str, year: int, first: list[str]) -> None:
    """Days of the year with and without February 29, and times before and after the day: what few files have."""
    since = int(np.datetime64(f"{year}-01-01", "s").astype(int))
    instants, _ = _later("any", footer, since)
    wanted = [int(np.datetime64(text, "s").astype(int)) for text in first]
    assert wanted == instants[:2].tolist()


def test_files_that_are_not_understood_are_refused() -> None:
    """Files without 64-bit times, with leap seconds, or with a rule of another form."""
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    body = struct.pack(">lBB4s", 0, 0, 0, b"UTC\0")
    assert zone_of("UTC") == _parsed("any", header + body + header + body + b"\nUTC0\n")
    with pytest.raises(DefinitionError, match="old format"):
        _parsed("any", header.replace(b"TZif2", b"TZif\0") + body)
    with pytest.raises(DefinitionError, match="'UTC0XXX', which is not understood"):
        _parsed("any", header + body + header + body + b"\nUTC0XXX\n")
    leap = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 1, 0, 1, 4)
    with pytest.raises(DefinitionError, match="leap seconds"):
        _parsed("any", leap + body + bytes(8))
