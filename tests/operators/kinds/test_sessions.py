"""Session windows by example: what is emitted, merged and taken back, which records are late, and what is refused.

A record is a letter at an event time; a timeline shows the records, and below them each session with what it holds.
"""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import DefinitionError, SessionWindows, TumblingWindows
from operators import aggregates as agg
from operators.runtime.local import LocalRunner
from operators.spark.batch import bounded
from state_backends import StateError, resolve

Emitted = tuple[int, int, str | None]
"""Start and end of a session and the letters of its records in order of event time, or None if it is taken back."""

LETTERS = {"letters": agg.collect_list("letter")}


def runner(emit: str, gap: Any = 5, directory: Any = None, **definition: Any) -> LocalRunner:
    """A runner of sessions with a gap of 5 ms over all records as one group."""
    return (
        SessionWindows(gap, **definition)
        .aggregate(**LETTERS)
        .emit(emit)
        .local_runner("time", directory=directory)
    )


def feed(running: LocalRunner, stream_time: Any = None, /, **records: int | tuple[int, Any]) -> list[Emitted]:
    """Take one batch of records, each a letter and its time, or time and gap; return what is emitted in order of bounds."""
    timed = [
        (name, *(given if isinstance(given, tuple) else (given, None))) for name, given in records.items()
    ]
    table = pa.table(
        {
            "time": pa.array([time for _, time, _ in timed], pa.int64()),
            "letter": pa.array([name[0] for name, _, _ in timed], pa.string()),
            "gap": pa.array([gap for _, _, gap in timed], pa.int64()),
        }
    )
    emitted = running.process(table, stream_time)
    held = [None if letters is None else "".join(letters) for letters in emitted["letters"].to_pylist()]
    return sorted((*pair, letters) for pair, letters in zip(bounds(emitted), held, strict=True))


def bounds(emitted: pa.Table) -> list[tuple[int, int]]:
    """Start and end of each row's session, in ticks."""
    window = emitted["window"].combine_chunks()
    start, end = (window.field(name).cast(pa.int64()).to_pylist() for name in ("start", "end"))
    return list(zip(start, end, strict=True))


def test_exactly_the_gap_apart_is_one_session_and_one_tick_more_is_two() -> None:
    """A session waits up to and with the tick at which it ends."""
    #           0         5          11
    #           a         b           c
    # [ 0,10]   a.........b.........
    # [11,16]                         c.........
    with runner("on_close") as running:
        assert [(0, 10, "ab"), (11, 16, "c")] == feed(running, 100, a=0, b=5, c=11)


def test_on_close_a_session_comes_once_when_stream_time_has_passed_its_end() -> None:
    """A session that ends at 10 is closed by the first record after 10, not by one at 10, which would join it."""
    with runner("on_close") as running:
        assert [] == feed(running, a=0, b=5)
        assert [] == feed(running, 10)
        assert [(0, 10, "ab")] == feed(running, c=11)
        assert [] == feed(running, 16)
        assert [(11, 16, "c")] == feed(running, 17)
        assert running.store.is_empty()


def test_grace_keeps_a_session_open() -> None:
    """With a grace of 4, a session that ends at 10 takes records until stream time is past 14."""
    with runner("on_close", grace=4) as running:
        feed(running, a=5, b=14)
        assert [] == feed(running, c=9)
        assert [] == feed(running, 23)
        assert [(5, 19, "acb")] == feed(running, 24)


def test_records_in_any_order_make_the_same_session() -> None:
    """A record before its session's first one moves the start, one after the last the end, one between neither."""
    with runner("on_update", grace=100) as running:
        assert [(10, 15, "a")] == feed(running, a=10)
        assert [(7, 15, "ba"), (10, 15, None)] == feed(running, b=7)
        assert [(7, 15, None), (7, 18, "bac")] == feed(running, c=13)
        assert [(7, 18, "badc")] == feed(running, d=12)


def test_on_update_a_session_that_grows_is_taken_back_under_its_old_bounds() -> None:
    """What is taken back is the session with the bounds that it had; then comes the session as it is now."""
    with runner("on_update") as running:
        assert [(10, 15, "a")] == feed(running, a=10)
        assert [(7, 15, "ba"), (10, 15, None)] == feed(running, b=7)
        assert [] == feed(running, 50)


