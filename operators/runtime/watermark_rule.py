"""How the close times of an operator in a stream follow from Spark's watermark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from operators.columns.records import FAR_PAST
from state_backends.durability.progress import close_time_at

NO_TIMES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class WatermarkRule:
    """The rule by which event times close windows.

    Spark's watermark knows earlier batches only. Where its delay is known, the highest event time that the tasks of a batch saw
    says already what it will be in the next one, and windows close with that. Of several inputs, the slowest one counts. Rows
    of another operator that emits windows when they are closed say how far that one's close time is at least.

        batch                n          n + 1
        highest event time   h          .
        watermark            w          h - delay
        windows close by     h - delay  .

    Rows that are not late are not before the watermark of the batch before plus a millisecond, less `behind_us`.

    Attributes:
        chained: whether the rows come out of another operator of the same query. It emits rows in the batch in which the
            watermark passes them, so they are late only if the watermark of the batch before had passed them. Spark's own
            operators apply this rule to all rows.
        behind_us: in microseconds.
        delays_us: the name of each input, and how far the watermark is behind its highest event time, in microseconds; empty if
            only the watermark closes windows.
        idle_ms: how long the stream has to be without records for the clock to close windows, in milliseconds; None for never.
        open_us: how far behind the clock the clock leaves windows open at least, in microseconds: as far as a record with the
            time of the clock would leave them open.
    """

    chained: bool = False
    behind_us: int = 0
    delays_us: tuple[tuple[str, int], ...] = ()
    idle_ms: int | None = None
    open_us: int = 0

    def close_times(
        self, watermark_ms: int, tick_us: int, max_event_times_us: Mapping[str, int] = NO_TIMES
    ) -> tuple[int, int]:
        """Return the close times in ticks at the start and at the end of a batch.

        Args:
            watermark_ms: of the batch.
            tick_us: length of a tick in microseconds.
            max_event_times_us: the highest event time of each input, as far as it is known, in microseconds, by its name.
        """
        start = close_time_at(watermark_ms, self.behind_us, tick_us)
        end = close_time_at(self.next_watermark_ms(watermark_ms, max_event_times_us), self.behind_us, tick_us)
        # An operator goes on from the close time of its last batch: the far past adds nothing to that.
        return (FAR_PAST if self.chained else start), end

    def next_watermark_ms(self, watermark_ms: int, max_event_times_us: Mapping[str, int]) -> int:
        """Return what the next batch's watermark will be, as far as this one tells. Arguments are those of `close_times`."""
        known = [
            (max_event_times_us[name] - delay) // 1_000 if name in max_event_times_us else watermark_ms
            for name, delay in self.delays_us
        ]
        return max(watermark_ms, min(known, default=watermark_ms))

    def max_event_times_us(
        self, told: Sequence[int | None], before: Mapping[str, int] | None, tick_us: int
    ) -> dict[str, int]:
        """Return the highest event time of each input, as far as it is known, in microseconds, by its name.

        Args:
            told: those of the batch, in the order of `delays_us`, in microseconds; None for an input without records.
            before: those of earlier batches in ticks, by name.
            tick_us: length of a tick in microseconds.
        """
        times = {name: ticks * tick_us for name, ticks in (before or {}).items()}
        for (name, _), time in zip(self.delays_us, told, strict=False):
            if time is not None:
                times[name] = max(time, times.get(name, time))
        return times

    def behind(self, ticks: int, tick_us: int) -> int:
        """Return how far results may lie behind, in microseconds.

        Args:
            ticks: how far they may lie before the close time of the batch before.
            tick_us: length of a tick in microseconds.
        """
        return -(-self.behind_us // tick_us) * tick_us + ticks * tick_us

    def by_clock(self, now_ms: int, active_ms: int, tick_us: int) -> int:
        """Return the close time in ticks that follows from the clock: now - max(idle, grace), once the stream is quiet.

        A record that grace allows for may come after an outage that was longer than `idle`.

        Args:
            now_ms: the batch's clock. It is in the checkpoint, so that a repeated batch has the same one.
            active_ms: that of the last batch in which records arrived.
            tick_us: length of a tick in microseconds.
        """
        if self.idle_ms is None or now_ms - active_ms < self.idle_ms:
            return FAR_PAST
        return (now_ms * 1_000 - max(self.idle_ms * 1_000, self.open_us)) // tick_us
