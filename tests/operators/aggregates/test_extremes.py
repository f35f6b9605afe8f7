"""Numbers at the limits of doubles: results are those of exact fractions, whatever the order and however panes are cut."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import Values, finished, plain
from hypothesis import given
from hypothesis import strategies as st

from operators import aggregates as agg
from operators.aggregates.operation import Operation
from operators.columns.arrow import column_data
from operators.columns.ranges import State
from operators.columns.records import Records

NEAR_ONE_ANOTHER = st.sampled_from(
    [1e9 + 0.1, 1e15 + 0.1, 1.7e15, 1e-100, 1e-150, 3e144, 1e160, 1e300]
).flatmap(
    lambda base: st.lists(st.integers(0, 3).map(lambda n: base * (1 + n * 2.0**-52)), min_size=1, max_size=9)
)
"""A few units of the last binary digit apart."""
FAR_APART = st.lists(st.builds(math.ldexp, st.floats(-1, 1), st.integers(-200, 200)), min_size=1, max_size=9)
HUGE = st.lists(
    st.sampled_from([1e308, -1e308, 1.7e308, -1.7e308, 1e290, 1e154, -3e144, 1.0]), min_size=1, max_size=9
)
NOT_FINITE = st.lists(
    st.sampled_from([1e308, -1e308, 1.7e308, 1.0, 1.0, 1.0, -1.0, math.inf, -math.inf, math.nan]),
    min_size=1,
    max_size=6,
)
ORDINARY = st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 2)), min_size=1, max_size=9)
FINITE = NEAR_ONE_ANOTHER | FAR_APART | HUGE | ORDINARY


def lifted(operation: Operation, v: Values, w: Values) -> State:
    """The state of each record."""
    zeros = np.zeros(len(v), np.int64)
    values = {name: column_data(pa.array(column, pa.float64())) for name, column in (("v", v), ("w", w))}
    return operation.lift(Records([b""], zeros, zeros, values, 0))


def drawn_total(operation: Operation, state: State, data: st.DataObject) -> State:
    """All rows of a state as one, in some order: cut into runs at will, and these combined in one of three ways."""
    rows = len(state[0])
    order = np.array(data.draw(st.permutations(range(rows))))
    starts = np.array(sorted({0, *data.draw(st.sets(st.integers(0, rows - 1)))}))
    parts = operation.reduce(tuple(column[order] for column in state), starts)
    first, count = np.zeros(1, np.int64), len(starts)
    ways: list[Callable[[], State]] = [
        lambda: operation.reduce(parts, first),
        lambda: operation.combine_ranges(parts, first, np.full(1, count)),
        lambda: _one_by_one(operation, parts),
    ]
    return data.draw(st.sampled_from(ways))()


def _one_by_one(operation: Operation, state: State) -> State:
    total = tuple(column[:1] for column in state)
    for row in range(1, len(state[0])):
        total = operation.combine(total, tuple(column[row : row + 1] for column in state))
    return total


def results(name: str, v: Values, w: Values, data: st.DataObject) -> list[float]:
    """The result of an aggregate, come to in three ways."""
    columns = ("v", "w") if name.startswith(("co", "regr")) else ("v",)
    bound = getattr(agg, name)(*columns).bind({"v": pa.float64(), "w": pa.float64()})
    states = [lifted(operation, v, w) for operation in bound.operations]
    return [
        finished(bound, [drawn_total(op, state, data) for op, state in zip(bound.operations, states, strict=True)])
        .to_pylist()[0]
        for _ in range(3)
    ]  # fmt: skip


def rounded(number: Fraction) -> float:
    """A fraction as a double, infinite where it is too large."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def products(v: Values, w: Values) -> Fraction:
    """The mean product of the distances of two columns from their means."""
    a, b = list(map(Fraction, v)), list(map(Fraction, w))
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    return sum(((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)), Fraction(0)) / len(a)


@pytest.mark.slow
@given(FINITE, st.data())
def test_variance(values: Values, data: st.DataObject) -> None:
    """Within a few units of the last digit of the true one, 0 where it is 0, and the same every way."""
    true = products(values, values)
    found = results("var_pop", values, values, data)
    assert 1 == len(set(found))
    assert found[0] == pytest.approx(rounded(true), rel=1e-15, abs=5e-323)
    assert len(set(values)) > 1 or found[0] == 0.0


@pytest.mark.slow
@given(NEAR_ONE_ANOTHER | FAR_APART | ORDINARY, st.data())
def test_covariance(v: Values, data: st.DataObject) -> None:
    """Right for its columns' spread, and the same every way but for the last digits."""
    w = data.draw(st.permutations(v) | st.lists(st.floats(-1e3, 1e3), min_size=len(v), max_size=len(v)))
    size = math.sqrt(rounded(products(v, v))) * math.sqrt(rounded(products(w, w)))
    for found in results("covar_pop", v, w, data):
        assert found == pytest.approx(rounded(products(v, w)), rel=1e-15, abs=1e-15 * size + 5e-323)


@pytest.mark.slow
@given(HUGE | FAR_APART | ORDINARY, st.data())
def test_sum_and_mean(values: Values, data: st.DataObject) -> None:
    """Finite where the true one is, infinite where it is beyond doubles, however far sums went in between."""
    size = rounded(max(abs(Fraction(value)) for value in values) / 2**60)
    true = sum(map(Fraction, values))
    for name, expected in (("sum", true), ("avg", true / len(values))):
        for found in results(name, values, values, data):
            assert found == pytest.approx(rounded(expected), rel=1e-15, abs=size)


@pytest.mark.slow
@given(NOT_FINITE, st.data())
def test_infinities(values: Values, data: st.DataObject) -> None:
    """An infinity among numbers whose sum is beyond doubles is that infinity; two of them, or NaN, are NaN."""
    odd = {value for value in plain(values) if value in (math.inf, -math.inf, "NaN")}
    if not odd:
        expected = rounded(sum(map(Fraction, values)))
    else:
        expected = plain(odd.pop() if len(odd) == 1 else math.nan)
        assert ["NaN"] * 3 == plain(results("var_pop", values, values, data))
    assert [expected] * 3 == plain(results("sum", values, values, data))
