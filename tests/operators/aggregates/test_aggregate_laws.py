"""Aggregates as laws: however records are cut, combined and stored, results are those of plain Python."""

from dataclasses import replace

import numpy as np
import pytest
from aggregate_cases import CASES, SQUARES, Case, Row, bits, finished, stored
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from operators.aggregates.user_operation import UserOperation
from operators.columns.ranges import State
from tests.effort import examples, slow_but

STATES = {
    (name.split()[0], *(op.codes for op in case.bound.operations)): name for name, case in CASES.items()
}
"""An aggregate of each sort and each layout of its state."""
EVERY = pytest.mark.parametrize("name", slow_but(STATES.values(), CASES))
FEW = examples(0.08)
TIMES = st.integers(-3, 3) | st.sampled_from([-(10**15), 10**15])


def drawn(name: str, data: st.DataObject) -> Case:
    """The case, with or without `where`."""
    return CASES[name].filtered if data.draw(st.booleans()) else CASES[name]


def cut(rows: list[Row], data: st.DataObject) -> list[list[Row]]:
    """Rows in order of time, cut into panes between event times."""
    rows = sorted(rows, key=lambda row: row.time)
    edges = [
        at for at in range(1, len(rows)) if rows[at].time != rows[at - 1].time and data.draw(st.booleans())
    ]
    return [rows[a:b] for a, b in zip([0, *edges], [*edges, len(rows)], strict=True)]


@EVERY
@FEW
@given(data=st.data())
def test_ranges_of_panes(name: str, data: st.DataObject) -> None:
    """Windows over ranges of panes are what plain Python makes of their records.

    Panes come back from storage bit for bit; combining and finishing, twice, leaves states alone.
    """
    case = drawn(name, data)
    panes = cut(data.draw(case.rows(TIMES, least=1, most=14)), data)
    lo = data.draw(st.lists(st.integers(0, len(panes) - 1), max_size=6))
    hi = [data.draw(st.integers(a + 1, len(panes))) for a in lo]
    operations = case.bound.operations
    fresh = case.states(panes)
    states, before = stored(operations, fresh), bits(fresh)
    assert before == bits(states)
    ranges = np.array(lo, np.int64), np.array(hi, np.int64)
    combined = [op.combine_ranges(state, *ranges) for op, state in zip(operations, states, strict=True)]
    rows = [[row for pane in panes[a:b] for row in pane] for a, b in zip(lo, hi, strict=True)]
    case.check(rows, case.bound.finish(combined))
    case.check(rows, case.bound.finish(combined))
    assert before == bits(states)


@EVERY
@FEW
@given(data=st.data())
def test_reduction_of_rows_that_overlap_in_time(name: str, data: st.DataObject) -> None:
    """Records dealt out to states at will, as sessions that merge have them, reduce to what plain Python makes of all."""
    case = drawn(name, data)
    rows = sorted(data.draw(case.rows(TIMES, least=1)), key=lambda row: row.time)
    runs: list[list[list[Row]]] = []
    for part in cut(rows, data):
        dealt: dict[int, list[Row]] = {}
        for row in part:
            dealt.setdefault(data.draw(st.integers(0, 2)), []).append(row)
        runs.append(list(dealt.values()))
    operations = case.bound.operations
    states = stored(operations, case.states([group for run in runs for group in run]))
    before = bits(states)
    starts = np.cumsum([0, *map(len, runs)])[:-1]
    reduced = [op.reduce(state, starts) for op, state in zip(operations, states, strict=True)]
    assert before == bits(states)
    expected = [[row for group in run for row in group] for run in runs]
    case.check(expected, finished(case.bound, stored(operations, reduced)))


@EVERY
@FEW
@given(data=st.data())
def test_combine(name: str, data: st.DataObject) -> None:
    """Combine is associative, on records as on what was combined before, and leaves its arguments alone."""
    case = drawn(name, data)
    count = data.draw(st.integers(1, 4))
    parts = [data.draw(case.rows(st.just(time), least=count, most=count)) for time in range(4)]
    results: list[list[State]] = [[], [], []]
    lifted = [case.states([[row] for row in part]) for part in parts]
    for operation, states in zip(case.bound.operations, zip(*lifted, strict=True), strict=True):
        w, x, y, z = states
        before = bits(states)
        plus = operation.combine
        results[0].append(plus(plus(plus(w, x), y), z))
        results[1].append(plus(w, plus(x, plus(y, z))))
        results[2].append(plus(plus(w, x), plus(y, z)))
        assert before == bits(states)
    for states in results:
        case.check(list(map(list, zip(*parts, strict=True))), finished(case.bound, states))


