"""Zones of the tz database: how far a local clock is from UTC, and the instants at which that changes.

A zone is read once, where the operator is defined, and sent to executors as arrays. The rule that a file gives for later years
is written out for 400 years, after which the calendar repeats, weekdays included. So all times have a local time.

A local clock goes back in autumn, and a date may come twice. Here it is read as the latest local time so far, which never
goes back:

    instants        a   b   c   d   e
    local clock   1:58 1:59 1:00 1:59 2:00
    latest        1:58 1:59 1:59 1:59 2:00
"""

import base64
import re
import struct
import zlib
import zoneinfo
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from operators.columns.records import FAR_PAST, Ints
from operators.errors import DefinitionError
from serializers.shapes import refusing, short
from state_backends.registry import nearest

DAY_S = 86_400
CYCLE_DAYS = 146_097
_CYCLE_S = CYCLE_DAYS * DAY_S
_CYCLE_YEARS = 400
_MOST_BYTES = 1 << 20
"""Of the changes of a clock that is read back. Those of the tz database have up to 18 KiB."""
_EARLIEST_S = -(2**40)
"""Some files begin with a change at the big bang, and 64 bits do not hold its microseconds."""
_HEADER = struct.Struct(">4sc15x6l")
_NAME = r"(?:[A-Za-z]{3,}|<[^>]+>)"
_OFFSET = r"([+-]?\d+(?::\d+){0,2})"
_FOOTER = re.compile(rf"{_NAME}{_OFFSET}(?:{_NAME}{_OFFSET}?,([^,]+),([^,]+))?")
_DATE = re.compile(r"M(\d+)\.(\d)\.(\d)|J(\d+)|(\d+)")


