"""How close times follow from a watermark: those of a stream are those of the local runner, to the millisecond."""

import pytest

from operators.columns.records import FAR_PAST
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.inputs.chains import direct

HIGHEST_MS, GRACE_MS = 1_700_000_000_000, 10


@pytest.mark.parametrize(("tick_us", "ticks_per_ms"), [(1_000, 1), (1, 1_000)])
@pytest.mark.parametrize(
    ("delay_ms", "behind_us"),
    [pytest.param(GRACE_MS + 1, 0, id="set by apply"), pytest.param(GRACE_MS, 1_000, id="set by the user")],
)
def test_a_stream_closes_at_its_highest_time_less_grace(
    delay_ms: int, behind_us: int, tick_us: int, ticks_per_ms: int
) -> None:
    """The watermark of `apply` is a millisecond lower, for Spark's own operators: rows at the watermark are late for them."""
    close = (HIGHEST_MS - GRACE_MS) * ticks_per_ms
    assert (close, close) == WatermarkRule(behind_us=behind_us).close_times(HIGHEST_MS - delay_ms, tick_us)


def test_in_a_chain_the_watermark_of_the_batch_before_decides_what_is_late() -> None:
    """An operator goes on from its last close time, to which the far past adds nothing."""
    assert (FAR_PAST, 101) == WatermarkRule(chained=True).close_times(100, 1_000)


@pytest.mark.parametrize("watermark", [0, -1])
def test_a_watermark_of_zero_is_none(watermark: int) -> None:
    """Spark's watermark starts at 0."""
    assert (FAR_PAST, FAR_PAST) == WatermarkRule().close_times(watermark, 1_000)


@pytest.mark.parametrize("tick_us", [1, 1_000])
@pytest.mark.parametrize(("idle_ms", "grace_ms"), [(600_000, 7_200_000), (7_200_000, 600_000), (600_000, 0)])
def test_the_clock_never_shortens_grace(idle_ms: int, grace_ms: int, tick_us: int) -> None:
    """It closes at now - max(idle, grace), once it has been quiet for `idle`: an outage takes nothing from grace."""
    watermark_rule = direct(grace_ms).with_idle(idle_ms).watermark_rule
    assert FAR_PAST == watermark_rule.by_clock(HIGHEST_MS + idle_ms - 1, HIGHEST_MS, tick_us)
    now_ms = HIGHEST_MS + idle_ms
    open_ms = max(idle_ms, grace_ms)
    assert (now_ms - open_ms) * 1_000 // tick_us == watermark_rule.by_clock(now_ms, HIGHEST_MS, tick_us)
    # A record with the time of the clock would close no less.
    watermark_ms = now_ms - grace_ms - 1
    assert (
        watermark_rule.by_clock(now_ms, HIGHEST_MS, tick_us)
        <= watermark_rule.close_times(watermark_ms, tick_us)[1]
    )
