"""Record-driven sliding windows by example: what is emitted, when, and which records are late.

A record is a letter at an event time. A timeline shows the records, and below them each window with what it holds.
"""

from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from operators import SlidingWindows
from operators import aggregates as agg
from operators.runtime.local import LocalRunner

Emitted = tuple[int, int, str]
"""Start and end of a window, and the letters of its records in order of event time."""


def runner(emit: str, grace: int = 0, segment: str = "1 minute") -> LocalRunner:
    """A runner of windows of 10 ms over all records as one group."""
    operator = SlidingWindows(size=10, grace=grace).aggregate(letters=agg.collect_list("letter")).emit(emit)
    return operator.local_runner("time", options={"state.segment": segment})


def feed(running: LocalRunner, stream_time: Any = None, **records: int | None) -> list[Emitted]:
    """Take one batch of records, each a letter and its time, and return what is emitted in order of the bounds."""
    table = pa.table(
        {
            "time": pa.array(records.values(), pa.int64()),
            "letter": pa.array([name[0] for name in records], pa.string()),
        }
    )
    emitted = running.process(table, stream_time)
    window = emitted.column("window").combine_chunks()
    start, end = (window.field(name).cast(pa.int64()).to_pylist() for name in ("start", "end"))
    return sorted(zip(start, end, map("".join, emitted.column("letters").to_pylist()), strict=True))


def live_panes(running: LocalRunner) -> int:
    """How many panes the store has."""
    return sum(len(entries) for _, entries in running.store.scan())


def test_figure_of_the_kafka_proposal() -> None:
    """Each record has the left window that ends with it, and a right one after it if any record is there. (KIP-450)"""
    #           10       14 15            20    22                      30
    #            ab       c  d             e     f                       g
    # [ 0, 10] ..ab
    # [ 4, 14] ..ab.......c                                                  left of c
    # [ 5, 15] ..ab.......c..d                                               left of d
    # [10, 20]   ab.......c..d.............e                                 left of e
    # [11, 21]     .......c..d.............e...                              right of a and b
    # [12, 22]        ....c..d.............e.....f                           left of f
    # [15, 25]              .d.............e.....f.........                  right of c
    # [16, 26]                .............e.....f............               right of d
    # [20, 30]                             e.....f.......................g   left of g
    # [21, 31]                              .....f.......................g   right of e
    # [23, 33]                                    .......................g   right of f
    windows = [
        (0, 10, "ab"), (4, 14, "abc"), (5, 15, "abcd"), (10, 20, "abcde"), (11, 21, "cde"), (12, 22, "cdef"),
        (15, 25, "def"), (16, 26, "ef"), (20, 30, "efg"), (21, 31, "fg"), (23, 33, "g"),
    ]  # fmt: skip
    with runner("on_close") as running:
        assert windows == feed(running, 1000, a=10, b=10, c=14, d=15, e=20, f=22, g=30)


def test_on_close_each_window_comes_once_when_stream_time_has_passed_its_end() -> None:
    """A window is emitted by the first record beyond its end, and never again."""
    #            0     5       10 11          16
    #            a     b        |  c           d
    # [-10, 0] ..a
    # [ -5, 5] ..a.....b
    # [  1,11]    .....b...........c               left of c and right of a at once
    # [  6,16]          ...........c...........d   left of d and right of b at once
    # [ 12,22]                      ...........d
    with runner("on_close") as running:
        assert [] == feed(running, a=0)
        assert [(-10, 0, "a")] == feed(running, b=5)
        assert [(-5, 5, "ab")] == feed(running, c=11)
        assert [(1, 11, "bc")] == feed(running, d=16)
        assert [(6, 16, "cd"), (12, 22, "d")] == feed(running, stream_time=23)


def test_on_update_each_changed_window_comes_with_its_value_after_the_batch() -> None:
    """A batch emits the windows that it changed or created, each once, whether closed by then or not."""
    #            0     5          11
    #            a     b           c
    # [-10, 0] ..a                       first batch
    # [ -5, 5] ..a.....b                 second batch
    # [  1,11]    .....b...........c     second batch, and the third with another value
    # [  6,16]          ...........c...  third batch
    with runner("on_update") as running:
        assert [(-10, 0, "a")] == feed(running, a=0)
        assert [(-5, 5, "ab"), (1, 11, "b")] == feed(running, b=5)
        assert [(1, 11, "bc"), (6, 16, "c")] == feed(running, c=11)
        assert [] == feed(running, stream_time=100)


def test_rows_on_update_say_that_they_are_updates() -> None:
    """On update there is a column `change`."""
    operator = SlidingWindows(size=10).aggregate(n=agg.count()).emit("on_update")
    with operator.local_runner("time") as running:
        emitted = running.process(pa.table({"time": [1, 2]}))

    assert ["update"] * 3 == emitted.column("change").to_pylist()


