"""Rolling windows: those of a record end at its own time, and there is one for each lookback."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from operators.columns.duration_text import length
from operators.columns.ranges import Ints, Mask
from operators.kinds.described import WindowsPart
from operators.kinds.kind import WindowKind

LASTING = "lasting"
"""Name of what a stored state keeps for a lookback without end."""
ROWS = "rows"
"""Name of the columns of rows that wait, in what a stored state depends on."""
CLOSED = "closed"
"""Name of the ends that belong to windows, in what a stored state depends on."""
Closed = Literal["both", "left", "right", "none"]
"""Which ends of its time belong to a window, as in pandas and polars."""


@dataclass(frozen=True, slots=True)
class Rolling(WindowKind):
    """Windows that end at the time of a record.

    Attributes:
        lookbacks: lengths in ticks; None is a lookback without end, a lifetime.
        closed: which ends belong to the windows.
        forget_after: the longest time in ticks between two records of one lifetime; None if there is no limit.
    """

    lookbacks: tuple[int | None, ...]
    closed: Closed
    forget_after: int | None = None
    name: ClassVar[str] = "rolling"

    @property
    def finite(self) -> Sequence[int]:
        """The lookbacks that have an end."""
        return [lookback for lookback in self.lookbacks if lookback is not None]

    @property
    def longest(self) -> int:
        """The longest finite lookback in ticks, or 0."""
        return max([0, *self.finite])

    @property
    def lifetime(self) -> bool:
        """Whether a lookback has no end."""
        return None in self.lookbacks

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "windows": self.name,
            "longest lookback in ticks": self.longest,
            "lifetime": self.lifetime,
            CLOSED: self.closed,
        }

    @property
    def max_bound_offset(self) -> int:
        return self.longest

    @property
    def dependency_span(self) -> int:
        """Not so far back as the lifetime."""
        return self.longest

    def describe(self, tick_us: int) -> WindowsPart:
        lengths = ["the lifetime" if n is None else length(n * tick_us) for n in self.lookbacks]
        opening = "[" if self.closed in ("both", "left") else "("
        closing = "]" if self.closed in ("both", "right") else ")"
        bounds = [f"{opening}t - {length(n * tick_us)}, t{closing}" for n in self.finite]
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

    def last_window(self, time: Ints) -> tuple[Ints, Ints]:
        """Return start and end of the longest finite window of records at these times."""
        return time - self.longest, time

    def dead_before(self, close_time: int) -> int:
        """Return the time before which no window that is open contains records, but for the lifetime."""
        return close_time - self.longest

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
            whole &= (start > latest - lookback) | (last < earliest - lookback)
        return whole