def test_one_record_merges_many_sessions() -> None:
    """All that a record with a long gap bridges are taken back, one row each."""
    #           0       10       20       30
    #           a        b        c        d
    # [ 0, 5]   a....
    # [10,15]            b....
    # [20,25]                     c....
    # [30,35]                              d....
    # [ 0,40]   ae.......b........c........d........
    with runner("on_update", None, gap_column="gap", grace=100) as running:
        apart = feed(running, a=(0, 5), b=(10, 5), c=(20, 5), d=(30, 10))
        merged = feed(running, e=(1, 30))

    assert [(0, 5, "a"), (10, 15, "b"), (20, 25, "c"), (30, 40, "d")] == apart
    assert [(0, 5, None), (0, 40, "aebcd"), (10, 15, None), (20, 25, None), (30, 40, None)] == merged


def test_rows_that_take_back_say_so_and_hold_nothing_else() -> None:
    """Rows that take a session back come before the updates; every aggregate is null in them, counts too."""
    operator = SessionWindows(5, grace=10).group_by("key").emit("on_update")
    operator = operator.aggregate(n=agg.count(), valid=agg.count("v"), total=agg.sum("v"), mean=agg.avg("v"))
    with operator.local_runner("time") as running:
        running.process(pa.table({"key": ["k", "k"], "time": [0, 8], "v": [1, 2]}))
        emitted = running.process(pa.table({"key": ["k"], "time": [4], "v": [9]}))

    rows = emitted.drop_columns("window").to_pylist()
    nothing = {"n": None, "valid": None, "total": None, "mean": None}
    assert [(0, 5), (8, 13), (0, 13)] == bounds(emitted)
    assert [{"key": "k", **nothing, "change": "retract", "sequence": 1}] * 2 == rows[:2]
    whole = {"key": "k", "n": 3, "valid": 3, "total": 12, "mean": 4.0}
    assert [{**whole, "change": "update", "sequence": 1}] == rows[2:]
    assert (3, 3) == (running.counters.rows, running.counters.windows)


def test_a_batch_that_leaves_the_bounds_alone_takes_nothing_back() -> None:
    """A record within a session's first and last is an update of it."""
    with runner("on_update", grace=10) as running:
        feed(running, a=0, b=5)
        assert [(0, 10, "acb")] == feed(running, c=2)


def test_sessions_of_other_keys_are_left_alone() -> None:
    """A record joins sessions of its own key only; null is a key."""
    operator = SessionWindows(5).group_by("key").aggregate(n=agg.count()).emit("on_update")
    with operator.local_runner("time") as running:
        running.process(pa.table({"key": ["a", None], "time": [0, 3]}))
        emitted = running.process(pa.table({"key": ["a"], "time": [4]}))

    assert [("a", None, "retract"), ("a", 2, "update")] == list(
        zip(*(emitted[name].to_pylist() for name in ("key", "n", "change")), strict=True)
    )


def test_a_closed_session_is_final() -> None:
    """A record that would have joined it opens a session of its own, if that one is still open."""
    #            0    5    10  12
    #            a          |   b            close time 6 after b
    # [ 0, 5]    a....                       closed, and not taken back
    # [ 5,10]         c....                  joins neither
    with runner("on_update", grace=6) as running:
        assert [(0, 5, "a"), (12, 17, "b")] == feed(running, a=0, b=12)
        assert [(5, 10, "c")] == feed(running, c=5)
        assert 0 == running.counters.late


def test_a_record_is_late_if_the_session_that_it_makes_is_closed() -> None:
    """At close time 20, a record at 15 makes a session that ends at 20 and is open; one at 14 is late."""
    with runner("on_update") as running:
        feed(running, a=20)
        assert [] == feed(running, b=14)
        assert 1 == running.counters.late
        feed(running, c=30)
        feed(running, d=25, e=24)
        assert 1 == running.counters.late  # 24 is carried by 25


