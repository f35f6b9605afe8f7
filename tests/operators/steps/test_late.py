"""Late and bad records as data: which they are, the window that each missed, and by how much."""

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from oracle import HoppingOracle, SessionOracle, SlidingOracle, StreamClock

from operators import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg

GRACE = 15
SIZE = 40
MS = timedelta(milliseconds=1)


def last_bounds(kind: str, time: int) -> tuple[int, int]:
    """The last window that could have held a record of that time, worked out by itself."""
    if kind in ("sliding", "sliding fold"):
        return time, time + SIZE
    step = {"hopping": 10, "hopping fold": 10, "tumbling": SIZE}[kind]
    return time // step * step, time // step * step + SIZE


KINDS: dict[str, Any] = {
    "sliding": (SlidingWindows(SIZE, GRACE), lambda emit: SlidingOracle(SIZE, emit)),
    "sliding fold": (SlidingWindows(SIZE, GRACE), lambda emit: SlidingOracle(SIZE, emit)),
    "hopping": (HoppingWindows(SIZE, 10, GRACE), lambda emit: HoppingOracle(SIZE, 10, 0, emit)),
    "hopping fold": (HoppingWindows(SIZE, 10, GRACE), lambda emit: HoppingOracle(SIZE, 10, 0, emit)),
    "tumbling": (TumblingWindows(SIZE, GRACE), lambda emit: HoppingOracle(SIZE, SIZE, 0, emit)),
    "session": (SessionWindows(SIZE, grace=GRACE), lambda emit: SessionOracle(lambda _: SIZE, None, emit)),
    "limited session": (
        SessionWindows(SIZE, grace=GRACE, max_length=100),
        lambda emit: SessionOracle(lambda _: SIZE, 100, emit),
    ),
}


def batches(seed: int) -> Iterator[list[tuple[str, int, int]]]:
    """Records far out of order, with ties; the value is the record's number."""
    rng, number = random.Random(seed), 0
    for batch in range(30):
        records = []
        for _ in range(rng.randrange(25)):
            records.append((rng.choice("abc"), batch * 30 + rng.randrange(-250, 40) // 3 * 3, number))
            number += 1
        yield records


def table(records: list[tuple[str, int, int]]) -> pa.Table:
    """The records as a table with a column that no aggregate reads."""
    keys, times, values = zip(*records, strict=True) if records else ((), (), ())
    return pa.table(
        {
            "k": pa.array(keys, pa.string()),
            "at": pa.array(times, pa.timestamp("ms")),
            "v": pa.array(values, pa.int64()),
            "note": pa.array([f"note {value}" for value in values], pa.string()),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("emit", ["on_close", "on_update"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_late_records_are_those_of_brute_force(kind: str, emit: str) -> None:
    """Each late record is reported once, with all its columns, with the window that it missed."""
    windows, judge = KINDS[kind]
    result = agg.fold(0, lambda n, _: n + 1, "v", type="bigint") if "fold" in kind else agg.count()
    oracle, clock, late = judge(emit), StreamClock(GRACE), 0
    with windows.group_by("k").aggregate(n=result).emit(emit).local_runner("at", late=True) as runner:
        for records in batches(7):
            batch = clock.batch(records)
            expected = sorted(records[position] for position in oracle.step(batch).late)
            runner.process(table(records))
            reports = runner.late.to_pylist()
            found = sorted(
                (row["record"]["k"], ms(row["record"]["at"]), row["record"]["v"]) for row in reports
            )
            assert expected == found
            for row in reports:
                assert row["reason"] == "late"
                assert row["record"]["note"] == f"note {row['record']['v']}"
                start, end = ms(row["window"]["start"]), ms(row["window"]["end"])
                assert row["late_by_ms"] == batch.close_time_start - end
                if "session" not in kind:
                    assert (start, end) == last_bounds(kind, ms(row["record"]["at"]))
                else:
                    assert start <= ms(row["record"]["at"]) <= end - SIZE
            late += len(reports)
        assert runner.counters.late == late
    assert late > 10


def ms(when: Any) -> int:
    """A time as milliseconds since the epoch."""
    return int(pa.scalar(when, pa.timestamp("us")).value // 1_000)


def test_bad_records_are_told_with_what_is_wrong() -> None:
    """Null and absurd times, and gaps that are none, each with its reason and without a window."""
    op = SessionWindows(gap_column="gap").group_by("k").aggregate(n=agg.count())
    times = [5, None, 2**61, 7, 8, 9, None]
    gaps = [10, 10, 10, None, 0, 2**60, None]
    rows = pa.table({"k": ["a"] * 7, "at": pa.array(times, pa.int64()), "gap": pa.array(gaps, pa.int64())})
    with op.local_runner("at", late=True) as runner:
        runner.process(rows)
        reports = runner.late.to_pylist()
        assert (runner.counters.rows, runner.counters.bad, runner.counters.late) == (7, 6, 0)
    assert [(row["reason"], row["record"]["at"], row["record"]["gap"]) for row in reports] == [
        ("event time is null", None, 10),
        ("event time is out of range", 2**61, 10),
        ("gap is null", 7, None),
        ("gap is not positive, or out of range", 8, 0),
        ("gap is not positive, or out of range", 9, 2**60),
        ("event time is null", None, None),
    ]
    assert all(row["window"] is None and row["late_by_ms"] is None for row in reports)


def test_without_being_asked_nothing_is_kept() -> None:
    """A runner that was not made for it counts late records and keeps none."""
    op = SlidingWindows(SIZE).group_by("k").aggregate(n=agg.count())
    with op.local_runner("at") as runner:
        for records in ([("a", 1_000, 1)], [("a", 0, 2)]):
            runner.process(table(records))
        assert runner.counters.late == 1
        assert runner.late is None


def test_late_by_as_much_as_can_be() -> None:
    """The time from a window's end to a close time that is next to the last one there is."""
    op = SlidingWindows(SIZE).group_by("k").aggregate(n=agg.count())
    rows = pa.table({"k": ["a"], "at": pa.array([5], pa.int64())})
    with op.local_runner("at", late=True) as runner:
        runner.process(rows.slice(0, 0), stream_time=2**60 - 1)
        runner.process(rows)
        (report,) = runner.late.to_pylist()
    assert 2**60 - (5 + SIZE + 1) == report["late_by_ms"]
