"""Two local runners in a row: the rows of the first one's operator, then of the second one's, on all records at once."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.runtime.local import LocalRunner
from tests.effort import examples, few

FAR = 10**12
KINDS = {
    "sliding": SlidingWindows(6, grace=4),
    "hopping": HoppingWindows(8, 4, grace=4),
    "tumbling": TumblingWindows(5, grace=4),
    "session": SessionWindows(2, grace=4),
}
FINAL = KINDS | {"session up to a length": SessionWindows(2, grace=4, max_length=5)}
RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4)), max_size=8)


def runner(kind: str, value: str) -> LocalRunner:
    operator = FINAL[kind].group_by("k").aggregate(n=agg.count(), total=agg.sum(value))
    return operator.local_runner("t")


def table(records: list[tuple[str, int]]) -> pa.Table:
    keys, times = zip(*records, strict=True) if records else ((), ())
    time = pa.array(times, pa.timestamp("ms"))
    return pa.table({"k": pa.array(keys, pa.string()), "t": time, "v": time.cast(pa.int64())})


def ended(rows: pa.Table) -> pa.Table:
    """Windows as records of the next runner: at their ends."""
    end = pc.struct_field(rows["window"], "end")
    return pa.table({"k": rows["k"], "t": end, "v": rows["n"]})


@pytest.mark.slow
@pytest.mark.parametrize("second", few(KINDS, 4))
@pytest.mark.parametrize("first", KINDS)
@given(batches=st.lists(RECORDS, min_size=1, max_size=6))
@examples(0.4)
def test_two_runners_in_a_row(first: str, second: str, batches: list[list[tuple[str, int]]]) -> None:
    """Records are up to the grace out of order; no window is late for the second runner, and none is missing."""
    steps = [[(key, 3 * number + time) for key, time in records] for number, records in enumerate(batches)]
    with runner(first, "v") as one, runner(second, "v") as two:
        found = []
        for records, stream_time in [*((records, None) for records in steps), ([], FAR), ([], 2 * FAR)]:
            rows = one.process(table(records), stream_time)
            found.append(two.process(ended(rows), stream_time=one.close_time))
            one.restart()
            two.restart()
        assert 0 == one.counters.late == two.counters.late
    with runner(first, "v") as one, runner(second, "v") as two:
        records = [record for some in steps for record in some]
        expected = two.process(ended(one.process(table(records), FAR)), FAR)
    assert sorted(map(repr, expected.to_pylist())) == sorted(map(repr, pa.concat_tables(found).to_pylist()))


@pytest.mark.slow
@pytest.mark.parametrize("first", FINAL)
@given(batches=st.lists(st.lists(st.tuples(st.just("a"), st.integers(-9, 9)), max_size=5), max_size=8))
def test_no_window_is_late_for_the_next_runner(first: str, batches: list[list[tuple[str, int]]]) -> None:
    """Not even those of records that are behind the close time, late or partly late."""
    second = TumblingWindows(1).group_by("k").aggregate(n=agg.count())
    with runner(first, "v") as one, second.local_runner("t") as two:
        for number, records in enumerate([*batches, []]):
            moved = table([(key, 4 * number + time) for key, time in records])
            rows = one.process(moved, FAR if number == len(batches) else None)
            two.process(ended(rows), stream_time=one.close_time)
        assert 0 == two.counters.late