def test_a_record_behind_the_close_time_joins_a_session_that_is_open() -> None:
    """By itself it would be late, but the session that it joins is open."""
    #           10        14            20
    #            b         a             c   close time 20
    # [14,19]              a....             would be closed
    # [16,25]                 d.........c    ... but for d, that is open: 14 joins by 16
    with runner("on_update") as running:
        feed(running, c=20)
        assert [(16, 25, "dc"), (20, 25, None)] == feed(running, d=16)
        assert [(14, 25, "adc"), (16, 25, None)] == feed(running, a=14)
        assert [] == feed(running, x=8)
        assert [(10, 25, "badc"), (14, 25, None)] == feed(running, b=10)
        assert 1 == running.counters.late


def test_records_behind_the_close_time_can_carry_each_other() -> None:
    """The rest of a batch can make the session open that a record would join; alone it would be late."""
    with runner("on_close") as running:
        feed(running, a=20)
        feed(running, b=8, c=12, d=16)
        assert 0 == running.counters.late
        assert [(8, 25, "bcda")] == feed(running, 26)


def test_a_backlog_in_one_batch_makes_nothing_late() -> None:
    """Lateness is judged by earlier batches."""
    with runner("on_close") as running:
        assert [(0, 5, "b")] == feed(running, a=1_000_000, b=0)
        assert 0 == running.counters.late


def test_every_record_may_wait_for_its_own_time() -> None:
    """A session ends at the latest of its records' times plus gaps, be that the first record's."""
    #            0  2          20 22
    #            a  b           d  c
    # [ 0,20]    a..b...........d            a waits for 20, d is in time
    # [22,23]                      c.
    with runner("on_close", None, gap_column="gap") as running:
        windows = feed(running, 100, a=(0, 20), b=(2, 1), d=(20, 1), c=(22, 1))

    assert [(0, 21, "abd"), (22, 23, "c")] == windows


@pytest.mark.parametrize("gap", [None, 0, -1, -(2**63), 2**59, 2**63 - 1])
def test_a_gap_that_is_none_is_counted_as_bad(gap: int | None) -> None:
    """A record whose gap is null, not positive or absurd is left out, is not late, and its time counts all the same."""
    with runner("on_close", None, gap_column="gap") as running:
        feed(running, a=(0, 1), b=(0, gap))
        assert (2, 1, 0) == (running.counters.rows, running.counters.bad, running.counters.late)
        assert [(0, 1, "a")] == feed(running, 5_000)


@pytest.mark.parametrize(
    ("type_", "gap", "end"),
    [
        (pa.int64(), 7, 7),
        (pa.int8(), 7, 7),
        (pa.duration("s"), 2, 2_000),
        (pa.duration("ms"), 7, 7),
        (pa.duration("us"), 7_999, 7),
        (pa.duration("ns"), 7_999_999, 7),
    ],
    ids=str,
)
def test_gaps_of_every_unit(type_: pa.DataType, gap: int, end: int) -> None:
    """Whole numbers are milliseconds; durations are floored to ticks."""
    operator = SessionWindows(gap_column="gap").aggregate(n=agg.count())
    with operator.local_runner("time") as running:
        table = pa.table({"time": pa.array([0], pa.timestamp("ms")), "gap": pa.array([gap], type_)})
        assert [(0, end)] == bounds(running.process(table, 10**6))


def test_a_gap_of_less_than_a_tick_is_none() -> None:
    """Half a millisecond is a gap where a tick is a microsecond, and no gap where it is a millisecond."""
    table = pa.table({"time": pa.array([0], pa.timestamp("us")), "gap": pa.array([500], pa.duration("us"))})
    for tick, bad in (("1 ms", 1), ("1 us", 0)):
        operator = SessionWindows(gap_column="gap", tick=tick).aggregate(n=agg.count())
        with operator.local_runner("time") as running:
            assert 1 - bad == running.process(table, 10**9).num_rows
            assert bad == running.counters.bad


def test_ticks_of_a_microsecond() -> None:
    """Two events a gap of microseconds apart are one session, one microsecond more and they are two."""
    with runner("on_close", "5 us", tick="1 us") as running:
        assert [(0, 10, "ab"), (11, 16, "c")] == feed(running, 100, a=0, b=5, c=11)


