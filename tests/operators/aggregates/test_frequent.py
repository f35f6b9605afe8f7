"""The most frequent values beyond the size of a state: each count is right within the bound that the docs give."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from aggregate_cases import Case, Row, finished, stored
from hypothesis import given
from hypothesis import strategies as st

from operators import DefinitionError
from operators import aggregates as agg
from operators.aggregates.category_pages import items_in
from tests.effort import examples

SIZE = 3
CASE = Case(agg.approx_top_k("v", SIZE, SIZE), pa.int64(), st.integers(0, 9), len)
SKEWED = st.lists(st.sampled_from([0] * 8 + [1] * 4 + [*range(2, 10)]), min_size=1, max_size=30)


@examples(0.3)
@given(st.lists(SKEWED, min_size=1, max_size=8), st.data())
def test_counts_are_within_the_bound(panes: list[list[int]], data: st.DataObject) -> None:
    """Panes merged in some order, stored in between, then a window over them: no count is too low, none too high by more."""
    (operation,) = CASE.bound.operations
    states = CASE.states([[Row(time, value) for value in pane] for time, pane in enumerate(panes)])
    if data.draw(st.booleans()):
        starts = np.array(sorted({0, *data.draw(st.sets(st.integers(0, len(panes) - 1)))}))
        states = [operation.reduce(states[0], starts)]
    (state,) = stored([operation], states)
    assert items_in(state[0].tolist()).max() <= SIZE
    whole = operation.combine_ranges(state, np.array([0]), np.array([len(state[0])]))
    (found,) = CASE.bound.finish([whole]).to_pylist()
    true = Counter(value for pane in panes for value in pane)
    most_off = sum(true.values()) / (SIZE + 1)
    for item in found:
        assert 0 <= item["count"] - true[item["item"]] <= most_off
    missing = set(true) - {item["item"] for item in found}
    if len(found) < SIZE:
        assert all(true[value] <= most_off for value in missing)


def test_a_window_of_all_panes_as_one_state() -> None:
    """States combined one by one are within the bound, too, and the frequent value is found."""
    (operation,) = CASE.bound.operations
    rows = [[Row(n, n % 7 if n % 2 else 0)] for n in range(200)]
    (state,) = CASE.states(rows)
    one = tuple(column[:1] for column in state)
    for n in range(1, 200):
        one = operation.combine(one, tuple(column[n : n + 1] for column in state))
    (found,) = finished(CASE.bound, [one]).to_pylist()
    true = Counter(row.v for pane in rows for row in pane)
    assert 0 == found[0]["item"]
    assert 0 <= found[0]["count"] - true[0] <= 200 / (SIZE + 1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: agg.approx_top_k("v", 0), "k and max_items_tracked must be whole numbers"),
        (lambda: agg.approx_top_k("v", 5, 4), "1 <= k <= max_items_tracked"),
        (lambda: agg.histogram("v", 0), r"histogram\(v\): most must be a whole number of 1 or more, got 0"),
        (lambda: agg.first_n("v", True), r"first_n\(v, True\): n must be a whole number of 1 or more"),
        (lambda: agg.last_n("v", -1), r"last_n\(v, -1\): n must be"),
        (lambda: agg.listagg("v", 3), r"listagg\(v\): delimiter must be a text, or bytes, got 3"),
    ],
)
def test_bad_arguments_are_refused(make, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        make()