def test_panes_are_kept_until_their_right_window_is_closed() -> None:
    """One size and a tick back, however short segments are."""
    #            89             100
    #            a          c    b       closes the windows that end before 100
    # [ 90,100]   ..........c....b       right of a, and left of b
    with runner("on_close", segment="1 ms") as running:
        feed(running, a=89, b=100)
        assert 2 == live_panes(running)
        assert [] == feed(running, c=95)
        assert [(90, 100, "cb")] == feed(running, stream_time=101)
        assert 2 == live_panes(running)


def test_grace_keeps_a_window_open() -> None:
    """With a grace of 5, a window [0, 10] is closed when stream time is past 15, not at 15."""
    with runner("on_close", grace=5) as running:
        assert [] == feed(running, a=10)
        assert [] == feed(running, b=15)
        assert [] == feed(running, c=10)
        assert [(0, 10, "ac")] == feed(running, d=16)


def test_late_record_is_counted_and_changes_nothing() -> None:
    """A record is late when even its right window is closed: at stream time 30, before 20."""
    #       19 20         30
    #        b  c          a     close time 30
    # [20,30]   c..........a     still open, is the right window of b, too, but b is not in it
    with runner("on_update") as running:
        feed(running, a=30)
        assert [] == feed(running, b=19)
        assert 1 == running.counters.late
        assert [(20, 30, "ca"), (21, 31, "a")] == feed(running, c=20)
        assert 1 == running.counters.late


def test_partly_late_record_counts_in_its_open_windows() -> None:
    """A record whose left window is closed counts in every window that is open, also in one that comes to exist later."""
    #            8    12          17   20
    #            b     c           d    a     close time 20 - 5
    # [-2, 8]  ..b                            closed: never with b
    # [ 9,19]     .....c...........d..        right of b
    # [ 7,17]  ..b.....c...........d          comes to exist with d, holds b
    with runner("on_update", grace=5) as running:
        assert [(10, 20, "a")] == feed(running, a=20)
        assert [] == feed(running, b=8)
        assert [(9, 19, "c"), (10, 20, "ca"), (13, 23, "a")] == feed(running, c=12)
        assert [(7, 17, "bcd"), (9, 19, "cd"), (10, 20, "cda"), (13, 23, "da"), (18, 28, "a")] == feed(
            running, d=17
        )
        assert 0 == running.counters.late


@pytest.mark.parametrize("emit", ["on_close", "on_update"])
def test_window_that_is_closed_when_its_record_arrives_does_not_come_to_exist(emit: str) -> None:
    """The left window of a partly late record would not contain the record: as in Kafka Streams, there is none."""
    #           30   35   40
    #            a    c    b     close time 40
    # [25, 35]  .a....|          closed before c came: never emitted
    # [30, 40]   a....c....b     open
    # [31, 41]    ....c....b...  right of a
    # [36, 46]         ....b...  right of c
    with runner(emit) as running:
        emitted = [*feed(running, a=30), *feed(running, b=40), *feed(running, c=35)]
        emitted += feed(running, stream_time=100)

    last = {(start, end): letters for start, end, letters in emitted}
    assert {(20, 30): "a", (30, 40): "acb", (31, 41): "cb", (36, 46): "b"} == last
    assert (4 if emit == "on_close" else 6, 0) == (len(emitted), running.counters.late)


def test_window_that_was_emitted_stays_when_a_record_arrives_at_its_end() -> None:
    """The right window of a record has the bounds of a left window of a partly late one: it is one, and comes once."""
    #        0        7    11   14
    #        a        b    c    d     close time 14
    # [1,11]   .......b....|          right of a: emitted before c came
    with runner("on_close") as running:
        assert [(-10, 0, "a"), (-3, 7, "ab")] == feed(running, a=0, b=7, stream_time=11)
        assert [(1, 11, "b")] == feed(running, d=14)
        assert [(4, 14, "bcd"), (8, 18, "cd"), (12, 22, "d")] == feed(running, 100, c=11)


def test_close_time_before_a_batch_decides_which_windows_come_to_exist() -> None:
    """Records of one batch are in each other's windows, whatever their order: only earlier batches have closed any."""
    #           30   35   40
    #            a    c    b     close time 30 before the batch of b and c
    # [25, 35]  .a....c
    with runner("on_close") as running:
        assert [] == feed(running, a=30)
        assert [(20, 30, "a"), (25, 35, "ac")] == feed(running, b=40, c=35)


def test_values_of_one_time_are_sorted_whenever_they_came() -> None:
    """A collected list is sorted by time, then by value, also if a value came before the close time, and one after it."""
    #        0        7
    #       z a       c     z came at close time -inf, a at 5
    # [-3, 7]   az....c
    with runner("on_close") as running:
        assert [] == feed(running, stream_time=-20, z=0)
        assert [(-10, 0, "z")] == feed(running, stream_time=5)
        assert [] == feed(running, stream_time=6, a=0, c=7)
        assert [(-3, 7, "azc"), (1, 11, "c")] == feed(running, stream_time=12)


