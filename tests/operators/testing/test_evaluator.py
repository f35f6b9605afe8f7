"""What an operator has to emit, from raw records and a window definition."""

import ast
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators import DefinitionError, HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.testing import Batch, StreamClock, assert_rows, evaluate, expected_rows, late_rows, oracles

SIZE = 10
KINDS = {
    "sliding": SlidingWindows(SIZE, grace=5),
    "hopping": HoppingWindows(SIZE, 3, offset=1),
    "tumbling": TumblingWindows(SIZE, grace=5),
    "session": SessionWindows(SIZE, grace=5),
    "session of a greatest length": SessionWindows(SIZE, max_length=12),
    "session with a gap per record": SessionWindows(gap_column="gap"),
}
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.int64()), ("gap", pa.int64()), ("v", pa.int64())])


def batch(keys: str, *times: int | None) -> pa.Table:
    """Records of keys of one letter; gaps follow from the times."""
    gaps = [None if time == 7 else 3 + abs(time or 0) % 5 for time in times]
    return pa.table(dict(zip(SCHEMA.names, (list(keys), times, gaps, times), strict=True)), SCHEMA)


@pytest.mark.parametrize("emit", ["on_close", "on_update"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_operator(kind: str, emit: str) -> None:
    """Brute force on tables comes to the rows of the local runner, batch by batch, late and bad records included."""
    windows = KINDS[kind]
    operator = windows.group_by("k").aggregate(n=agg.count(), last=agg.max("v")).emit(emit)
    steps = [
        batch("aabb", 3, 8, 4, -2),
        (batch("aab", 12, 7, None), 14),
        batch("aaab", 30, 19, 2, 16),
        (batch(""), 1_000),
    ]
    aggregates = {"n": len, "last": lambda rows: max(row["v"] for row in rows)}
    expected = expected_rows(windows, steps, "at", aggregates, ["k"], emit)

    with operator.local_runner("at") as runner:
        for step, rows in zip(steps, expected, strict=True):
            emitted = runner.process(*step) if isinstance(step, tuple) else runner.process(step)
            assert_rows(emitted, rows, windows=windows)
        assert runner.counters.late == len(late_rows(windows, steps, "at", ["k"]))
    assert any(expected)


def test_record_with_a_bad_gap_moves_stream_time() -> None:
    """A record that is in no session because of its gap is still the newest one, for the operator and by brute force."""
    windows = SessionWindows(gap_column="gap")
    table = pa.table({"k": ["a", "a"], "at": [0, 100], "gap": pa.array([3, None], pa.int64())})
    steps, aggregates = [table, table.slice(0, 1)], {"n": len}
    with windows.group_by("k").aggregate(n=agg.count()).local_runner("at") as runner:
        emitted = [runner.process(step) for step in steps]
        assert (1, 1) == (runner.counters.bad, runner.counters.late)
    assert [1, 0] == [len(rows) for rows in emitted]
    for rows, expected in zip(emitted, expected_rows(windows, steps, "at", aggregates, ["k"]), strict=True):
        assert_rows(rows, expected, windows=windows)
    assert [2] == late_rows(windows, steps, "at", ["k"])


def test_plain_records_follow_the_local_runners_clock() -> None:
    """Lists of key, time and value need no close times; a batch may have its own."""
    records = [[("a", 3, "x")], [("a", 25, "y"), ("a", 4, "z")]]
    first, second = evaluate(TumblingWindows(SIZE), records)
    alone = evaluate(TumblingWindows(SIZE), [Batch(records[0], -100, 11)])

    assert [] == first.windows
    assert [("a", 0, 10, ((3, "x"), (4, "z")))] == [
        (w.key, w.start, w.end, w.content) for w in second.windows
    ]
    assert [] == second.late
    assert [(0, 10)] == [(w.start, w.end) for w in alone[0].windows]


def test_clock_goes_by_given_stream_times() -> None:
    """Stream time that is given counts, and never goes back."""
    clock = StreamClock(grace=1)
    closes = [clock.batch([("a", 5, None)], time) for time in (None, 9, 7)]

    assert [4, 8, 8] == [batch.close_time_end for batch in closes]
    assert [4, 8] == [batch.close_time_start for batch in closes[1:]]


def test_late_rows_are_positions_in_all_batches() -> None:
    """Rows without an event time are counted on, and never late."""
    windows = TumblingWindows(SIZE)
    steps = [batch("ab", 3, None), (batch("a", 4), 25), batch("aab", 26, 9, 2)]

    assert [4, 5] == late_rows(windows, steps, "at", ["k"])


def test_all_nan_are_one_key() -> None:
    """As for the operators, NaN is one value of a key."""
    table = pa.table({"k": [float("nan"), float("nan")], "at": [1, 2]})
    rows = expected_rows(TumblingWindows(SIZE), [(table, 10)], "at", {"n": len}, ["k"])

    assert [2] == [row["n"] for row in rows[0]]


@pytest.mark.parametrize(
    ("windows", "emit", "message"),
    [
        (
            SlidingWindows(SIZE),
            "always",
            "emit must be 'on_close' or 'on_update', not 'always'",
        ),
        (SessionWindows(gap_column="gap"), "on_close", "give gap="),
        ("hourly", "on_close", "'hourly' has no oracle: use SlidingWindows, "),
    ],
)
def test_what_has_no_oracle_is_refused(windows: Any, emit: str, message: str) -> None:
    """Unknown policies, sessions without a gap and other windows are errors that say what is known."""
    with pytest.raises(DefinitionError, match=message):
        evaluate(windows, [], emit)


def test_a_gap_for_each_record_can_be_a_function() -> None:
    """Records that are no rows of a table have their gaps from a function."""
    outputs = evaluate(
        SessionWindows(gap_column="gap"), [[("a", 0, 4), ("a", 5, 2)]], "on_update", lambda r: r[2]
    )

    assert [(0, 4), (5, 7)] == [(w.start, w.end) for w in outputs[0].windows]


def test_oracles_use_none_of_the_operators_code() -> None:
    """The oracles share no code with the operators: their module imports only the standard library."""
    tree = ast.parse(Path(oracles.__file__).read_text())
    froms = {
        str(node.module).partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    names = {
        a.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for a in node.names
    }

    assert froms
    assert (froms | names) <= sys.stdlib_module_names