def test_max_length_cuts_what_never_pauses() -> None:
    """The record that would make a session longer than 10 begins the next one; their windows overlap by the gap."""
    #            0    4    8   11   15   19   23
    #            a    b    c    d    e    f    g
    # [ 0,13]    a....b....c.....
    # [11,24]                   d....e....f.....
    # [23,28]                                  g....
    with runner("on_close", max_length=10) as running:
        windows = feed(running, 100, a=0, b=4, c=8, d=11, e=15, f=19, g=23)

    assert [(0, 13, "abc"), (11, 24, "def"), (23, 28, "g")] == windows


def test_max_length_is_from_first_event_to_last() -> None:
    """A record exactly that long after the first is still in; events of one time are never parted."""
    with runner("on_close", max_length=10) as running:
        windows = feed(running, 100, a=0, b=5, c=10, d=10, e=11)
    with runner("on_close", max_length=0) as running:
        ties = feed(running, 100, a=3, b=3, c=4)

    assert [(0, 15, "abcd"), (11, 16, "e")] == windows
    assert [(3, 8, "ab"), (4, 9, "c")] == ties


def test_a_record_out_of_order_moves_the_cuts_of_max_length() -> None:
    """Sessions are those of a walk in order of time: all whose bounds move are taken back."""
    #            0    4    8   12   16
    #            z    a    b    c    d
    # [ 4,17]         a....b....c.....
    # [16,21]                        d....
    # [ 0,13]    z....a....b.....            after z
    # [12,21]                   c....d....
    with runner("on_update", max_length=10, grace=100) as running:
        assert [(4, 17, "abc"), (16, 21, "d")] == feed(running, a=4, b=8, c=12, d=16)
        moved = [(0, 13, "zab"), (4, 17, None), (12, 21, "cd"), (16, 21, None)]
        assert moved == feed(running, z=0)


def test_with_max_length_a_session_can_change_and_keep_its_bounds() -> None:
    """Then it is not taken back; and sessions that a record leaves alone are not emitted."""
    with runner("on_update", max_length=10, grace=100) as running:
        assert [(0, 13, "abc"), (11, 16, "d")] == feed(running, a=0, b=4, c=8, d=11)
        assert [(0, 13, "aebc")] == feed(running, e=2)


def test_with_max_length_a_record_is_late_once_its_own_session_has_closed() -> None:
    """It may not rely on others to carry it: which would, depends on the cuts."""
    with runner("on_update", max_length=10) as running:
        feed(running, a=16, b=20)
        assert [] == feed(running, c=14)
        assert [(15, 25, "dab"), (16, 25, None)] == feed(running, d=15)
        assert 1 == running.counters.late


def test_with_max_length_a_record_can_cut_off_a_session_that_ended_long_ago() -> None:
    """If each record has its own gap: so the end of such sessions cannot be the event time of a later operator."""
    #           -1 0                 10         50     close time 50
    #              a                  c
    # [ 0,100]     a..................c..........|..   waits for the gap of a
    # [-1,100]   b a.............................|..   b begins it earlier: c is beyond its greatest length
    # [10, 11]                        c.         |
    with runner("on_close", None, gap_column="gap", max_length=10) as running:
        assert [] == feed(running, 50, a=(0, 100), c=(10, 1))
        assert [(10, 11, "c")] == feed(running, 50, b=(-1, 60))
        assert [(-1, 100, "ba")] == feed(running, 101)


def test_with_max_length_a_late_record_leaves_nothing_to_another_one_of_its_time() -> None:
    """Of two records of one time, each with its own gap, one may be late alone: no aggregate gets its value."""
    aggregates = {
        "n": agg.count(),
        "total": agg.sum("v"),
        "low": agg.min("v"),
        "listed": agg.collect_list("v"),
        "first": agg.first("v"),
        "top": agg.top_n("v", 2),
        "folded": agg.fold(0, lambda total, v: total + v, "v", type="bigint", merge=lambda a, b: a + b),
    }
    operator = SessionWindows(gap_column="gap", max_length=3, grace=2).aggregate(**aggregates)

    def batch(*records: tuple[int, int, int]) -> pa.Table:
        columns = (pa.array(column, pa.int64()) for column in zip(*records, strict=True))
        return pa.table(list(columns), ["time", "gap", "v"])

    for one, other in ((1_000, 3), (3, 1_000)):
        with operator.local_runner("time") as running:
            assert 0 == running.process(batch((1_000, 5, 0))).num_rows
            [row] = running.process(batch((996, 1, one), (996, 2, other)), stream_time=1_001).to_pylist()
            assert 1 == running.counters.late
        assert (1, other, other, [other], other, [other], other) == tuple(row[name] for name in aggregates)


