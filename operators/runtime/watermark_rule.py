"""How the close times of an operator in a stream follow from Spark's watermark."""

from dataclasses import dataclass


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

    def behind(self, ticks: int, tick_us: int) -> int:
        """Return how far results may lie behind, in microseconds.

        Args:
            ticks: how far they may lie before the close time of the batch before.
            tick_us: length of a tick in microseconds.
        """
        return -(-self.behind_us // tick_us) * tick_us + ticks * tick_us
