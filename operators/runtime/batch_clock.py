"""Time in one batch: which records are late, which windows close, whether a bucket has work, and when to call it again.

Nothing else decides these. A clock is a value made of three: what the call says, how far earlier batches came, and the rule by
which close times follow:

    call       watermark, highest event times, clock --.
    rule       delays, grace, idle -------------------- BatchClock -- close times at the start and at the end of the batch
    progress   what the last batch left --------------'        '---- is there work without records? what does the next one need?

A bucket of a stream has a `StreamClock`, a local runner a `LocalClock`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from operators.columns.records import FAR_PAST
from operators.runtime.watermark_rule import WatermarkRule
from state_backends.durability.progress import Progress, close_time_at


@dataclass(frozen=True, slots=True)
class Call:
    """One call of Spark for a bucket.

    Attributes:
        watermark_ms: Spark's watermark, in milliseconds.
        now_ms: the clock of the batch, in milliseconds since the epoch; the same if the batch is repeated.
        max_event_times_us: the highest event time of each input in the batch, in microseconds; empty if no task tells that it
            has records.
        fired: the event-time timer that fired, in milliseconds; None if the call is for rows.
    """

    watermark_ms: int
    now_ms: int
    max_event_times_us: tuple[int | None, ...] = ()
    fired: int | None = None

    @property
    def arrived(self) -> bool:
        """Whether a task tells that the batch has records."""
        return bool(self.max_event_times_us)

    def attempts_at(self, batch: int | None) -> str:
        """Return what is the same in all attempts at a batch, and in no other one; its number, if it is known, is given."""
        return f"{batch} {self.now_ms}"

    @classmethod
    def of(
        cls,
        times: Any,
        *,
        max_event_times_us: tuple[int | None, ...] = (),
        fired: int | None = None,
    ) -> "Call":
        """Return the call at these times."""
        return cls(
            times.getCurrentWatermarkInMs(), times.getCurrentProcessingTimeInMs(), max_event_times_us, fired
        )


@dataclass(frozen=True)
class BatchClock(ABC):
    """Time in one batch of an operator.

    Attributes:
        progress: the progress of the batches before; its close time is that of the state.
    """

    progress: Progress

    @property
    @abstractmethod
    def start(self) -> int:
        """The close time in ticks of what was known before the batch."""

    @property
    @abstractmethod
    def end(self) -> int:
        """The close time in ticks of what is known after the batch."""

    @property
    @abstractmethod
    def after(self) -> Progress:
        """The times that the next batch needs to know."""

    @property
    def close_times(self) -> tuple[int, int]:
        """Close times in ticks at the start and at the end of the batch; they never go back behind that of earlier ones."""
        start = max(self.start, self.progress.close_time)
        return start, max(start, self.end)


@dataclass(frozen=True)
class StreamClock(BatchClock):
    """Time in one call of a bucket.

    Attributes:
        rule: how close times follow from the watermark.
        call: Spark's call.
        tick_us: length of a tick in microseconds.
    """

    rule: WatermarkRule
    call: Call
    tick_us: int

    @property
    def start(self) -> int:
        # The close time of the last batch is what counts in a chain: the far past adds nothing to that.
        return FAR_PAST if self.rule.chained else self._close_time(self.call.watermark_ms)

    @property
    def end(self) -> int:
        return max(self._close_time(self._reached_ms), self._idle_close_time)

    @property
    def is_due(self) -> bool:
        """Whether a bucket without rows has work to do."""
        call, progress, rule = self.call, self.progress, self.rule
        if call.fired is not None:
            return call.fired == progress.timer
        if rule.chained:  # To know the close time of the batch before in the next one.
            return True
        if rule.idle_ms is not None:
            # Without state, too: what the clock has closed is late in all buckets.
            if call.arrived or progress.last_active_ms is None:
                return True
        elif progress.timer is None:  # It has no state.
            return False
        elif call.arrived and self._inputs != progress.inputs:
            return True
        return self.close_times[1] > progress.close_time

    @property
    def reports_gauges_only(self) -> bool:
        """Whether a bucket that is not due has state, and will not work in this batch."""
        timer = self.progress.timer
        return self.call.fired is None and timer is not None and timer > self.call.watermark_ms

    @property
    def after(self) -> Progress:
        """The times that the next batch needs to know; a bucket without state needs no timer."""
        return Progress(
            timer=max(self._reached_ms, self._expected_ms) + 1,
            last_active_ms=self._last_active_ms,
            last_clock_ms=self.call.now_ms if self._follows else None,
            last_watermark_ms=self.call.watermark_ms if self._follows else None,
            behind=None if self.rule.chained else self.rule.behind_us,
            inputs=self._inputs,
        )

    def _close_time(self, watermark_ms: int) -> int:
        return close_time_at(watermark_ms, self.rule.behind_us, self.tick_us)

    @property
    def _expected_ms(self) -> int:
        """The watermark that earlier batches expect for this one; 0 if it is not known."""
        return 0 if self.progress.timer is None else self.progress.timer - 1

    @property
    def _max_event_times_us(self) -> dict[str, int]:
        """The highest event time of each input with this batch, in microseconds, by name, as far as it is known."""
        before = {name: ticks * self.tick_us for name, ticks in (self.progress.inputs or {}).items()}
        names = (name for name, _ in self.rule.delays_us)
        return _latest(before, zip(names, self.call.max_event_times_us, strict=False))

    @property
    def _reached_ms(self) -> int:
        """The watermark of the next batch, as far as this one tells: that of the slowest input, as Spark takes it.

        As long as the watermark is behind what earlier batches told, another input of the query holds it, which this operator
        does not read: then the watermark alone says what is late and what is closed, in all buckets alike.
        """
        now = self.call.watermark_ms
        held = not self.rule.chained and now < self._expected_ms
        times = {} if held else self._max_event_times_us
        known = [
            (times[name] - delay) // 1_000 if name in times else now for name, delay in self.rule.delays_us
        ]
        return max(now, min(known, default=now))

    @property
    def _inputs(self) -> dict[str, int] | None:
        """The times of several inputs in ticks: only the watermark of the slowest one will be known in the next batch."""
        if len(self.rule.delays_us) < 2:
            return None
        return {name: time // self.tick_us for name, time in self._max_event_times_us.items()}

    @property
    def _last_active_ms(self) -> int | None:
        """The clock of the last batch with records; that of the first one that the bucket worked in, if there was none.

        In a chain, the operators before this one may read records for long before they emit a row: the watermark tells of them.
        """
        if self.rule.idle_ms is None:
            return None
        before = self.progress.last_active_ms
        moved = self._follows and self.call.watermark_ms != self.progress.last_watermark_ms
        return self.call.now_ms if self.call.arrived or moved or before is None else before

    @property
    def _follows(self) -> bool:
        """Whether the clock closes windows of what other operators of the query emit."""
        return self.rule.chained and self.rule.idle_ms is not None

    @property
    def _idle_close_time(self) -> int:
        """The close time that follows from the clock: now - max(idle, grace), once the stream is quiet.

        A record that grace allows for may come after an outage that was longer than `idle`. In a chain, the clock is that of
        the batch before: whether the operators before this one have records in a batch shows in the watermark of the next one.
        """
        active_ms, idle_ms = self._last_active_ms, self.rule.idle_ms
        now_ms = self.progress.last_clock_ms if self._follows else self.call.now_ms
        if active_ms is None or idle_ms is None or now_ms is None or now_ms - active_ms < idle_ms:
            return FAR_PAST
        return (now_ms * 1_000 - max(idle_ms * 1_000, self.rule.open_us)) // self.tick_us


@dataclass(frozen=True)
class LocalClock(BatchClock):
    """Time in one batch of a local runner.

    Attributes:
        grace: grace in ticks.
        told: the highest event time of each input in the batch, in ticks, by its name; None for an input without records.
        several: whether there are several inputs, of which the slowest one counts.
        stream_time: the stream time after the batch in ticks, if the caller gives it.
    """

    grace: int
    told: Mapping[str, int | None]
    several: bool = False
    stream_time: int | None = None

    @property
    def start(self) -> int:
        return self._close_time(self.progress.stream_time)

    @property
    def end(self) -> int:
        return self._close_time(self._reached)

    @property
    def after(self) -> Progress:
        inputs = self._max_event_times if self.several else None
        return Progress(stream_time=self._reached, max_event_time=self._max_event_time, inputs=inputs)

    def _close_time(self, stream_time: int | None) -> int:
        return FAR_PAST if stream_time is None else stream_time - self.grace

    @property
    def _max_event_times(self) -> dict[str, int]:
        """The highest event time of each input that has had a record."""
        return _latest(self.progress.inputs or {}, self.told.items())

    @property
    def _max_event_time(self) -> int | None:
        """The least of the highest event times of all inputs; None until each has had a record."""
        if self.several:
            times = self._max_event_times
            return min(times.values()) if len(times) == len(self.told) else None
        return max(_known(self.progress.max_event_time, *self.told.values()), default=None)

    @property
    def _reached(self) -> int | None:
        after = self._max_event_time if self.stream_time is None else self.stream_time
        return max(_known(self.progress.stream_time, after), default=None)


def _latest(before: Mapping[str, int], told: Iterable[tuple[str, int | None]]) -> dict[str, int]:
    """The later one of the times before and those that are told, by name."""
    times = dict(before)
    for name, time in told:
        if time is not None:
            times[name] = max(time, times.get(name, time))
    return times


def _known(*times: int | None) -> list[int]:
    return [time for time in times if time is not None]
