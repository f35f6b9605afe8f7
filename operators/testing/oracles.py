"""Windows by brute force over raw records, to compare operators with.

The rules are those that the window definitions document. Nothing is pruned or reused: each batch computes all windows of its
keys from all records so far. No code of the operators is used.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Record = tuple[Any, int, Any]
"""Key, event time in ticks, value."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records, and the close times before and after them."""

    records: Sequence[Record]
    close_time_start: float
    close_time_end: float


@dataclass(frozen=True, slots=True)
class Window:
    """A window with its bounds as emitted; `content` holds (time, value) of its records in order of time."""

    key: Any
    start: int
    end: int
    content: tuple[tuple[int, Any], ...]


@dataclass(frozen=True, slots=True)
class Output:
    """The windows that a batch emits, the positions of its late records, and the windows that it retracts."""

    windows: list[Window]
    late: list[int]
    retracted: list[Window] = field(default_factory=list)


@dataclass(slots=True)
class StreamClock:
    """The stream time of the local runner: the given one or the highest event time. It never decreases."""

    grace: int
    stream_time: float = -math.inf
    highest: float = -math.inf

    def batch(
        self, records: Sequence[Record], stream_time: int | None = None, times: Sequence[int] = ()
    ) -> Batch:
        """Return the records with the close times before and after them.

        Args:
            records: the records of the batch.
            stream_time: after it; by default the highest event time.
            times: event times of records that are in no window for another reason, such as a bad gap.
        """
        before = self.stream_time
        self.highest = max([self.highest, *times, *(time for _, time, _ in records)])
        self.stream_time = max(before, self.highest if stream_time is None else stream_time)
        return Batch(records, before - self.grace, self.stream_time - self.grace)


@dataclass(frozen=True, slots=True, order=True)
class _Accepted:
    time: int
    number: int
    value: Any = field(compare=False)
    close_time: float = field(compare=False)


class SlidingOracle:
    """Sliding windows by brute force. Internally, the end of a window is its last tick.

    Args:
        size: size of a window, in ticks.
        emit: "on_close" or "on_update".
    """

    def __init__(self, size: int, emit: str) -> None:
        self.size = size
        self.emit = emit
        self._records: dict[Any, list[_Accepted]] = {}
        self._emitted: set[tuple[Any, int]] = set()
        self._count = 0

    def step(self, batch: Batch) -> Output:
        """Process a batch."""
        before = list(self._closed(batch.close_time_start)) if self.emit == "on_close" else []
        touched = {key for key, _, _ in batch.records}
        existed = {(key, end) for key in touched for end in self._ends(key)}
        first, late = self._count, []
        for position, record in enumerate(batch.records):
            if self._last_end(record[1]) < batch.close_time_start:
                late.append(position)
            else:
                self._accept(record, batch.close_time_start)
        if self.emit == "on_close":
            return Output([*before, *self._closed(batch.close_time_end)], late)
        changed = [
            self._window(key, end)
            for key in touched
            for end in self._ends(key)
            if end >= batch.close_time_start and ((key, end) not in existed or self._has_new(key, end, first))
        ]
        return Output(changed, late)

    def _accept(self, record: Record, close_time: float) -> None:
        key, time, value = record
        insort(self._records.setdefault(key, []), _Accepted(time, self._count, value, close_time))
        self._count += 1

    def _start(self, end: int) -> int:
        """The first tick of the window that ends then."""
        return end - self.size

    def _last_end(self, time: int) -> int:
        """The end of the last window that can hold a record of this time."""
        return time + self.size

    def _content(self, key: Any, end: int) -> list[_Accepted]:
        """The records of the window that ends then, without those that arrived after it was closed."""
        records = self._records[key]
        first = bisect_left(records, self._start(end), key=lambda record: record.time)
        last = bisect_right(records, end, key=lambda record: record.time)
        return [record for record in records[first:last] if end >= record.close_time]

    def _ends(self, key: Any) -> set[int]:
        """The ends of a key's windows: the left one of each record that came before it was closed, and non-empty right ones."""
        records = self._records.get(key, [])
        left = {record.time for record in records if record.time >= record.close_time}
        right = {record.time + 1 + self.size for record in records}
        return left | {end for end in right if self._content(key, end)}

    def _closed(self, close_time: float) -> Iterator[Window]:
        """The windows that are closed at this close time and have not been emitted."""
        for key in self._records:
            for end in self._ends(key):
                if end < close_time and (key, end) not in self._emitted:
                    self._emitted.add((key, end))
                    yield self._window(key, end)

    def _has_new(self, key: Any, end: int, first: int) -> bool:
        return any(record.number >= first for record in self._content(key, end))

    def _window(self, key: Any, end: int) -> Window:
        content = tuple((record.time, record.value) for record in self._content(key, end))
        return Window(key, self._start(end), end, content)


