"""bytewax: its own windows in memory, and for sliding windows, of which it has no kind that follows records, a deque per key.

The aggregates of such a window are recomputed from the deque for each record, as its users write it.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from typing import Any

import bytewax.operators as op
import pyarrow as pa
from bytewax.dataflow import Dataflow
from bytewax.operators import KeyedStream, windowing
from bytewax.testing import TestingSink, TestingSource, run_main
from task import RESULT, Task, read_task

BATCH = 1_000
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Record = tuple[datetime, int, float]
"""Event time, for the clock; event time in ms; value."""
Row = tuple[Any, ...]
"""A row of a result after its key."""
EVENT_TIME = windowing.EventClock(
    ts_getter=lambda record: record[0],
    wait_for_system_duration=timedelta(0),
    # A clock that stands still: else a slow machine makes records late.
    now_getter=lambda: EPOCH,
    to_system_utc=lambda _: None,
)


def left_window(size: int) -> Callable[[Any, Record], tuple[Any, Row]]:
    """Return what makes the window that ends at a record, from those of its key before it."""

    def step(state: Any, record: Record) -> tuple[Any, Row]:
        times, values = state = state or (deque(), deque())
        _, at, value = record
        times.append(at)
        values.append(value)
        while times[0] < at - size:
            times.popleft()
            values.popleft()
        total = sum(values)
        return state, (at, len(values), total, min(values), max(values), total / len(values))

    return step


def empty() -> list[Any]:
    """First event, count, sum, least and largest value of no records."""
    return [None, 0, 0.0, float("inf"), float("-inf")]


def add(state: list[Any], record: Record) -> list[Any]:
    """Put a record into a window; records come in order of event time."""
    _, at, value = record
    if state[1] == 0:
        state[0] = at
    state[1] += 1
    state[2] += value
    state[3] = min(state[3], value)
    state[4] = max(state[4], value)
    return state


def merge(a: list[Any], b: list[Any]) -> list[Any]:
    """Put two windows together."""
    return [min(a[0], b[0]), a[1] + b[1], a[2] + b[2], min(a[3], b[3]), max(a[4], b[4])]


def closed(step: int | None) -> Callable[[tuple[int, list[Any]]], Row]:
    """Return what makes a row of a closed window: its start by its number, or a session's first event."""

    def row(window: tuple[int, list[Any]]) -> Row:
        number, (first, n, total, low, high) = window
        return first if step is None else number * step, n, total, low, high, total / n

    return row


def windowed(stream: KeyedStream[Record], task: Task) -> KeyedStream[Row]:
    """Add the windows of a kind of work, with five aggregates."""
    if task.work == "sliding":
        return op.stateful_map("left windows", stream, left_window(task.size))
    size, step = timedelta(milliseconds=task.size), timedelta(milliseconds=task.step)
    windowers = {
        "tumbling": lambda: windowing.TumblingWindower(length=size, align_to=EPOCH),
        "hopping": lambda: windowing.SlidingWindower(length=size, offset=step, align_to=EPOCH),
        "session": lambda: windowing.SessionWindower(gap=size),
    }
    steps = {"tumbling": task.size, "hopping": task.step, "session": None}
    windows = windowing.fold_window("windows", stream, EVENT_TIME, windowers[task.work](), empty, add, merge)
    return op.map_value("rows", windows.down, closed(steps[task.work]))


class Clock:
    """Measures the time from when windows are full to the last row, before the end of input is signalled to all keys.

    A left window comes out for each record, so as many rows have gone by as records were to fill windows.
    """

    def __init__(self, fill: int) -> None:
        self._missing = fill
        self._begin = self._end = time.perf_counter()

    def __call__(self, batch: list[Any]) -> list[Any]:
        self._end = time.perf_counter()
        if self._missing > 0:
            self._missing -= len(batch)
            self._begin = self._end
        return batch

    @property
    def seconds(self) -> float:
        """From one to the other."""
        return self._end - self._begin


def run(items: Sequence[tuple[str, Record]], task: Task) -> tuple[float, list[tuple[str, Row]]]:
    """Send the records through, a batch at a time; return the seconds after windows were filled, and the rows."""
    rows: list[tuple[str, Row]] = []
    flow, clock = Dataflow("benchmark"), Clock(task.fill)
    stream = op.input("records", flow, TestingSource(items, batch_size=BATCH))
    op.output("out", op.flat_map_batch("clock", windowed(stream, task), clock), TestingSink(rows))
    run_main(flow)
    return clock.seconds, rows


def main() -> None:
    task = read_task()
    columns = task.columns
    items = [
        (str(key), (EPOCH + timedelta(milliseconds=at), at, value))
        for key, at, value in zip(columns["k"], columns["at"], columns["v"], strict=True)
    ]
    runs = [run(items[: task.fill + task.rows], task) for _ in range(task.rounds)]
    emitted = runs[-1][1][task.fill :]
    table = pa.Table.from_pylist([dict(zip(RESULT, (int(key), *row), strict=True)) for key, row in emitted])
    task.answer([seconds for seconds, _ in runs], version("bytewax"), table)


if __name__ == "__main__":
    main()
