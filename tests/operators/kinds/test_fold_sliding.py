"""KIP-450 by folds, by example: what the store holds after each batch.

A record is a letter at an event time; windows are 10 ms long. A timeline shows the records, and below them the entries
of the store: the end of each and what it holds, in the order of arrival. Those in brackets are no windows.
"""

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import SlidingOracle, StreamClock

from operators import SlidingWindows
from operators import aggregates as agg
from operators.engines.fold_engine import FoldPlan
from operators.kinds.fold_sliding import FoldedSliding
from operators.kinds.folding import positions
from operators.runtime.binding import Binding
from operators.runtime.local import LocalRunner
from state_backends import StateConfig, resolve

SIZE = 10
FOR_EVER = 10**9
LETTERS = agg.fold("", lambda letters, letter: letters + letter, "letter", type="string")
Entry = tuple[int, str]


def runner(emit: str, grace: int = FOR_EVER, segment: str = "1 ms") -> LocalRunner:
    """A runner over all records as one group; short segments let nothing live longer than it must."""
    operator = SlidingWindows(size=SIZE, grace=grace).aggregate(letters=LETTERS).emit(emit)

    def bind(schema: pa.Schema, config: StateConfig) -> Binding:
        binding = operator.bind(schema, "time", config)
        plan = FoldPlan(FoldedSliding(SIZE), emit == "on_update", binding.output.operations)
        return replace(binding, plan=plan)

    return LocalRunner(bind, resolve("memory", {"state.segment": segment}), None)


def feed(running: LocalRunner, stream_time: Any = None, **records: int) -> list[Entry]:
    """Take one batch of letters and their times, and return the ends and contents of what is emitted."""
    columns = pa.array(records.values(), pa.int64()), pa.array(list(records), pa.string())
    emitted = running.process(pa.table(columns, ["time", "letter"]), stream_time)
    end = emitted.column("window").combine_chunks().field("end").cast(pa.int64()).to_pylist()
    return sorted(zip(end, emitted.column("letters").to_pylist(), strict=True))


def stored(running: LocalRunner) -> list[Entry]:
    """The entries of the store: those that are no windows have brackets around what they hold."""
    operation = running._operator.binding.output.operations[0]
    found = []
    for _, entries in running.store.scan():
        for end, latest, window, packed in zip(*(c.tolist() for c in entries.columns), strict=True):
            letters = operation.result(packed)
            assert end - SIZE <= latest <= end
            found.append((end, letters if window else f"({letters})"))
    return sorted(found)


def test_each_record_makes_a_left_and_a_right_window() -> None:
    """New windows begin as the window before them; those that hold the record get it, in the order of arrival."""
    with runner("on_close") as running:
        #    0        a
        #    0 ..a
        feed(running, a=0)
        assert [(0, "a")] == stored(running)
        #    0     5           11
        #    a     b
        #    5 ..a.....b
        #   11    .....b......       right of a
        feed(running, b=5)
        assert [(0, "a"), (5, "ab"), (11, "b")] == stored(running)
        #    0   3 5           11 14
        #    a   c b
        #    3 ..a...c
        #    5 ..a...c.b
        #   11    ...c.b......
        #   14         b.........    right of c, begins as 11 was
        feed(running, c=3)
        assert [(0, "a"), (3, "ac"), (5, "abc"), (11, "bc"), (14, "b")] == stored(running)


def test_right_window_that_was_empty_comes_to_be_with_a_later_record() -> None:
    """The right window of the record before it is made when a record falls in it. (KIP-450)"""
    #    0        9  11       20
    #    a        c            b
    #    9 ..a........c
    #   11    ........c..          right of a
    #   20            ..........b  left of b, and right of c
    with runner("on_close") as running:
        feed(running, a=0)
        feed(running, b=20)
        assert [(0, "a"), (20, "b")] == stored(running)
        feed(running, c=9)
        assert [(0, "a"), (9, "ac"), (11, "c"), (20, "b")] == stored(running)


