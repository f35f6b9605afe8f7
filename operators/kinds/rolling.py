"""Rolling windows: those of a record end at its own time, and there is one for each lookback."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from operators.columns.duration_text import length
from operators.columns.ranges import Ints, Mask
from operators.columns.records import FAR_FUTURE, FAR_PAST
from operators.columns.zones import Zone
from operators.kinds.calendars import CLOCK_CHANGES, ZONE, Calendar
from operators.kinds.described import WindowsPart
from operators.kinds.kind import WindowKind

LASTING = "lasting"
"""Name of what a stored state keeps for a lookback without end."""
ROWS = "rows"
"""Name of the columns of rows that wait, in what a stored state depends on."""
CLOSED = "closed"
"""Name of the ends that belong to windows, in what a stored state depends on."""
Lookback = int | Calendar | None
"""How far back a window goes: for a length, to the begin of a period, or without end."""
Closed = Literal["both", "left", "right", "none"]
"""Which ends of its time belong to a window, as in pandas and polars."""


@dataclass(frozen=True, slots=True)
class Rolling(WindowKind):
    """Windows that end at the time of a record.

    Attributes:
        lookbacks: lengths in ticks; None is a lookback without end, a lifetime; a calendar is one since its last period began.
        closed: which ends belong to the windows.
        forget_after: the longest time in ticks between two records of one lifetime; None if there is no limit.
    """

    lookbacks: tuple[Lookback, ...]
    closed: Closed
    forget_after: int | None = None
    name: ClassVar[str] = "rolling"

    @property
    def finite(self) -> Sequence[int | Calendar]:
        """The lookbacks that have an end."""
        return [lookback for lookback in self.lookbacks if lookback is not None]

    @property
    def fixed(self) -> Sequence[int]:
        """The lookbacks of fixed lengths."""
        return [lookback for lookback in self.finite if isinstance(lookback, int)]

    @property
    def to_date(self) -> Sequence[Calendar]:
        """The lookbacks since a period began."""
        return [lookback for lookback in self.finite if isinstance(lookback, Calendar)]

    @property
    def zone(self) -> Zone | None:
        return self.to_date[0].zone if self.to_date else None

    @property
    def longest(self) -> int:
        """The most ticks that a finite lookback lasts, or 0."""
        return max([0, *self.fixed, *(calendar.longest(1) for calendar in self.to_date)])

    @staticmethod
    def since(lookback: int | Calendar, time: Ints) -> Ints:
        """Return where the window of a lookback begins, of records at these times."""
        return lookback.begin(time) if isinstance(lookback, Calendar) else time - lookback

    def has_start(self, lookback: int | Calendar) -> bool:
        """Return whether the windows of a lookback contain their start; that of a period always belongs to it."""
        return self.closed in ("both", "left") or isinstance(lookback, Calendar)

    def ends(self, time: int) -> list[int]:
        """Return where the finite windows of a record at a time begin, and where they end."""
        return [*(int(self.since(lookback, np.array([time]))[0]) for lookback in self.finite), time]

    def earliest(self, time: Ints) -> Ints:
        """Return where the first of the finite windows begins, of records at these times. It ascends with the time."""
        earliest = time - max([0, *self.fixed])
        for calendar in self.to_date:
            earliest = np.minimum(earliest, calendar.begin(np.clip(time, FAR_PAST, FAR_FUTURE)))
        return earliest

    @property
    def lifetime(self) -> bool:
        """Whether a lookback has no end."""
        return None in self.lookbacks

    @property
    def lifetimes(self) -> list[int]:
        """The positions of the lookbacks without end."""
        return [number for number, lookback in enumerate(self.lookbacks) if lookback is None]

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "windows": self.name,
            "longest lookback in ticks": max([0, *self.fixed]),
            "lifetime": self.lifetime,
            CLOSED: self.closed,
            **self._calendars,
        }

    @property
    def _calendars(self) -> dict[str, Any]:
        if self.zone is None:
            return {}
        periods = sorted(f"{calendar.text(1)} since {calendar.first}" for calendar in self.to_date)
        return {"to date": periods, ZONE: self.zone.name, CLOCK_CHANGES: self.zone.text}

    @property
    def max_bound_offset(self) -> int:
        return self.longest

    @property
    def dependency_span(self) -> int:
        """Not so far back as the lifetime."""
        return self.longest

    def describe(self, tick_us: int) -> WindowsPart:
        lengths = [_text(lookback, tick_us) for lookback in self.lookbacks]
        opening = "[" if self.closed in ("both", "left") else "("
        closing = "]" if self.closed in ("both", "right") else ")"
        bounds = [f"{opening}t - {length(n * tick_us)}, t{closing}" for n in self.fixed]
        bounds += [f"[the last begin of {_period(each)}, t{closing}" for each in self.to_date]
        bounds += [f"all {'until' if closing == ']' else 'before'} t"] if self.lifetime else []
        entry = "a pane for each distinct event time of a key"
        if self.lifetime:
            entry += ", one pane for all that is older than the longest other lookback"
            if self.forget_after is not None:
                entry += f" until the key was without records for {length(self.forget_after * tick_us)}"
        return WindowsPart(
            f"rolling windows of {', '.join(lengths)}",
            f"{', '.join(bounds)} for each record at t",
            "a record before the close time: it gets no row, but counts in the rows that are not out",
            "a row whose event time is before the close time",
            entry,
            "panes",
            "its event time",
            (self.longest + 1) * tick_us,
        )

    def late_before(self, close_time: int) -> int:
        """Return the time before which a record gets no row, since its own windows are closed."""
        return close_time

    def incomplete_before(self, close_time: int) -> int:
        """Open windows count late records; only lifetimes that end leave some out."""
        return FAR_PAST if self.forget_after is None else self.dead_before(close_time)

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end of the longest finite window of records at these times."""
        return self.earliest(time), time

    def dead_before(self, close_time: int) -> int:
        """Return the time before which no window that is open contains records, but for the lifetime."""
        return int(self.earliest(np.array([close_time]))[0])

    def contain_whole(self, start: Ints, last: Ints, earliest: Ints, latest: Ints) -> Mask:
        """Return which pages are contained by each window of some rows either as a whole, or not at all.

            rows                                   earliest  latest
            lookback              |----------------------|
                                            |----------------------|
            pages            |  x |      |      |  x |  x |      |        x: yes

        Args:
            start, last: shape (n,), int64: first and last tick of each page.
            earliest, latest: shape (n,), int64: times of the first and the last row of the page's key.
        """
        if self.forget_after is not None:  # A pause may be within the page.
            return np.zeros(len(start), bool)
        whole = last < earliest
        for lookback in self.finite:
            first, final = self.since(lookback, earliest), self.since(lookback, latest)
            whole &= (start > final) | (last < first)
        return whole


def _text(lookback: Lookback, tick_us: int) -> str:
    if isinstance(lookback, Calendar):
        return f"{_period(lookback)} to date"
    return "the lifetime" if lookback is None else length(lookback * tick_us)


def _period(calendar: Calendar) -> str:
    return f"the {calendar.text(1).removeprefix('1 ')} since {calendar.first} in {calendar.zone.name}"
