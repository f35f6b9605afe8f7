"""Times of tables as ticks, and ticks as text."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.types as pat

DEFAULT_TICK_US = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_UNITS_PER_US = {"s": 1e-6, "ms": 1e-3, "us": 1, "ns": 1_000}
_SECOND, _MINUTE, _HOUR, _DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


def tick_of(moment: int | datetime, tick_us: int = DEFAULT_TICK_US) -> int:
    """Return a moment in ticks: a whole number is a number of ticks, and a naive datetime is in UTC."""
    if not isinstance(moment, datetime):
        return moment
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return (zoned - _EPOCH) // _MICROSECOND // tick_us


def column_ticks(column: pa.Array | pa.ChunkedArray, tick_us: int = DEFAULT_TICK_US) -> list[int | None]:
    """Return a column of timestamps, or of int64 ticks, in ticks, each floored; null is None."""
    if not pat.is_timestamp(column.type):
        return column.to_pylist()
    per_us = _UNITS_PER_US[column.type.unit]
    numbers = column.cast(pa.int64()).to_pylist()
    if per_us >= 1:
        return [None if n is None else n // int(per_us) // tick_us for n in numbers]
    return [None if n is None else n * round(1 / per_us) // tick_us for n in numbers]


@dataclass(frozen=True, slots=True)
class Clock:
    """How ticks are shown: as numbers, or as times of day in UTC, with the date if there are several.

    Attributes:
        tick_us: length of a tick in microseconds.
        numbers: whether ticks are shown as numbers.
        date: format of the date for `datetime.strftime`, or "".
        day: the day if it is the same for all times, otherwise "".
    """

    tick_us: int
    numbers: bool
    date: str = ""
    day: str = ""

    @classmethod
    def over(cls, ticks: Iterable[int], tick_us: int, *, numbers: bool) -> "Clock":
        """Return the shortest clock that distinguishes these ticks; numbers if they are not valid dates."""
        try:
            days = {_moment(tick, tick_us).date() for tick in ticks}
        except OverflowError:
            days = set()
        if numbers or not days:
            return cls(tick_us, numbers=True)
        if len(days) == 1:
            return cls(tick_us, numbers=False, day=next(iter(days)).isoformat())
        return cls(
            tick_us, numbers=False, date="%m-%d " if len({day.year for day in days}) == 1 else "%Y-%m-%d "
        )

    def text(self, tick: int) -> str:
        """Return a tick as text, without seconds or fractions that are zero."""
        if self.numbers:
            return str(tick)
        moment = _moment(tick, self.tick_us)
        fraction = "" if not moment.microsecond else ".%f"
        seconds = ":%S" if fraction or moment.second else ""
        text = moment.strftime(f"{self.date}%H:%M{seconds}{fraction}")
        return text.removesuffix("000") if fraction else text

    def distances(self) -> Iterable[int]:
        """The distances in ticks, ascending, that marks of an axis may have."""
        if self.numbers:
            yield from (digit * 10**power for power in range(19) for digit in (1, 2, 5))
            return
        for us in _round_lengths():
            if us % self.tick_us == 0:
                yield us // self.tick_us


def _round_lengths() -> Iterable[int]:
    """Round lengths of time in microseconds, ascending."""
    yield from (digit * 10**power for power in range(6) for digit in (1, 2, 5))
    for unit, counts in ((_SECOND, (1, 2, 5, 10, 15, 30)), (_MINUTE, (1, 2, 5, 10, 15, 30))):
        yield from (count * unit for count in counts)
    yield from (count * _HOUR for count in (1, 2, 3, 6, 12))
    yield from (count * _DAY for count in (1, 2, 7, 14, 30, 90, 365, 3650, 36500, 365000, 3650000))


def _moment(tick: int, tick_us: int) -> datetime:
    return (_EPOCH + timedelta(microseconds=tick * tick_us)).replace(tzinfo=None)


def iso(tick: int, tick_us: int = DEFAULT_TICK_US) -> str:
    """Return a tick as an ISO 8601 time in UTC, or as a number if it is not a valid date."""
    try:
        return _moment(tick, tick_us).isoformat()
    except OverflowError:
        return str(tick)
