"""The state and timers of one key, as functions of users see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Any

from operators.columns.python_values import python_values, unreadable
from operators.columns.records import FAR_FUTURE
from operators.custom.contract import CallContext


@dataclass(slots=True)
class KeyContext:
    """State and timers of one key, for a call of `process` or `on_timer`.

    Attributes:
        value: the key's state: any value that msgpack can hold, also dates, times and decimals. None at first; set it to None
            to delete the state. Tuples come back as lists.
        timers: ticks by name; see `set_timer`.
        fired: the time of the timer that fired, in `on_timer`; None in `process`.
        counts: counts by name; see `count`.
    """

    value: Any = None
    timers: dict[str, int] = field(default_factory=dict)
    fired: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    _keys: "Keys | None" = field(default=None, repr=False)
    _number: int = field(default=0, repr=False)

    @property
    def key(self) -> Mapping[str, Any]:
        """The values of the key columns, by name. Read only."""
        return {} if self._keys is None else self._keys.values(self._number)

    def set_timer(self, time: int, name: str = "") -> None:
        """Set a timer, in ticks: `on_timer` is called after all records up to this event time. It replaces one of that name.

        A timer in the past fires at once, before the next record. In `on_timer`, a new timer must be later than the timer that
        fired.

        Raises:
            TypeError: the time is not a whole number.
            ValueError: the time is beyond 2**61, or not later than the timer that fired.
        """
        ticks = index(time)
        if not -FAR_FUTURE < ticks < FAR_FUTURE:
            raise ValueError(f"timer {name!r} is {ticks} ticks, must be between -2**61 and 2**61")
        if self.fired is not None and ticks <= self.fired:
            raise ValueError(
                f"timer {name!r} is {ticks} ticks, must be later than the timer that fired, {self.fired}: "
                "otherwise timers would fire without end"
            )
        self.timers[name] = ticks

    def cancel_timer(self, name: str = "") -> None:
        """Cancel a timer. It is not an error if no such timer is set."""
        self.timers.pop(name, None)

    def next_timer(self) -> tuple[str, int]:
        """Return name and time of the next timer; of equal times the first by name. At least one timer must be set."""
        if len(self.timers) == 1:
            return next(iter(self.timers.items()))
        return min(self.timers.items(), key=_by_time)

    def count(self, name: str, number: int = 1) -> None:
        """Add to a declared counter."""
        self.counts[name] = self.counts.get(name, 0) + number


class Keys:
    """The values of the key columns, decoded at first use."""

    def __init__(self, context: CallContext) -> None:
        self._context = context
        self._values: list[dict[str, Any]] | None = None

    def values(self, number: int) -> dict[str, Any]:
        """Return the values of one key by name of the column."""
        if not self._context.group:
            return {}
        if self._values is None:
            columns = {name: python_values(column) for name, column in self._context.key_columns().items()}
            self._values = [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ]
        if why := unreadable(self._values[number].values(), self._values[number]):
            raise ValueError(f"key {why}")
        return self._values[number]


def _by_time(timer: tuple[str, int]) -> tuple[int, str]:
    return timer[1], timer[0]