@pytest.mark.parametrize("segment", ["1 ms", "5 ms", "1 minute"])
def test_on_update_a_window_that_did_not_change_is_not_emitted(segment: str) -> None:
    """The right window of a new record is not news if it is an older record's left window, however state is cut."""
    #            0    5       11
    #            c    a        b
    # [ 1,11]     ....a........b     left of b, and now right of c: unchanged
    with runner("on_update", grace=20, segment=segment) as running:
        feed(running, a=5, b=11)
        assert [(-10, 0, "c"), (-5, 5, "ca")] == feed(running, c=0)


def test_backlog_in_one_batch_makes_nothing_late() -> None:
    """Lateness is judged by earlier batches: within a batch order is of no account, whatever it spans."""
    with runner("on_close") as running:
        windows = feed(running, a=1_000_000, b=0)

    assert ([(-10, 0, "b")], 0) == (windows, running.counters.late)


def test_stream_time_is_that_of_all_keys() -> None:
    """A record of one key closes windows of another."""
    operator = SlidingWindows(size=10).group_by("key").aggregate(n=agg.count())
    with operator.local_runner("time") as running:
        running.process(pa.table({"key": ["quiet"], "time": [0]}))
        emitted = running.process(pa.table({"key": ["busy"], "time": [100]}))

    assert (["quiet"], [1]) == (emitted.column("key").to_pylist(), emitted.column("n").to_pylist())


@pytest.mark.parametrize(
    "moment",
    [
        11,
        datetime(1970, 1, 1, 0, 0, 0, 11_000),
        datetime(1970, 1, 1, 0, 0, 0, 11_999, tzinfo=timezone.utc),
        datetime(1970, 1, 1, 1, 0, 0, 11_000, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_stream_time_can_be_given(moment: int | datetime) -> None:
    """Stream time is given in ticks or as a datetime, in UTC if it has no zone, and floored to ticks."""
    with runner("on_close") as running:
        assert [] == feed(running, stream_time=0, a=10)
        assert [(0, 10, "a")] == feed(running, stream_time=moment)


def test_given_stream_time_can_lag_and_never_goes_back() -> None:
    """Windows stay open while stream time lags behind the records, and once closed they stay closed."""
    with runner("on_close") as running:
        assert [] == feed(running, stream_time=5, a=10, b=50)
        assert [] == feed(running, stream_time=5, c=10)
        assert [(0, 10, "ac")] == feed(running, stream_time=40)
        assert [] == feed(running, stream_time=5, d=10)
        assert [] == feed(running, stream_time=5, e=29)
        assert 2 == running.counters.late


def test_without_a_given_stream_time_it_is_the_highest_event_time_of_all_batches() -> None:
    """A batch that gave no stream time goes by the highest event time, also of batches that gave a lower one."""
    with runner("on_close") as running:
        assert [] == feed(running, stream_time=0, a=10, b=50)
        assert [(0, 10, "a")] == feed(running)


def test_windows_may_begin_before_the_epoch() -> None:
    """Negative times are times like any other."""
    #           -15        -7
    #             a         b
    # [-25,-15] ..a
    # [-17, -7] ..a.........b
    # [-14, -4]    .........b...
    with runner("on_close") as running:
        windows = feed(running, stream_time=-3, a=-15, b=-7)

    assert [(-25, -15, "a"), (-17, -7, "ab"), (-14, -4, "b")] == windows


@pytest.mark.parametrize("time", [None, 2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_null_or_absurd_event_time_is_counted_as_bad(time: int | None) -> None:
    """A record without a time, or with one beyond 2**60 ticks, is left out, is not late, and moves no stream time."""
    with runner("on_close") as running:
        assert [] == feed(running, a=10, b=time)
        assert (2, 1, 0) == (running.counters.rows, running.counters.bad, running.counters.late)
        assert [(0, 10, "a")] == feed(running, stream_time=100)


def test_empty_batches_emit_nothing_of_their_own() -> None:
    """An empty batch is a batch: also the first, and it lets windows close."""
    with runner("on_close") as running:
        assert [] == feed(running)
        assert [] == feed(running, a=10)
        assert [] == feed(running)
        assert [(0, 10, "a")] == feed(running, stream_time=11)
        assert 1 == running.counters.rows


def test_counters_add_up_over_batches() -> None:
    """Rows, late and bad rows and emitted windows are counted since the runner was made."""
    with runner("on_close") as running:
        feed(running, a=10, b=None)
        feed(running, c=100, d=95)
        feed(running, e=0, f=1)
        counters = running.counters

    assert (6, 2, 1, 2) == (counters.rows, counters.late, counters.bad, counters.windows)
