"""Grace may change at a restart: state goes on with the segments that it has, unless others are asked for."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from state_backends import StateError

MINUTE = 60_000
KINDS = {
    "sliding": lambda grace: SlidingWindows("1 hour", grace=grace),
    "tumbling": lambda grace: TumblingWindows("1 hour", grace=grace),
    "hopping": lambda grace: HoppingWindows("6 hours", "10 minutes", grace=grace),
    "session": lambda grace: SessionWindows("30 minutes", grace=grace),
    "rolling": lambda grace: RollingWindows({"h": "1 hour", "d": "1 day", "ever": "lifetime"}, grace=grace),
    "sliding by fold": lambda grace: SlidingWindows("1 hour", grace=grace),
}
GRACES = ("1 minute", "2 minutes", "5 hours", "0 s", "3 days", "1 minute")
FOLD = agg.fold(lambda: 0, lambda total, v: total + v, "v", type="bigint", name="total")


def operator(kind: str, grace: str) -> Any:
    """Windows of a kind."""
    total = FOLD if kind.endswith("fold") else agg.sum("v")
    return KINDS[kind](grace).group_by("k").aggregate(n=agg.count(), total=total)


def batch(number: int) -> pa.Table:
    """Records of four hours, in order."""
    times = [(number * 240 + minute) * MINUTE for minute in range(0, 240, 7)]
    at = pa.array(times, pa.timestamp("ms", "UTC"))
    return pa.table({"k": [f"k{time % 3}" for time in times], "at": at, "v": [time % 11 for time in times]})


def rows_of(runner: Any, tables: list[pa.Table], *, last: bool = False) -> list[str]:
    """The rows of batches as text; with `last` also those that are still to come."""
    found = [runner.process(table) for table in tables]
    if last:
        found.append(runner.process(batch(0).slice(0, 0), 2**50))
    return [repr(row) for rows in found for row in rows.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_state_goes_on_with_another_grace(kind: str, tmp_path: Path) -> None:
    """Longer and shorter, with lengths that the default of a segment follows: all rows are those of one grace throughout."""
    tables = [batch(number) for number in range(len(GRACES))]
    with operator(kind, GRACES[0]).local_runner("at") as runner:
        expected = rows_of(runner, tables, last=True)
    found = []
    for number, grace in enumerate(GRACES):
        backend = ("memory", "rocksdb", "spark")[number % 3]
        with operator(kind, grace).local_runner("at", backend, tmp_path) as runner:
            found += rows_of(runner, [tables[number]], last=number == len(GRACES) - 1)
    assert sorted(expected) == sorted(found)


@pytest.mark.parametrize("kind", KINDS)
def test_another_segment_that_is_asked_for_is_refused(kind: str, tmp_path: Path) -> None:
    """The way out is a savepoint, which fits any length; without the option the stored segments go on."""
    tables = [batch(number) for number in range(4)]
    with operator(kind, "1 minute").local_runner("at") as runner:
        expected = rows_of(runner, tables, last=True)
    folder, other = tmp_path / "state", {"state.segment": "25 minutes"}
    with operator(kind, "1 minute").local_runner("at", "memory", folder, other) as runner:
        found = rows_of(runner, tables[:1])
    with (
        operator(kind, "1 minute").local_runner(
            "at", "memory", folder, {"state.segment": "1 hour"}
        ) as refused,
        pytest.raises(StateError, match=r"segment was 25 minutes, is 1 hour.* by a savepoint"),
    ):
        refused.process(tables[1])
    with operator(kind, "2 minutes").local_runner("at", "rocksdb", folder) as runner:
        found += rows_of(runner, tables[1:2])
        assert runner.store.segment_ticks == 25 * MINUTE
    with operator(kind, "2 minutes").local_runner("at", "rocksdb", folder, other) as runner:
        found += rows_of(runner, tables[2:3])
        runner.savepoint(tmp_path / "saved")
    moved = {"state.savepoint": tmp_path / "saved", "state.segment": "1 hour"}
    with operator(kind, "1 minute").local_runner("at", options=moved) as runner:
        found += rows_of(runner, tables[3:], last=True)
        assert runner.store.segment_ticks == 60 * MINUTE
    assert sorted(expected) == sorted(found)