def test_times_before_the_epoch() -> None:
    """Negative times are times like any other."""
    with runner("on_close") as running:
        assert [(-12, -3, "ab"), (-2, 3, "c")] == feed(running, 100, a=-12, b=-8, c=-2)


def test_sessions_far_apart_and_gaps_of_ages() -> None:
    """Thousands of years between sessions, or within one, cost nothing and overflow nothing."""
    age = 2**58
    with runner("on_close") as running:
        assert [(-age, 5 - age, "a"), (0, 5, "b"), (age, age + 5, "c")] == feed(
            running, 2**60, a=-age, b=0, c=age
        )
    with runner("on_close", age, max_length=age) as running:
        assert [(-age, age, "ab"), (age, 2 * age, "c")] == feed(running, 2**60, a=-age, b=0, c=age)


def test_state_is_what_is_open() -> None:
    """A session that has closed leaves nothing behind; on update its segment goes with the last session in it."""
    for emit in ("on_close", "on_update"):
        with runner(emit, max_length=7) as running:
            feed(running, a=0, b=4, c=8)
            assert not running.store.is_empty()
            feed(running, 10**6)
            assert running.store.is_empty()


@pytest.mark.slow
def test_timers_of_a_session_that_goes_on_and_on_stay_few() -> None:
    """A session that every batch extends has a timer or two, however many batches there were."""
    operator = SessionWindows("1 minute", grace="10 minutes").group_by("key").aggregate(n=agg.count())
    longest = 0
    with operator.local_runner("time") as running:
        for batch in range(300):
            times = [batch * 30_000 - back for back in (0, 400_000)]
            running.process(pa.table({"key": ["a", "b"], "time": times}))
            longest = max(longest, len(running._operator.engine.state.timers.queue))

    assert longest <= 2 * 16


def test_results_can_be_null_only_if_sessions_can_be_taken_back() -> None:
    """On update every aggregate is nullable, since retractions hold none; on close a count is not."""
    nullable = {}
    for emit in ("on_close", "on_update"):
        operator = SessionWindows(5).group_by("key").aggregate(n=agg.count(), v=agg.sum("v")).emit(emit)
        with operator.local_runner("time") as running:
            schema = running.process(pa.table({"key": ["a"], "time": [1], "v": [1]})).schema
        nullable[emit] = [field.name for field in schema if field.nullable]

    assert {"on_close": ["key", "v"], "on_update": ["key", "n", "v"]} == nullable


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "SessionWindows need either gap or gap_column"),
        ({"gap": 5, "gap_column": "gap"}, "SessionWindows need either gap or gap_column"),
        ({"gap": "-1 s"}, "gap is '-1 s': it must not be negative"),
        ({"gap": timedelta(-1)}, "gap is .*: it must not be negative"),
        ({"gap": "soon"}, "gap is 'soon': write a number and a unit, such as '60 minutes'"),
        ({"gap": True}, "gap is True: give text such as"),
        ({"gap": 1.5}, r"gap is 1\.5: give text such as"),
        ({"gap": "1 us"}, "gap is '1 us', which is not a whole number of ticks .* choose tick='1 us'"),
        ({"gap": 2**59}, "gap 5764.* is too long: times would overflow 64 bits"),
        ({"gap": pa.scalar(5)}, "gap is <pyarrow.*>: give text such as"),
        (
            {"gap_column": 3},
            "gap_column must be the name of a column, not 3; a Spark expression goes into gap",
        ),
        ({"gap": 5, "grace": -1}, "grace is -1: it must not be negative"),
        ({"gap": 5, "max_length": -1}, "max_length is -1: it must not be negative"),
        ({"gap": 5, "max_length": "long"}, "max_length is 'long': write a number and a unit"),
        ({"gap": 5, "max_length": False}, "max_length is False: give text such as"),
        ({"gap": 5, "tick": "1 s"}, "tick is '1 s'; known are '1 ms', '1 us'"),
    ],
    ids=str,
)
def test_wrong_definitions_are_refused(arguments: dict[str, Any], message: str) -> None:
    """Lengths are checked when the windows are defined."""
    with pytest.raises(DefinitionError, match=message):
        SessionWindows(**arguments)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("gpa", "gap column 'gpa' does not exist; the frame has the columns time, letter, wait"),
        (
            "letter",
            "gap column 'letter' is of type string; gaps must be durations or whole milliseconds: cast it first",
        ),
        ("wait", "gap column 'wait' is of type double; gaps must be durations"),
        ("time", "gap column 'time' is of type timestamp.*; gaps must be durations"),
    ],
)
def test_wrong_gap_columns_are_refused(column: str, message: str) -> None:
    """A gap column is checked when the first table comes, even an empty one."""
    schema = pa.schema([("time", pa.timestamp("ms")), ("letter", pa.string()), ("wait", pa.float64())])
    operator = SessionWindows(gap_column=column).aggregate(n=agg.count())
    with operator.local_runner("time") as running, pytest.raises(DefinitionError, match=message):
        running.process(schema.empty_table())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (SessionWindows(6), "gap was 5 ms, is 6 ms"),
        (SessionWindows(gap_column="gap"), "gap was 5 ms, is of each record"),
        (SessionWindows(5, max_length=9), "max_length was none, is 9 ms"),
        (TumblingWindows(5), "windows were session, are tumbling"),
    ],
    ids=str,
)
def test_state_of_other_windows_is_refused(other: Any, message: str, tmp_path: Path) -> None:
    """State goes on only under the definition that wrote it; the message says what differs."""
    with runner("on_close", directory=tmp_path) as running:
        feed(running, a=0)
    with (
        other.aggregate(**LETTERS).local_runner("time", directory=tmp_path) as running,
        pytest.raises(StateError, match=f"the state of another operator: .*{message}"),
    ):
        feed(running, a=0)


