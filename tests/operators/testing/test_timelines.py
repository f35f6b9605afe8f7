"""Timelines, drawing by drawing."""

from datetime import datetime, timedelta
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pytest

from operators import DefinitionError, HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.testing import timeline

NINE = datetime(2024, 5, 1, 9)


def records(times: Any, **columns: Any) -> pa.Table:
    """Records at ticks, or at minutes after nine o'clock."""
    return pa.table({"at": pa.array(times, pa.int64()), **columns})


def clocked(*minutes: float) -> pa.Table:
    """Records at so many minutes after nine o'clock."""
    return pa.table({"at": pa.array([NINE + timedelta(minutes=m) for m in minutes], pa.timestamp("us"))})


def emitted(
    windows: Any, batches: list[pa.Table], keys: tuple[str, ...] = (), emit: str = "on_close"
) -> pa.Table:
    """What windows emit, batch by batch and when time ends."""
    operator = windows.group_by(*keys).aggregate(n=agg.count()).emit(emit)
    with operator.local_runner("at") as runner:
        tables = [runner.process(batch) for batch in batches]
        return pa.concat_tables([*tables, runner.process(batches[0].slice(0, 0), 2**60)])


def drawing(text: str) -> str:
    """A drawing as it stands in a test."""
    return dedent(text).strip("\n")


def test_sliding_windows_hold_both_ends_and_have_sides() -> None:
    """The bracket that closes stands after the last tick; marks are labels, or how many share a place."""
    batch = records([10, 10, 14, 15], name=["ann", "bob", "cid", "dan"])
    windows = SlidingWindows(10)

    assert drawing(
        """
                  0         5         10        15        20        25
                  |         |         |         |         |         |
        records                       2       c d
        [0, 10]  [--------------------2]                                left  n=2
        [4, 14]          [------------2-------c]                        left  n=3
        [5, 15]            [----------2-------c-d]                      left  n=4
        [11, 21]                       [------c-d------------]          right n=2
        [15, 25]                               [d--------------------]  right n=1
        """
    ) == timeline(batch, emitted(windows, [batch]), windows, "at", label="name", width=80)


def test_hopping_windows_do_not_hold_their_end() -> None:
    """The bracket that closes stands on the end itself, and leaves a record there to the next window."""
    batch = records([10, 10, 14, 15])
    windows = HoppingWindows(10, 5)

    assert drawing(
        """
                     6     8     10    12    14    16    18    20    22    24
                     |     |     |     |     |     |     |     |     |     |
        records                  2           *  *
        [5, 15)  [---------------2-----------*--)                                 n=3
        [10, 20)                [2-----------*--*--------------)                  n=4
        [15, 25)                               [*-----------------------------)   n=1
        """
    ) == timeline(batch, emitted(windows, [batch]), windows, "at", width=80)


def test_sessions_with_a_late_record_and_a_retraction() -> None:
    """Batches tell which records came late; they have a line of their own, and times of one day are times of day."""
    batches = [clocked(0, 13), clocked(62), clocked(5, 70)]
    windows = SessionWindows("20 minutes")
    rows = emitted(windows, batches, emit="on_update")

    assert drawing(
        """
        2024-05-01
                        09:00    09:15   09:30    09:45   10:00    10:15   10:30
                        |        |       |        |       |        |       |
        records         *      *                           *    *
        late               *
        [09:00, 09:33] [*------*------------]                                  n=2
        [10:02, 10:22]                                    [*----*------]       n=1
        [10:02, 10:22]                                    [*----*------]       retracted
        [10:02, 10:30]                                    [*----*-----------]  n=2
        """
    ) == timeline(batches, rows, windows, "at", width=80)


def test_stream_times_make_records_late() -> None:
    """A batch may come as a pair of a table and the stream time after it, as runners take it."""
    windows, steps = TumblingWindows(10), [(records([1]), 20), (records([2]), None)]
    lines = timeline(steps, emitted(windows, [records([1])]), windows, "at").splitlines()

    assert ["records", "late"] == [line.split()[0] for line in lines[2:4]]
    assert "late" not in timeline([records([1]), records([2])], [], windows, "at")


def test_many_records_and_days_share_columns() -> None:
    """More than nine records at one place are a plus; a record before an end keeps its place in the window."""
    batch = clocked(*range(11), 100, 100, 3_000, 20_000)
    windows = TumblingWindows("1 day")

    assert drawing(
        """
                                       05-02 00:00         05-09 00:00          05-16 00:00
                                       |                   |                    |
        records                      +     *                                  *
        [05-01 00:00, 05-02 00:00) [-+-)                                            n=13
        [05-03 00:00, 05-04 00:00)       [-*-)                                      n=1
        [05-15 00:00, 05-16 00:00)                                          [-*-)   n=1
        """
    ) == timeline(batch, emitted(windows, [batch]), windows, "at", width=80)


def test_windows_of_ones_own_hold_both_ends() -> None:
    """Without a definition rows may be dictionaries with bounds in milliseconds; finer times are written where they are."""
    start = 1_714_554_000_000
    rows = [{"window": {"start": start, "end": start + 500}, "mean": 1.23456789, "all": list(range(40))}]

    assert drawing(
        """
        2024-05-01
                               09:00       09:00:15   09:00:30
                               |           |          |
        records                **                     *
        [09:00, 09:00:00.500] [*]                         mean=1.23457 all=[0, 1, 2, 3, 4, 5, 6, 7, ...
        """
    ) == timeline(clocked(0, 1 / 60, 0.5), rows, None, "at", width=60)


def test_first_forty_windows_are_drawn() -> None:
    """The rest is counted."""
    batch = records(range(0, 430, 10))
    lines = timeline(batch, emitted(TumblingWindows(10), [batch]), TumblingWindows(10), "at").splitlines()

    assert "... and 3 more windows" == lines[-1]
    assert 40 == sum(line.startswith("[") for line in lines)


def test_one_key_is_drawn() -> None:
    """Of several keys one is named, by a tuple where there are several columns; nulls are keys too."""
    batch = records([1, 2, 3], k=["a", "a", None], j=[1, 2, 1])
    windows = TumblingWindows(10)
    rows = emitted(windows, [batch], ("k", "j"))

    assert "k=a j=2" == timeline(batch, rows, windows, "at", key=("a", 2)).splitlines()[0]
    drawn = timeline(batch, rows, windows, "at", key=(None, 1)).splitlines()
    assert (5, 1) == (len(drawn), drawn[3].count("*"))
    with pytest.raises(DefinitionError, match=r"3 keys, such as \('a', 1\), .*choose one by key="):
        timeline(batch, rows, windows, "at")
    with pytest.raises(DefinitionError, match="key must have a value for each of k, j, got 'a'"):
        timeline(batch, rows, windows, "at", key="a")


def test_missing_columns_are_named() -> None:
    """An event time, key or label that the records lack is an error that says what they have."""
    with pytest.raises(DefinitionError, match="the records lack the columns time, name; they have at"):
        timeline(records([1]), [], None, "time", label="name")
    with pytest.raises(DefinitionError, match="records is empty: give at least one table"):
        timeline([], [], None, "at")


def test_nothing_is_drawn_of_nothing() -> None:
    """Without records and windows there is an axis, and no error."""
    assert ["records"] == timeline(records([]), [], None, "at").splitlines()[2:]