@EVERY
@FEW
@given(data=st.data())
def test_add(name: str, data: st.DataObject) -> None:
    """A later record added to each row of a state is as if it had been there, and the state is left alone."""
    case = drawn(name, data)
    count = data.draw(st.integers(1, 4))
    parts = [data.draw(case.rows(st.just(time), least=count, most=count)) for time in range(3)]
    states = case.states([[row] for row in parts[0]])
    for part in parts[1:]:
        before, records = bits(states), case.records(part)
        added = [op.add(state, records) for op, state in zip(case.bound.operations, states, strict=True)]
        assert before == bits(states)
        states = added
    case.check(list(map(list, zip(*parts, strict=True))), finished(case.bound, states))


@EVERY
@FEW
@given(data=st.data())
def test_order_of_arrival_is_of_no_account(name: str, data: st.DataObject) -> None:
    """Records of one event time give the same result in whatever order, and combined in whatever order."""
    case = drawn(name, data)
    rows = data.draw(case.rows(st.just(5), least=1))
    shuffled = data.draw(st.permutations(rows))
    whole, again = case.states([rows]), case.states([[row] for row in shuffled])
    reduced = [
        op.reduce(state, np.array([0])) for op, state in zip(case.bound.operations, again, strict=True)
    ]
    case.check([rows], finished(case.bound, whole))
    case.check([rows], finished(case.bound, reduced))


@EVERY
def test_no_rows(name: str) -> None:
    """No records have no states, and no results of the right type."""
    case = CASES[name]
    nothing = np.empty(0, np.int64)
    operations = case.bound.operations
    states = [operation.lift(case.records([])) for operation in operations]
    case.check([], finished(case.bound, states))
    reduced = [op.reduce(state, nothing) for op, state in zip(operations, states, strict=True)]
    case.check([], finished(case.bound, reduced))


@EVERY
def test_nothing_but_nulls(name: str) -> None:
    """Records whose values are null, or that do not count, give what no values give."""
    for case, row in ((CASES[name], Row(0, None)), (CASES[name].filtered, Row(0, None, None, ok=None))):
        case.check([[row], [row, row]], finished(case.bound, case.states([[row], [row, row]])))


@EVERY
def test_codes_are_those_of_the_state(name: str) -> None:
    """A state has a column for each of its codes, of that code's dtype."""
    case = CASES[name].filtered
    dtypes = {"i8": np.int64, "f8": np.float64, "object": object}
    for operation, state in zip(case.bound.operations, case.states([[Row(0, None)]]), strict=True):
        assert [np.dtype(dtypes[code]) for code in operation.codes] == [column.dtype for column in state]


@EVERY
def test_where_is_another_state(name: str) -> None:
    """Aggregates with another `where` are other aggregates, with states of another name that read its column."""
    case = CASES[name]
    one, other = (
        case.filtered.bound.operations,
        replace(case.aggregate, where="late").bind({**case.types, "late": case.types["ok"]}).operations,
    )
    texts = [tuple(op.describe() for op in ops) for ops in (case.bound.operations, one, other)]
    assert 3 == len({case.bound.operations, one, other}) == len(set(texts))
    assert all("where" not in text for text in texts[0])
    assert all("ok" in operation.inputs for operation in one)
    assert all("ok" not in operation.inputs for operation in case.bound.operations)


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31), st.integers(-(2**31), 2**31)), min_size=1))
def test_deduct_undoes_combine(pairs: list[tuple[int, int]]) -> None:
    """What was combined and then deducted is what it was."""
    operation = UserOperation("v", ("v",), SQUARES)
    a, b = (
        SQUARES.accumulate(operation.empty_states(len(pairs)), np.array(column))
        for column in zip(*pairs, strict=True)
    )
    assert SQUARES.deduct is not None
    assert bits([a]) == bits([SQUARES.deduct(SQUARES.combine(a, b), b)])


@EVERY
def test_bound_aggregates_travel(name: str) -> None:
    """What Spark sends to a worker is equal, hashes alike, and gives the same results."""
    case = CASES[name].filtered
    bound = cloudpickle.loads(cloudpickle.dumps(case.bound))
    assert (case.bound.operations, hash(case.bound.operations)) == (bound.operations, hash(bound.operations))
    case.check([[Row(0, None)]], finished(bound, case.states([[Row(0, None)]])))
