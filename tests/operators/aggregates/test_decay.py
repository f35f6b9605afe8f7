"""Decayed counts, sums and means: what plain Python makes of the records at the end of each window."""

import math
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import Case, Row, finished, stored
from hypothesis import given
from hypothesis import strategies as st

from operators import (
    DefinitionError,
    HoppingWindows,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from operators.aggregates.definitions import Aggregate
from tests.effort import examples

HOUR = 3_600_000
VALUES = st.integers(-4_000, 4_000).map(lambda units: units / 4)


def weight(age: int, half_life: int) -> float:
    """What a record of that age weighs."""
    return math.ldexp(2.0 ** -((age % half_life) / half_life), max(-(age // half_life), -5_000))


def at_end(aggregate: Aggregate, panes: list[list[Row]], end: int) -> Any:
    """The result of a window over all panes that ends then, from states that were stored and merged."""
    case = Case(aggregate.in_ticks(1_000), pa.float64(), VALUES, len)
    operations = case.bound.operations
    states = stored(operations, case.states(panes))
    whole = np.array([0]), np.array([len(panes)])
    result = case.bound.finish(
        [op.combine_ranges(state, *whole) for op, state in zip(operations, states, strict=True)]
    )
    found = result if case.bound.at_end is None else case.bound.at_end(result, np.array([end]))
    assert case.bound.type == found.type
    return found.to_pylist()[0]


@examples(0.5)
@given(
    st.lists(st.lists(st.none() | VALUES, min_size=1, max_size=3), min_size=1, max_size=8),
    st.integers(1, 10**6),
    st.integers(0, 10**7),
    st.integers(-(10**12), 10**12),
)
def test_sums_are_those_of_plain_python(
    panes: list[list[Any]], half_life: int, later: int, first: int
) -> None:
    """However records are divided into panes, for any half-life, also where all is long past."""
    times = [first + 1_000 * n for n in range(len(panes))]
    rows = [[Row(time, value) for value in values] for time, values in zip(times, panes, strict=True)]
    end = times[-1] + later
    there = [row for run in rows for row in run if row.v is not None]
    weights = [weight(end - row.time, half_life) for row in there]
    total = math.fsum(w * row.v for w, row in zip(weights, there, strict=True))
    near = pytest.approx(total, rel=1e-9, abs=1e-9 * math.fsum(abs(row.v) for row in there))
    length = timedelta(milliseconds=half_life)
    assert at_end(agg.decayed_sum("v", length), rows, end) == (near if there else None)
    assert at_end(agg.decayed_count(length, "v"), rows, end) == pytest.approx(math.fsum(weights), rel=1e-9)
    every = math.fsum(weight(end - row.time, half_life) for run in rows for row in run)
    assert at_end(agg.decayed_count(length), rows, end) == pytest.approx(every, rel=1e-9)


@given(st.data())
@examples(0.5)
def test_an_order_of_merging_is_of_no_account(data: st.DataObject) -> None:
    """Panes merged in another order, by ranges or one by one, give the same bits."""
    case = Case(agg.decayed_sum("v", "1 hour"), pa.float64(), VALUES, len)
    operation = case.bound.operations[0]
    times = data.draw(st.lists(st.integers(-(10**8), 10**8), min_size=1, max_size=10))
    rows = [[Row(time, data.draw(VALUES))] for time in sorted(times)]
    (state, _) = case.states(rows)
    ways = []
    for order in (range(len(rows)), reversed(range(len(rows))), data.draw(st.permutations(range(len(rows))))):
        parts = [tuple(column[n : n + 1] for column in state) for n in order]
        whole = parts[0]
        for part in parts[1:]:
            whole = operation.combine(whole, part)
        ways.append(whole)
    ways.append(operation.combine_ranges(state, np.array([0]), np.array([len(rows)])))
    ends = np.array([max(times) + 7])
    found = {
        case.bound.at_end(case.bound.finish([way, (np.ones(1, np.int64),)]), ends).to_pylist()[0]
        for way in ways
    }
    assert 1 == len(found)


@pytest.mark.parametrize(
    ("aggregate", "rows", "end", "result"),
    [
        (agg.decayed_sum("v", "1 hour"), [Row(0, 8.0), Row(HOUR, None)], HOUR, 4.0),
        (agg.decayed_sum("v", "1 ms"), [Row(0, 5.0)], 366 * 24 * HOUR, 0.0),
        (agg.decayed_count("1 ms"), [Row(0, 5.0)], 366 * 24 * HOUR, 0.0),
        (agg.decayed_avg("v", "1 ms"), [Row(0, 5.0)], 366 * 24 * HOUR, 5.0),
        (agg.decayed_avg("v", "1 hour"), [Row(0, 2.0), Row(HOUR, 5.0)], HOUR, 4.0),
        (agg.decayed_sum("v", "1 ms"), [Row(0, 1e300), Row(10**9, 1.5)], 10**9, 1.5),
        (agg.decayed_sum("v", "1 hour"), [Row(0, 1e308), Row(1, 1e308), Row(2, -1e308)], 2 * HOUR, None),
        (agg.decayed_sum("v", "1 hour"), [Row(0, math.inf), Row(1, 1.0)], HOUR, math.inf),
        (agg.decayed_sum("v", "1 hour"), [Row(0, None)], HOUR, None),
        (agg.decayed_avg("v", "1 hour"), [Row(0, None)], HOUR, None),
        (agg.decayed_count("1 hour", "v"), [Row(0, None)], HOUR, 0.0),
        (agg.decayed_sum("v", "1 hour"), [Row(0, 0.0), Row(-(10**6), -0.0)], HOUR, 0.0),
    ],
)
def test_edges(aggregate: Aggregate, rows: list[Row], end: int, result: float | None) -> None:
    """Ages of years, half-lives of a tick, numbers that cancel out, infinity, and nothing."""
    found = at_end(aggregate, [[row] for row in rows], end)
    if rows[0].v == 1e308:
        assert found == pytest.approx(1e308 / 4, rel=1e-3)
    else:
        assert result == found


def test_nan_stays() -> None:
    assert math.isnan(at_end(agg.decayed_sum("v", "1 hour"), [[Row(0, math.nan)], [Row(1, 1.0)]], HOUR))


RECORDS = pa.table(
    {
        "k": ["a"] * 5 + ["b"],
        "at": pa.array([0, 10_000, 25_000, 61_000, 190_000, 30_000], pa.timestamp("ms", "UTC")),
        "v": [1.0, 2.0, None, 8.0, 16.0, 4.0],
    }
)


@pytest.mark.parametrize(
    "windows",
    [
        TumblingWindows("1 minute"),
        HoppingWindows("1 minute", "30 seconds"),
        SlidingWindows("1 minute"),
        SessionWindows("20 seconds"),
    ],
    ids=lambda windows: type(windows).__name__,
)
def test_windows_of_each_kind_end_where_their_rows_say(windows: Any) -> None:
    """The end of a window that comes out is the end that weights refer to."""
    operator = windows.group_by("k").aggregate(
        total=agg.decayed_sum("v", "30 seconds"),
        n=agg.decayed_count("30 seconds"),
        list=agg.collect_list("v"),
    )
    with operator.local_runner("at") as runner:
        rows = runner.process(RECORDS, stream_time=10**9).to_pylist()
    records = RECORDS.to_pylist()
    assert 3 < len(rows)
    sliding = isinstance(windows, SlidingWindows | SessionWindows)
    for row in rows:
        start, end = row["window"]["start"].timestamp(), row["window"]["end"].timestamp()
        inside = [
            (one["at"].timestamp(), one["v"])
            for one in records
            if one["k"] == row["k"]
            and start <= one["at"].timestamp()
            and one["at"].timestamp() - end < 1e-9 * sliding
        ]
        total = sum(v * 0.5 ** ((end - at) / 30) for at, v in inside if v is not None)
        assert row["total"] == (pytest.approx(total) if row["list"] else None)
        assert row["n"] == pytest.approx(sum(0.5 ** ((end - at) / 30) for at, _ in inside))


def test_beside_records_and_labels() -> None:
    """Rolling windows weigh at the record's time, labels at their own; a lifetime needs no other lookback."""
    operator = (
        RollingWindows({"1m": "1 minute", "ever": "lifetime"}, grace="0 seconds")
        .group_by("k")
        .aggregate(total=agg.decayed_sum("v", "30 seconds"))
    )
    with operator.local_runner("at") as runner:
        rows = runner.process(RECORDS, stream_time=10**9).to_pylist()
    assert 6 == len(rows)
    for row in rows:
        now = row["at"].timestamp()
        past = [
            (one["at"].timestamp(), one["v"] or 0.0) for one in RECORDS.to_pylist() if one["k"] == row["k"]
        ]
        for name, length in (("1m", 60), ("ever", math.inf)):
            total = sum(v * 0.5 ** ((now - at) / 30) for at, v in past if now - length <= at <= now)
            assert row[f"total_{name}"] == pytest.approx(total)


@pytest.mark.parametrize(
    ("half_life", "said"),
    [
        ("0 hours", "half_life is '0 hours': it must be positive"),
        ("soon", "half_life is 'soon'"),
        (True, "give text such as"),
    ],
)
def test_lengths_that_are_none(half_life: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        agg.decayed_sum("v", half_life)


def test_a_half_life_below_a_tick() -> None:
    """Where the operator is bound, since only there the tick is known."""
    operator = (
        TumblingWindows("1 minute").group_by("k").aggregate(x=agg.decayed_sum("v", timedelta(microseconds=5)))
    )
    with (
        pytest.raises(DefinitionError, match="not a whole number of ticks of 1000 us"),
        operator.local_runner("at") as runner,
    ):
        runner.process(RECORDS)


def test_weights_are_exact_powers() -> None:
    """After whole half-lives a value is divided by powers of two, without rounding."""
    assert Fraction(3, 1024) == Fraction(
        at_end(agg.decayed_sum("v", "1 hour"), [[Row(-5, 3.0)]], 10 * HOUR - 5)
    )


def test_results_of_one_state() -> None:
    """Rows of states are finished alone."""
    case = Case(agg.decayed_avg("v", "1 hour"), pa.float64(), VALUES, len)
    assert [3.0] == finished(case.bound, case.states([[Row(0, 2.0), Row(0, 4.0)]])).to_pylist()