def test_grace_may_change(tmp_path: Path) -> None:
    """Grace is no part of what is stored: with a longer one, the same state goes on."""
    with runner("on_close", directory=tmp_path) as running:
        feed(running, a=0)
    with runner("on_close", grace=10, directory=tmp_path) as running:
        assert [] == feed(running, 15)
        assert [(0, 5, "a")] == feed(running, 16)


def test_definitions_are_values() -> None:
    """Equal if they mean the same arguments, and frozen."""
    assert SessionWindows("5 ms") == SessionWindows("5 ms")
    windows = SessionWindows("5 ms")
    assert (5, 0, None) == (windows.gap_ticks, windows.grace_ticks, windows.max_length_ticks)
    with pytest.raises(AttributeError):
        windows.gap = 6  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("count", [200, 203])
@pytest.mark.parametrize("longest", [None, 0, 40])
def test_a_bounded_run_of_many_small_steps_is_one_of_a_single_step(longest: int | None, count: int) -> None:
    """A key with more rows than a step takes is a stream in order of time, with the sessions of the whole."""
    chance, schema = random.Random(5), pa.schema([(name, pa.int64()) for name in ("key", "time", "gap")])
    draw = [
        (key, chance.randrange(900), chance.choice([None, 1, 2, 3, 60]))
        for key in range(3)
        for _ in range(count)
    ]
    columns = zip(*sorted(draw, key=lambda row: row[:2]), strict=True)
    table = pa.table([pa.array(column, pa.int64()) for column in columns], schema)
    windows = SessionWindows(gap_column="gap", max_length=longest).group_by("key")
    binding = windows.aggregate(n=agg.count(), low=agg.min("time")).bind(schema, "time", resolve("memory"))
    runs = []
    for rows in (7, 100_000):
        order = [
            (key << 43) + 2**42 + (time * 1_000 >> 10)
            for key, time, _ in sorted(draw, key=lambda row: row[:2])
        ]
        batches = (
            table.select(binding.inputs.names)
            .append_column("order", pa.array(order))
            .to_batches(max_chunksize=5)
        )
        emitted = pa.Table.from_batches(
            bounded.BoundedRun(binding, bounded.InputRows(binding), "sessions", rows)(batches)
        )
        results = (emitted[name].to_pylist() for name in ("key", "n", "low"))
        runs.append(sorted(zip(bounds(emitted), *results, strict=True)))

    assert runs[0] == runs[1]
    assert 30 < len(runs[0])
