"""What an operator has to emit, worked out by brute force from the raw records: the oracles of window definitions."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from operators.definitions.windows import HoppingWindows, SessionWindows, SlidingWindows
from operators.errors import DefinitionError
from operators.testing.oracles import (
    Batch,
    FramedOracle,
    Output,
    Record,
    SessionOracle,
    SlidingOracle,
    StreamClock,
    Window,
)
from operators.testing.times import column_ticks, tick_of

Definition = SlidingWindows | HoppingWindows | SessionWindows
Gap = Callable[[Record], int]
"""Each record's own session gap, in ticks."""
Step: TypeAlias = "pa.Table | tuple[pa.Table, int | datetime | None]"
"""One batch, and the stream time after it where it is not the highest event time."""


class Oracle(Protocol):
    """Takes batch after batch and says what each emits."""

    def step(self, batch: Batch) -> Output:
        """Take one batch."""


def oracle(windows: Definition, emit: str = "on_close", gap: Gap | None = None) -> Oracle:
    """Return the brute-force judge of a window definition. Only the definition's lengths are read.

    Args:
        windows: sliding, hopping, tumbling or session windows.
        emit: "on_close" or "on_update".
        gap: of each record in ticks, for sessions with a `gap_column`.

    Raises:
        DefinitionError: an unknown emission policy, no such windows, or sessions whose gap is each record's own without `gap`.
    """
    if emit not in ("on_close", "on_update"):
        raise DefinitionError(f"emission policy {emit!r} is unknown; known are on_close, on_update")
    if isinstance(windows, SlidingWindows):
        return SlidingOracle(windows.size_ticks, emit)
    if isinstance(windows, HoppingWindows):
        return FramedOracle(windows.size_ticks, windows.advance_ticks, windows.offset_ticks, emit)
    if not isinstance(windows, SessionWindows):
        raise DefinitionError(
            f"{windows!r} has no oracle; SlidingWindows, HoppingWindows, TumblingWindows and SessionWindows have one"
        )
    length = windows.gap_ticks
    if gap is None and length is None:
        raise DefinitionError("the gap is each record's own: give gap=, a function from a record to ticks")
    return SessionOracle(gap or (lambda _: length or 0), windows.max_length_ticks, emit)


def evaluate(
    windows: Definition,
    batches: Iterable[Batch | Sequence[Record]],
    emit: str = "on_close",
    gap: Gap | None = None,
) -> list[Output]:
    """Return what each batch makes an operator emit.

    Cost: each batch looks at all windows of its keys, and each window at all of the key's records: for some thousand records.

    Args:
        windows: the window definition.
        batches: records with close times of their own, or plain lists of (key, event time in ticks, value), whose stream time
            is the highest event time so far, as in the local runner.
        emit, gap: as for `oracle`.

    Raises:
        DefinitionError: as `oracle`.
    """
    judge, clock = oracle(windows, emit, gap), StreamClock(windows.grace_ticks)
    return [judge.step(batch if isinstance(batch, Batch) else clock.batch(batch)) for batch in batches]


def expected_rows(
    windows: Definition,
    batches: Iterable[Step],
    event_time: str,
    aggregates: Mapping[str, Callable[[list[dict[str, Any]]], Any]],
    keys: Sequence[str] = (),
    emit: str = "on_close",
) -> list[list[dict[str, Any]]]:
    """Return the rows that a local runner has to return for each batch, as `assert_rows` takes them.

    Args:
        windows: the window definition.
        batches: tables, or pairs of a table and the stream time after it, as `LocalRunner.process` takes them.
        event_time: column of timestamps, or of int64 ticks; rows where it is null are left out.
        aggregates: results by name, each computed from the window's rows as dictionaries, in order of event time.
        keys: key columns.
        emit: "on_close" or "on_update".

    Returns:
        For each batch the rows as dictionaries: keys, `window` with its bounds in ticks, results and, on update, `change`.

    Raises:
        DefinitionError: as `oracle`.
    """
    found = []
    for output, _ in _outputs(windows, batches, event_time, keys, emit):
        updates = [(window, "update") for window in output.windows]
        updates += [(window, "retract") for window in output.retracted]
        change = emit == "on_update"
        found.append([_row(window, keys, aggregates, what if change else "") for window, what in updates])
    return found


def late_rows(
    windows: Definition, batches: Iterable[Step], event_time: str, keys: Sequence[str] = ()
) -> list[int]:
    """Return which rows come late, as their positions in all batches one after another.

    Args:
        windows, batches, event_time, keys: as for `expected_rows`.

    Raises:
        DefinitionError: as `oracle`.
    """
    # Whether a record is late does not depend on when windows are emitted.
    outputs = _outputs(windows, batches, event_time, keys, "on_update")
    return [numbers[position] for output, numbers in outputs for position in output.late]


def _outputs(
    windows: Definition, batches: Iterable[Step], event_time: str, keys: Sequence[str], emit: str
) -> Iterator[tuple[Output, list[int]]]:
    """What each batch makes an operator emit, and the row number of each of its records."""
    column = windows.gap_column if isinstance(windows, SessionWindows) else None
    tick_us = windows.tick_us

    def gap(record: Record) -> int:
        return _gap_ticks(record[2][column], tick_us) or 0

    judge = oracle(windows, emit, gap if column else None)
    clock, before = StreamClock(windows.grace_ticks), 0
    for step in batches:
        table, moment = step if isinstance(step, tuple) else (step, None)
        records, numbers = [], []
        times = column_ticks(table.column(event_time), tick_us)
        for number, (time, row) in enumerate(zip(times, table.to_pylist(), strict=True), before):
            if time is not None and (column is None or _gap_ticks(row[column], tick_us)):
                records.append((_key(row, keys), time, row))
                numbers.append(number)
        before += table.num_rows
        after = None if moment is None else tick_of(moment, tick_us)
        yield judge.step(clock.batch(records, after)), numbers


def _gap_ticks(gap: timedelta | int | None, tick_us: int) -> int | None:
    """A record's gap, a duration or whole milliseconds; None if it is no gap."""
    if gap is None:
        return None
    us = gap // timedelta(microseconds=1) if isinstance(gap, timedelta) else gap * 1_000
    return us // tick_us if us >= tick_us else None


def _key(row: Mapping[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    """The key of a row; all NaN are one object, and so one key."""
    return tuple(math.nan if row[name] != row[name] else row[name] for name in keys)


def _row(
    window: Window,
    keys: Sequence[str],
    aggregates: Mapping[str, Callable[[list[dict[str, Any]]], Any]],
    change: str,
) -> dict[str, Any]:
    content = [row for _, row in window.content]
    return {
        **dict(zip(keys, window.key, strict=True)),
        "window": {"start": window.start, "end": window.end},
        **{name: finish(content) if content else None for name, finish in aggregates.items()},
        **({"change": change} if change else {}),
    }
