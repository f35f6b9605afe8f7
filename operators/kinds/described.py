"""The windows of an operator as text: their bounds, when they close, and how long their entries are kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CLOSED = "a window whose end is before the close time"


@dataclass(frozen=True, slots=True)
class WindowsPart:
    """The windows of an operator and their times.

    Attributes:
        title: kind and lengths of the windows.
        bounds: the bounds of the windows.
        late: which records are late.
        close_rule: when a window is final, or when timers fire.
        entry: what an entry of the store is.
        entries: a plural noun for entries.
        since: the time from which on an entry is kept, as text; None if until it is taken out.
        needed_us: how long an entry is kept, in microseconds of close time; None if that is not known beforehand.
        spacing_us: time between two entries of a key with records all the time; None if it depends on the records.
        lone: whether a key usually has one entry at a time.
        settings: what an operator of its own declares in place of bounds, by label.
        emission: when rows come out, where they are not of windows.
    """

    title: str
    bounds: str
    late: str
    close_rule: str
    entry: str
    entries: str
    since: str | None
    needed_us: int | None
    spacing_us: int | None = None
    lone: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    emission: str | None = None


def named_values(values: Mapping[str, Any], between: str = ": ") -> str:
    """Return names and values as text."""
    return ", ".join(f"{name}{between}{value}" for name, value in values.items())
