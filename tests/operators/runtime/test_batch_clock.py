"""How close times follow from a watermark: those of a stream are those of the local runner, to the millisecond."""

from dataclasses import replace

import pytest
from pyspark.sql.types import StructField, StructType, TimestampType

from operators.columns.records import FAR_PAST
from operators.runtime.batch_clock import Call, LocalClock, StreamClock
from operators.runtime.binding import OutputTime
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.inputs.chains import Incoming, direct, mark_times
from state_backends.durability.progress import Progress

HIGHEST_MS, GRACE_MS = 1_700_000_000_000, 10


def close_times(
    rule: WatermarkRule, watermark_ms: int, tick_us: int, now_ms: int = 0, progress: Progress | None = None
) -> tuple[int, int]:
    """The close times of a call without records."""
    call = Call(watermark_ms, now_ms)
    return StreamClock(progress or Progress(), rule, call, tick_us).close_times


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
    assert (close, close) == close_times(WatermarkRule(behind_us=behind_us), HIGHEST_MS - delay_ms, tick_us)


def test_in_a_chain_the_watermark_of_the_batch_before_decides_what_is_late() -> None:
    """An operator goes on from its last close time, to which the far past adds nothing."""
    assert (FAR_PAST, 101) == close_times(WatermarkRule(chained=True), 100, 1_000)


@pytest.mark.parametrize("watermark", [0, -1])
def test_a_watermark_of_zero_is_none(watermark: int) -> None:
    """Spark's watermark starts at 0."""
    assert (FAR_PAST, FAR_PAST) == close_times(WatermarkRule(), watermark, 1_000)


@pytest.mark.parametrize("tick_us", [1, 1_000])
@pytest.mark.parametrize(("idle_ms", "grace_ms"), [(600_000, 7_200_000), (7_200_000, 600_000), (600_000, 0)])
def test_the_clock_never_shortens_grace(idle_ms: int, grace_ms: int, tick_us: int) -> None:
    """It closes at now - max(idle, grace), once it has been quiet for `idle`: an outage takes nothing from grace."""
    rule, active = direct(grace_ms).with_idle(idle_ms).watermark_rule, Progress(last_active_ms=HIGHEST_MS)
    assert FAR_PAST == close_times(rule, 0, tick_us, HIGHEST_MS + idle_ms - 1, active)[1]
    now_ms = HIGHEST_MS + idle_ms
    closed = close_times(rule, 0, tick_us, now_ms, active)[1]
    assert (now_ms - max(idle_ms, grace_ms)) * 1_000 // tick_us == closed
    # A record with the time of the clock would close no less.
    assert closed <= close_times(rule, now_ms - grace_ms - 1, tick_us)[1]


def chained_batches(rule: WatermarkRule, *calls: Call) -> list[int]:
    """The close times of calls without rows, one batch after the other, for an operator that reads the rows of another one."""
    progress, closed = Progress(), []
    for call in calls:
        clock = StreamClock(progress, rule, call, 1_000)
        closed.append(clock.close_times[1])
        progress = replace(clock.after, close_time=closed[-1])
        progress = Progress.from_plain(replace(progress, buckets=1).plain())
    return closed


def test_in_a_chain_it_is_not_quiet_while_the_watermark_moves() -> None:
    """The first operator reads a backlog, and emits nothing for long: the clock of the second one closes nothing."""
    rule = WatermarkRule(chained=True, idle_ms=1_000)
    backlog = [Call(100 * step, HIGHEST_MS + 10_000 * step) for step in range(1, 5)]
    assert [call.watermark_ms + 1 for call in backlog] == chained_batches(rule, *backlog)
    # Whether the first one has records in a batch shows in the next one: the clock of the batch before counts.
    quiet = [Call(400, HIGHEST_MS + 40_000 + after) for after in (1_500, 3_000)]
    assert [401, HIGHEST_MS + 40_500] == chained_batches(rule, *backlog, *quiet)[4:]
    again = Call(500, HIGHEST_MS + 50_000)
    found = chained_batches(rule, *backlog, *quiet, again, replace(again, now_ms=HIGHEST_MS + 60_000))
    assert [HIGHEST_MS + 40_500] * 2 == found[-2:], (
        "the watermark is behind what the clock has closed, and moves"
    )


@pytest.mark.parametrize(("idle_ms", "expected"), [(3_000, 3_000), (None, 2_000), (1_000, 2_000)])
@pytest.mark.parametrize("behind_us", [0, 9_000_000])
def test_operators_after_it_know_the_longest_idle(behind_us: int, idle_ms: int | None, expected: int) -> None:
    """Also where rows lie so far behind that the clock leaves nothing open for them."""
    rule = WatermarkRule(True, behind_us)
    input_ = Incoming(rule, None, 0, earlier_idle_ms=2_000).with_idle(idle_ms)
    schema = StructType([StructField("end", TimestampType())])
    (marked,) = mark_times(schema, [OutputTime("end", None, 0)], input_, 1_000)
    assert expected == marked.metadata["stateful_windows.idleMs"]


def test_a_local_runner_closes_by_the_slowest_input_and_never_goes_back() -> None:
    """An input without a record holds the time; a stream time that is given counts in place of the records' times."""
    clock = LocalClock(Progress(), 10, {"left": 50, "right": None}, several=True)
    assert (FAR_PAST, FAR_PAST) == clock.close_times
    clock = LocalClock(clock.after, 10, {"left": None, "right": 30}, several=True)
    assert (FAR_PAST, 20) == clock.close_times
    assert Progress(stream_time=30, max_event_time=30, inputs={"left": 50, "right": 30}) == clock.after
    clock = LocalClock(clock.after, 10, {"left": 90, "right": 80}, several=True, stream_time=25)
    assert (20, 20) == clock.close_times
    assert (30, 80) == (clock.after.stream_time, clock.after.max_event_time)