def test_records_of_one_batch_are_added_in_order_of_event_time() -> None:
    """So does a window that is updated, and one that is new with the batch."""
    with runner("on_update") as running:
        assert [(2, "b"), (4, "bc"), (9, "bca"), (13, "ca"), (15, "a")] == feed(running, a=9, b=2, c=4)
        assert [(3, "be"), (4, "bced"), (9, "bcaed"), (13, "caed"), (14, "cad")] == feed(running, d=4, e=3)


def test_partly_late_record_is_kept_for_windows_to_come() -> None:
    """It counts from the close time on, where no window ends: the entry there is none, and is never emitted."""
    #            8    12    15   17   20      close time 20 - 5
    #            b     c           d    a
    with runner("on_update", grace=5) as running:
        feed(running, a=20)
        assert [] == feed(running, b=8)
        assert [(15, "(b)"), (20, "a")] == stored(running)
        assert [(19, "c"), (20, "ac"), (23, "a")] == feed(running, c=12)
        assert [(15, "(bc)"), (19, "c"), (20, "ac"), (23, "a")] == stored(running)
        assert [(17, "bcd"), (19, "cd"), (20, "acd"), (23, "ad"), (28, "a")] == feed(running, d=17)


def test_window_that_is_closed_when_its_record_arrives_does_not_come_to_be() -> None:
    """On close as on update, the left window of a partly late record is neither stored nor emitted."""
    #            2        7          13      close time 13
    with runner("on_close", grace=0) as running:
        feed(running, a=2)
        assert [(2, "a")] == feed(running, b=13)
        assert [] == feed(running, c=7)
        assert [(2, "a"), (13, "bc"), (18, "b")] == stored(running)
        assert [(13, "bc"), (18, "b")] == feed(running, 100)
        assert 0 == running.counters.late


@pytest.mark.parametrize("emit", ["on_update", "on_close"])
def test_store_holds_what_can_still_matter_and_no_more(emit: str) -> None:
    """An entry matters until its right window is closed."""
    with runner(emit, grace=0) as running:
        feed(running, a=0)
        feed(running, stream_time=SIZE + 1)
        assert [(0, "a")] == stored(running)
        feed(running, stream_time=SIZE + 2)
        assert running.store.is_empty()


@pytest.mark.parametrize("emit", ["on_update", "on_close"])
def test_a_page_that_is_written_again_is_rid_of_what_is_dead(emit: str) -> None:
    """A segment that still has live entries keeps no others of the keys that a batch touches."""
    with runner(emit, grace=0, segment="1 minute") as running:
        feed(running, a=0)
        feed(running, b=100)
        assert [(100, "b")] == stored(running)


def test_right_window_that_closes_next_still_comes_to_be() -> None:
    """At close time 11 the record at 0 is in no open window, but its right window ends then: a record makes it one."""
    #    0        5       11
    #    a        b
    #   11    ....b........         right of a
    with runner("on_update", grace=0) as running:
        feed(running, 11, a=0)
        assert [(11, "b")] == feed(running, b=5)


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(-30, 30), max_size=5), max_size=8))
def test_entries_are_the_windows_while_none_has_closed(batches: list[list[int]]) -> None:
    """Without partly late records the store holds one entry per window, no more and no fewer."""
    clock, oracle = StreamClock(FOR_EVER), SlidingOracle(SIZE, "on_update")
    with runner("on_update") as running:
        for times in batches:
            letters = {chr(ord("a") + n): time for n, time in enumerate(times)}
            feed(running, **letters)
            oracle.step(clock.batch([(None, time, letter) for letter, time in letters.items()]))
            assert sorted(oracle._ends(None) if oracle._records else []) == [
                end for end, _ in stored(running)
            ]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3))),
    st.lists(st.tuples(st.integers(0, 3), st.integers(-4, 4))),
)
def test_positions_are_those_of_a_binary_search(
    rows: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    """Pairs of key and time are found among sorted ones, left and right of equal ones."""
    rows = sorted(rows)
    key, time = np.array(rows, np.int64).reshape(-1, 2).T
    at_key, at_time = np.array(asked, np.int64).reshape(-1, 2).T

    assert [bisect_left(rows, pair) for pair in asked] == positions(
        key, time, at_key, at_time, "left"
    ).tolist()
    assert [bisect_right(rows, pair) for pair in asked] == positions(
        key, time, at_key, at_time, "right"
    ).tolist()