@dataclass(frozen=True, slots=True)
class Zone:
    """The local clock of a zone. Zones are equal if their clocks are.

    Attributes:
        name: as the tz database has it.
        changes: int64 numbers as bytes: seconds since the epoch at which the clock changes, the first one for all times before;
            then, for each, the seconds that the clock is ahead of UTC from then on.
        repeats: whether the last 400 years of changes repeat for ever.
    """

    name: str = field(compare=False)
    changes: bytes
    repeats: bool

    @property
    def table(self) -> tuple[Ints, Ints]:
        """The instants of the changes, and the seconds that the clock is ahead of UTC from then on."""
        instants, ahead = np.frombuffer(self.changes, np.int64).reshape(2, -1)
        return instants, ahead

    @property
    def spread_s(self) -> int:
        """By how many seconds a span of time may be longer, or shorter, than the local clock says."""
        return _extremes(self)[0]

    @property
    def longest_gap_s(self) -> int:
        """The most seconds that the clock has gone forward at once."""
        return _extremes(self)[1]

    @property
    def text(self) -> str:
        """The changes as printable text, as states keep it."""
        return _text_of(self)

    @classmethod
    def of_text(cls, name: str, text: str) -> "Zone":
        """Return the zone of a `text`.

        Raises:
            CorruptDataError: it is something else, or larger than the clock of any zone.
        """
        with refusing(f"the clock of the zone {short(name)}"):
            reader = zlib.decompressobj()
            try:
                deltas = reader.decompress(base64.b85decode(text.removeprefix("*")), _MOST_BYTES)
            except zlib.error as error:
                raise ValueError(str(error)) from error
            if not reader.eof or not deltas:
                raise ValueError(f"it is truncated, empty or of more than {_MOST_BYTES} bytes")
            table = np.cumsum(np.frombuffer(deltas, "<i8").reshape(2, -1), axis=1).astype(np.int64)
        return cls(name, table.tobytes(), text.startswith("*"))

    def first_difference(self, other: "Zone", since: int, until: int) -> tuple[int, int, int] | None:
        """Return the first second from `since` to `until` at which two clocks differ, and by how much each is ahead of UTC."""
        at = np.unique(np.concatenate([[since, until], self.table[0], other.table[0]]))
        at = at[(at >= since) & (at <= until)]
        mine, theirs = (zone.ahead(at) for zone in (self, other))
        differ = np.flatnonzero(mine != theirs)
        return (int(at[differ[0]]), int(mine[differ[0]]), int(theirs[differ[0]])) if len(differ) else None

    def ahead(self, time_s: Ints) -> Ints:
        """Return by how many seconds the clock is ahead of UTC at each second since the epoch."""
        instants, ahead = self.table
        time_s, _ = self._folded(time_s, int(instants[-1]), 1)
        return ahead[np.maximum(np.searchsorted(instants, time_s, "right") - 1, 0)]

    def _in_ticks(self, per_second: int) -> tuple[Ints, Ints, Ints]:
        """The changes, how far the clock is ahead, and the local time that it had reached before each."""
        instants, ahead = (column * per_second for column in self.table)
        instants[0] = 2 * FAR_PAST
        reached = np.full(len(instants), 2 * FAR_PAST)
        reached[1:] = np.maximum.accumulate(instants[1:] + ahead[:-1])
        return instants, ahead, reached

    def _folded(self, time: Ints, last: int, per_second: int) -> tuple[Ints, Ints]:
        """Times before `last`, and how many ticks of whole cycles they are from the given ones."""
        if not self.repeats or not len(time) or time.max() < last:
            return time, np.zeros(1, np.int64)
        cycle = _CYCLE_S * per_second
        away = np.maximum((time - last) // cycle + 1, 0) * cycle
        return time - away, away

    def latest_local(self, time: Ints, per_second: int) -> Ints:
        """Return the latest local time so far at each instant, in ticks as if the clock showed UTC. It never descends.

        Args:
            time: shape (n,), int64: instants in ticks.
            per_second: number of ticks in a second.
        """
        instants, ahead, reached = self._in_ticks(per_second)
        time, away = self._folded(time, int(instants[-1]), per_second)
        at = np.searchsorted(instants, time, "right") - 1
        return np.maximum(time + ahead[at], reached[at] - 1) + away

    def earliest(self, local: Ints, per_second: int) -> Ints:
        """Return the earliest instant whose local time is each local time or later.

        Args:
            local: shape (n,), int64: local times in ticks, as if the clock showed UTC.
            per_second: number of ticks in a second.
        """
        instants, ahead, reached = self._in_ticks(per_second)
        local, away = self._folded(local, int(reached[-1]), per_second)
        at = np.searchsorted(reached[1:], local, "right")
        return np.maximum(instants[at], local - ahead[at]) + away


@lru_cache(maxsize=64)
def _extremes(zone: Zone) -> tuple[int, int]:
    """The spread and the longest gap of a zone."""
    ahead = zone.table[1]
    return int(np.ptp(ahead)), int(np.diff(ahead).max(initial=0))


@lru_cache(maxsize=64)
def _text_of(zone: Zone) -> str:
    deltas = np.stack([np.diff(column, prepend=0) for column in zone.table])
    packed = base64.b85encode(zlib.compress(deltas.astype("<i8").tobytes(), 9))
    return f"{'*' if zone.repeats else ''}{packed.decode()}"


def zone_of(name: object) -> Zone:
    """Return a zone of the tz database: the system's, or that of the package `tzdata`, as Python's `zoneinfo` finds it.

    Raises:
        DefinitionError: there is no such zone; names those that are spelled alike.
    """
    key: Any = getattr(name, "key", name)
    try:
        zoneinfo.ZoneInfo(key)
    except (KeyError, OSError, TypeError, ValueError):
        close = nearest(str(key), sorted(zoneinfo.available_timezones()))
        meant = (
            "give a name such as 'Europe/Berlin' or 'UTC'" if close is None else f"did you mean {close!r}?"
        )
        raise DefinitionError(f"zone is {name!r}, which the tz database does not have: {meant}") from None
    return _parsed(key, _file(key))


def _file(key: str) -> bytes:
    for folder in zoneinfo.TZPATH:
        path = Path(folder, key)
        if path.is_file():
            return path.read_bytes()
    package, _, file = f"tzdata/zoneinfo/{key}".rpartition("/")
    return resources.files(package.replace("/", ".")).joinpath(file).read_bytes()


def _parsed(key: str, data: bytes) -> Zone:
    """A zone of the bytes of its file (RFC 8536)."""
    magic, version, *counts = _HEADER.unpack_from(data)
    if magic != b"TZif" or version < b"2" or counts[2]:
        raise DefinitionError(
            f"zone {key!r}: its file has leap seconds, or is of an old format: use another zone"
        )
    at = _HEADER.size + _block(counts, 4)
    _, _, *counts = _HEADER.unpack_from(data, at)
    at += _HEADER.size
    times, types = counts[3], counts[4]
    instants = np.frombuffer(data, ">i8", times, at).astype(np.int64)
    number = np.frombuffer(data, np.uint8, times, at + 8 * times)
    ahead = [struct.unpack_from(">l", data, at + 9 * times + 6 * n)[0] for n in range(types)]
    footer = data[at + _block(counts, 8) :].strip(b"\n").decode()
    first = np.array([_EARLIEST_S, *np.maximum(instants, _EARLIEST_S)])
    offsets = np.array([ahead[0], *(ahead[n] for n in number.tolist())])
    later = _later(key, footer, int(instants[-1]) if times else 0)
    instants, offsets = (np.concatenate(pair) for pair in zip((first, offsets), later, strict=True))
    last = np.append(instants[1:] > instants[:-1], True)
    instants, offsets = instants[last], offsets[last]
    changes = np.append(True, offsets[1:] != offsets[:-1])
    return Zone(key, np.stack([instants[changes], offsets[changes]]).tobytes(), bool(len(later[0])))


def _block(counts: list[int], width: int) -> int:
    utc, standard, leaps, times, types, letters = counts
    return times * (width + 1) + types * 6 + letters + leaps * (width + 4) + standard + utc


def _later(key: str, footer: str, since: int) -> tuple[Ints, Ints]:
    """The changes after an instant by the rule at the end of a file, for 401 years; none if there is none."""
    none = np.zeros(0, np.int64)
    if not footer:
        return none, none
    rule = _FOOTER.fullmatch(footer)
    if rule is None:
        raise DefinitionError(f"zone {key!r}: its file has the rule {footer!r}, which is not understood")
    standard, summer, begins, ends = rule.groups()
    if begins is None:
        return none, none
    winter_s = -_seconds(standard)
    summer_s = winter_s + 3_600 if summer is None else -_seconds(summer)
    year = int(np.int64(since).astype("datetime64[s]").astype("datetime64[Y]").astype(int))
    years = np.arange(year, year + _CYCLE_YEARS + 2)
    instants = np.concatenate([_instants(begins, years, winter_s), _instants(ends, years, summer_s)])
    offsets = np.repeat([summer_s, winter_s], len(years))
    order = np.argsort(instants, kind="stable")
    order = order[instants[order] > since]
    return instants[order], offsets[order]


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    return sign * sum(part * scale for part, scale in zip(parts, (3_600, 60, 1), strict=False))


def _instants(rule: str, years: Ints, ahead: int) -> Ints:
    """When a rule such as "M3.5.0/3", the last Sunday of March at three, changes a clock that is ahead of UTC until then."""
    date, _, clock = rule.partition("/")
    found = _DATE.fullmatch(date)
    if found is None:
        raise DefinitionError(f"a zone's file has the rule {rule!r}, which is not understood")
    month, week, weekday, julian, day = (None if part is None else int(part) for part in found.groups())
    begin = years.astype("datetime64[Y]")
    days = begin.astype("datetime64[D]").astype(np.int64)
    if month is not None and week is not None and weekday is not None:
        first, after = (
            (begin.astype("datetime64[M]") + n).astype("datetime64[D]").astype(np.int64)
            for n in (month - 1, month)
        )
        days = first + (weekday - (first + 4)) % 7 + 7 * (week - 1)
        days = np.where(days >= after, days - 7, days)
    elif julian is not None:
        march = (begin.astype("datetime64[M]") + 2).astype("datetime64[D]").astype(np.int64)
        days = days + julian - 1 if julian < 60 else march + julian - 60
    else:
        days = days + (day or 0)
    return days * DAY_S + _seconds(clock or "2") - ahead