class HoppingOracle(SlidingOracle):
    """Hopping and tumbling windows by brute force: [start, start + size) with starts at offset + n * advance."""

    def __init__(self, size: int, advance: int, offset: int, emit: str) -> None:
        super().__init__(size, emit)
        self.advance = advance
        self.offset = offset

    def _start(self, end: int) -> int:
        return end - self.size + 1

    def _last_end(self, time: int) -> int:
        return time - (time - self.offset) % self.advance + self.size - 1

    def _ends(self, key: Any) -> set[int]:
        ends: set[int] = set()
        for time in {record.time for record in self._records.get(key, [])}:
            last = self._last_end(time)
            ends.update(range(last, time - 1, -self.advance))
        return {end for end in ends if self._content(key, end)}

    def _window(self, key: Any, end: int) -> Window:
        return replace(super()._window(key, end), end=end + 1)


@dataclass(frozen=True, slots=True, order=True)
class _Event:
    time: int
    number: int
    waits: int
    value: Any = field(compare=False)


class SessionOracle:
    """Session windows by brute force: each batch goes through all records that are not in a final session.

    Args:
        gap: returns the gap of a record, in ticks.
        longest: maximum time from the first to the last event of a session, in ticks, or None.
        emit: "on_close" or "on_update".
    """

    def __init__(self, gap: Callable[[Record], int], longest: int | None, emit: str) -> None:
        self.gap = gap
        self.longest = longest
        self.emit = emit
        self._open: dict[Any, list[_Event]] = {}
        self._count = 0

    def step(self, batch: Batch) -> Output:
        """Process a batch."""
        closed = self._remove_closed(batch.close_time_start)
        before = {(key, *self._bounds(session)) for key, session in self._sessions()}
        first, late = self._count, []
        numbers = {self._count + position: position for position in range(len(batch.records))}
        for record in batch.records:
            waits = record[1] + self.gap(record)
            if self.longest is not None and waits < batch.close_time_start:
                late.append(self._count)
            else:
                insort(self._open.setdefault(record[0], []), _Event(record[1], self._count, waits, record[2]))
            self._count += 1
        for key, session in list(self._sessions()):
            if self.longest is None and self._bounds(session)[1] < batch.close_time_start:
                late += [event.number for event in session]
                self._remove(key, session)
        late = sorted(numbers[number] for number in late)
        if self.emit == "on_close":
            return Output([*closed, *self._remove_closed(batch.close_time_end)], late)
        after = list(self._sessions())
        bounds = {(key, *self._bounds(session)) for key, session in after}
        changed = [
            self._window(key, session)
            for key, session in after
            if (key, *self._bounds(session)) not in before or any(e.number >= first for e in session)
        ]
        self._remove_closed(batch.close_time_end)
        return Output(changed, late, [Window(*gone, ()) for gone in before - bounds])

    def _sessions(self) -> Iterator[tuple[Any, list[_Event]]]:
        """The sessions of all keys, record by record."""
        for key, events in self._open.items():
            session: list[_Event] = []
            for event in events:
                if session and self._ends(session, event):
                    yield key, session
                    session = []
                session.append(event)
            if session:
                yield key, session

    def _ends(self, session: Sequence[_Event], event: _Event) -> bool:
        """Whether the event is after the session's gap, or would make the session too long."""
        too_long = self.longest is not None and event.time - session[0].time > self.longest
        return too_long or event.time > max(e.waits for e in session)

    def _remove_closed(self, close_time: float) -> list[Window]:
        """Remove and return the sessions that end before the close time."""
        closed = [
            (key, session) for key, session in self._sessions() if self._bounds(session)[1] < close_time
        ]
        for key, session in closed:
            self._remove(key, session)
        return [self._window(key, session) for key, session in closed]

    def _remove(self, key: Any, session: Sequence[_Event]) -> None:
        gone = {event.number for event in session}
        self._open[key] = [event for event in self._open[key] if event.number not in gone]

    @staticmethod
    def _bounds(session: Sequence[_Event]) -> tuple[int, int]:
        return session[0].time, max(event.waits for event in session)

    def _window(self, key: Any, session: Sequence[_Event]) -> Window:
        return Window(key, *self._bounds(session), tuple((event.time, event.value) for event in session))
