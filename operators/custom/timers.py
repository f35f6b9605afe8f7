"""Timers of entries that a custom operator may write often."""

from collections.abc import Sequence

import numpy as np

from operators.columns.ranges import Ints
from operators.columns.records import NEVER
from operators.steps.timers import TimerQueue


class EarliestTimers(TimerQueue):
    """A queue with one timer for each page: a later one is not set before the earlier one has fired.

    When it fires, the page is read, and the timers of what it holds then are set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_page: dict[int, dict[bytes, int]] = {}
        """The timer of each page, by segment and name."""

    def add(self, segment: int, keys: Sequence[bytes], due: Ints) -> None:
        entered, found, times = self.by_page.get(segment, {}), [], []
        for name, time in zip(keys, due.tolist(), strict=True):
            if time < entered.get(name, NEVER):
                entered[name] = time
                found.append(name)
                times.append(time)
        if found:
            self.by_page[segment] = entered
            super().add(segment, found, np.array(times, np.int64))

    def drain_due(self, close_time: int) -> dict[int, list[bytes]]:
        due = super().drain_due(close_time)
        for segment, names in due.items():
            entered = self.by_page.get(segment, {})
            for name in names:
                entered.pop(name, None)
            if not entered:
                self.by_page.pop(segment, None)
        return due

    def clear(self) -> None:
        super().clear()
        self.by_page.clear()
