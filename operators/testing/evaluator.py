"""The rows that an operator must emit, computed by brute force from the raw records."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from operators.definitions.rolling import RollingWindows
from operators.definitions.windows import HoppingWindows, SessionWindows, SlidingWindows
from operators.errors import DefinitionError
from operators.testing.calendars import CalendarOracle, Periods
from operators.testing.oracles import (
    Batch,
    HoppingOracle,
    Output,
    Record,
    SessionOracle,
    SlidingOracle,
    StreamClock,
    Window,
)
from operators.testing.rolling import ExpectedRows, RollingOracle, rolling_rows
from operators.testing.times import column_ticks, tick_of

Definition = SlidingWindows | HoppingWindows | SessionWindows
Gap = Callable[[Record], int]
"""Returns the session gap of a record, in ticks."""
Step: TypeAlias = "pa.Table | tuple[pa.Table, int | datetime | None]"
"""A batch, with the stream time after it if that is not the highest event time."""


class Oracle(Protocol):
    """Computes what each batch emits."""

    def step(self, batch: Batch) -> Output:
        """Process a batch."""


def oracle(windows: Definition, emit: str = "on_close", gap: Gap | None = None) -> Oracle:
    """Return the oracle of a window definition, which computes windows by brute force. Only the definition's lengths are read.

    Args:
        windows: sliding, hopping, tumbling or session windows.
        emit: "on_close" or "on_update".
        gap: returns the gap of a record in ticks, for sessions with a `gap_column`.

    Raises:
        DefinitionError: the emission policy is unknown, the windows have no oracle, or `gap` is missing.
    """
    if emit not in ("on_close", "on_update"):
        raise DefinitionError(f"emit must be 'on_close' or 'on_update', not {emit!r}")
    if isinstance(windows, SlidingWindows):
        return SlidingOracle(windows.size_ticks, emit)
    if isinstance(windows, HoppingWindows):
        if windows.zone is not None:
            per_second = 1_000_000 // windows.tick_us
            periods = Periods(windows.zone, windows.size, windows.advance, windows.offset, per_second)
            return CalendarOracle(periods, emit)
        size, advance, offset = (getattr(windows.times, name) for name in ("size", "advance", "offset"))
        return HoppingOracle(size, advance, offset, emit)
    if not isinstance(windows, SessionWindows):
        raise DefinitionError(
            f"{windows!r} has no oracle: use SlidingWindows, HoppingWindows, TumblingWindows or SessionWindows"
        )
    length = windows.gap_ticks
    if gap is None and length is None:
        raise DefinitionError("each record has its own gap: give gap=, a function from a record to ticks")
    return SessionOracle(gap or (lambda _: length or 0), windows.max_length_ticks, emit)


def evaluate(
    windows: Definition,
    batches: Iterable[Batch | Sequence[Record]],
    emit: str = "on_close",
    gap: Gap | None = None,
) -> list[Output]:
    """Return what an operator emits in each batch.

    Cost: each batch computes all windows of its keys, and each window reads all records of the key. Use it for up to a few
    thousand records.

    Args:
        windows: the window definition.
        batches: batches with their close times, or lists of (key, event time in ticks, value), whose stream time is the highest
            event time so far, as in the local runner.
        emit, gap: as for `oracle`.

    Raises:
        DefinitionError: as for `oracle`.
    """
    judge, clock = oracle(windows, emit, gap), StreamClock(windows.grace_ticks)
    return [judge.step(batch if isinstance(batch, Batch) else clock.batch(batch)) for batch in batches]


def expected_rows(
    windows: Definition | RollingWindows,
    batches: Iterable[Step],
    event_time: str,
    aggregates: Mapping[str, Callable[[list[dict[str, Any]]], Any]],
    keys: Sequence[str] = (),
    emit: str = "on_close",
) -> list[list[dict[str, Any]]]:
    """Return the rows that a local runner must return for each batch, as `assert_rows` takes them.

    Args:
        windows: the window definition.
        batches: tables, or pairs of a table and the stream time after it, as `LocalRunner.process` takes them.
        event_time: column of timestamps, or of int64 ticks; rows where it is null are ignored.
        aggregates: functions by name of the result, called with the rows of a window as dictionaries in order of event time. A
            rolling window may have no rows.
        keys: key columns.
        emit: "on_close" or "on_update"; of rolling windows "on_close" or "on_arrival".

    Returns:
        For each batch the rows as dictionaries: keys, `window` with its bounds in ticks, results and, on update, `change` and
        `sequence`, the number of the batch from 0. Of rolling windows all columns of the record, then the results of each
        lookback.

    Raises:
        DefinitionError: as for `oracle`.
    """
    found: list[list[dict[str, Any]]] = []
    for output, _ in _outputs(windows, batches, event_time, keys, emit):
        if isinstance(output, ExpectedRows):
            assert isinstance(windows, RollingWindows)  # noqa: S101 - they alone have such rows
            found.append(rolling_rows(windows, output.rows, aggregates))
            continue
        updates = [(window, "update") for window in output.windows]
        updates += [(window, "retract") for window in output.retracted]
        change = emit == "on_update"
        number = len(found)
        found.append(
            [_row(window, keys, aggregates, what if change else "", number) for window, what in updates]
        )
    return found


def late_rows(
    windows: Definition | RollingWindows, batches: Iterable[Step], event_time: str, keys: Sequence[str] = ()
) -> list[int]:
    """Return the positions of the late rows in the concatenation of all batches.

    Args:
        windows, batches, event_time, keys: as for `expected_rows`.

    Raises:
        DefinitionError: as for `oracle`.
    """
    # Whether a record is late does not depend on when windows are emitted.
    emit = "on_arrival" if isinstance(windows, RollingWindows) else "on_update"
    outputs = _outputs(windows, batches, event_time, keys, emit)
    return [numbers[position] for output, numbers in outputs for position in output.late]


def _outputs(
    windows: Definition | RollingWindows,
    batches: Iterable[Step],
    event_time: str,
    keys: Sequence[str],
    emit: str,
) -> Iterator[tuple[Output | ExpectedRows, list[int]]]:
    """The output of each batch, and the row number of each of its records."""
    column = windows.gap_column if isinstance(windows, SessionWindows) else None
    tick_us = windows.tick_us

    def gap(record: Record) -> int:
        return _gap_ticks(record[2][column], tick_us) or 0

    judge: Oracle | RollingOracle = (
        RollingOracle(windows, emit)
        if isinstance(windows, RollingWindows)
        else oracle(windows, emit, gap if column else None)
    )
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
        known = [time for time in times if time is not None]
        yield judge.step(clock.batch(records, after, known)), numbers


def _gap_ticks(gap: timedelta | int | None, tick_us: int) -> int | None:
    """The gap of a record, given as a duration or whole milliseconds; None if it is shorter than a tick."""
    if gap is None:
        return None
    us = gap // timedelta(microseconds=1) if isinstance(gap, timedelta) else gap * 1_000
    return us // tick_us if us >= tick_us else None


def _key(row: Mapping[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    """The key of a row. All NaN become one object, and so one key."""
    return tuple(math.nan if row[name] != row[name] else row[name] for name in keys)


def _row(
    window: Window,
    keys: Sequence[str],
    aggregates: Mapping[str, Callable[[list[dict[str, Any]]], Any]],
    change: str,
    sequence: int,
) -> dict[str, Any]:
    content = [row for _, row in window.content]
    return {
        **dict(zip(keys, window.key, strict=True)),
        "window": {"start": window.start, "end": window.end},
        **{name: finish(content) if content else None for name, finish in aggregates.items()},
        **({"change": change, "sequence": sequence} if change else {}),
    }
