"""What a step touches: keys, pages and the span of time that it reads of each key; and when its entries are due."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from operators.columns.ranges import Ints, Mask
from operators.columns.records import FAR_FUTURE, FAR_PAST
from state_backends.store.page_ids import PageIds


class Rows(NamedTuple):
    """Where entries are: shape (n,), int64: key number and time of each; sorted by both."""

    key: Ints
    time: Ints


class DuePages(NamedTuple):
    """Pages of one segment: shape (n,), int64: key number and start of each."""

    key: Ints
    start: Ints


@dataclass(slots=True)
class Touched:
    """What a step touches: keys, pages that are due, and the span of time that it reads of each key.

    Attributes:
        keys: the keys of the batch, then those that only have a page that is due.
        due: the pages that are due, by segment.
        held: the pages that were read whole, so that they can be written, by segment; sorted.
        first, last: shape (keys,), int64: the span of each key; `first` > `last` reads nothing.
    """

    keys: list[bytes]
    due: dict[int, DuePages]
    held: dict[int, PageIds] = field(default_factory=dict)
    first: Ints = field(init=False)
    last: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.first = np.full(len(self.keys), FAR_FUTURE)
        self.last = np.full(len(self.keys), FAR_PAST)

    def widen(self, keys: Ints, first: Ints | int, last: Ints | int) -> None:
        """Extend the spans of these keys, so that they include the time from `first` to `last`."""
        np.minimum.at(self.first, keys, first)
        np.maximum.at(self.last, keys, last)

    def changes(self, segment: int, span: tuple[int, int], changing: Iterable[Rows]) -> bool:
        """Return whether the step may write a segment.

        Args:
            segment: its number.
            span: its first and its last tick.
            changing: where entries are that the step adds or changes.
        """
        inside = ((time >= span[0]) & (time <= span[1]) for _, time in changing)
        return segment in self.due or any(found.any() for found in inside)

    def is_due(self, segment: int, pages: PageIds) -> Mask:
        """Return which pages of a segment are due."""
        if segment not in self.due:
            return np.zeros(len(pages), bool)
        key, start = self.due[segment]
        return pages.among(PageIds(pages.span, key, start, start))


@dataclass(frozen=True, slots=True)
class Timers:
    """When entries are due.

    Attributes:
        due: shape (entries,), int64: last tick of the next window to close that contains each entry after the step, or NEVER.
        stored: the entries that were stored before the step in pages that it holds.
        was_due: shape (stored,), int64: the same of these, as their timers were set.
    """

    due: Ints
    stored: Rows
    was_due: Ints
