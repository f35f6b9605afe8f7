"""Which set of stored states a result goes on with, row by row of the table in `restarts`."""

from collections.abc import Sequence

import pytest

from operators.aggregates.operation import Operation
from operators.aggregates.operations import CountRows, Max, SumFloat, SumInt
from operators.runtime.restarts import StoredSets, restarted_at

COUNT, TOTAL, TOP = CountRows(None), SumInt("v"), Max("v", "i8")
STORED = [COUNT, restarted_at(TOTAL, 1), restarted_at(COUNT, 1)]


@pytest.mark.parametrize(
    ("needed", "stored", "number"),
    [
        ([COUNT], STORED, 0),
        ([COUNT, TOTAL], STORED, 1),
        ([COUNT, TOTAL, TOP], STORED, 2),
        ([TOP], STORED, 0),
        ([COUNT, TOTAL], [COUNT, TOTAL, *STORED[1:]], 0),
        ([TOTAL], [], 0),
    ],
)
def test_the_oldest_complete_set_is_gone_on_with(
    needed: Sequence[Operation], stored: Sequence[Operation], number: int
) -> None:
    """Else a new one, if the result would mix times; a result of which nothing is stored joins the first set."""
    names = [operation.describe() for operation in stored]
    assert number == StoredSets(names, [], []).set_for(needed, lifetime=False)


def test_a_lifetime_needs_states_that_were_kept_for_it() -> None:
    names = [COUNT.describe(), TOTAL.describe()]
    assert 0 == StoredSets(names, names, []).set_for([COUNT, TOTAL], lifetime=True)
    assert 1 == StoredSets(names, names[:1], []).set_for([COUNT, TOTAL], lifetime=True)


def test_a_sum_goes_on_with_that_of_a_narrower_column() -> None:
    """In the set in which it is, if the column became wider and was of whole numbers."""
    wide, names = SumFloat("v"), [COUNT.describe(), restarted_at(TOTAL, 1).describe(), STORED[2].describe()]
    assert 1 == StoredSets(names, [], ["v"]).set_for([COUNT, wide], lifetime=False)
    assert 2 == StoredSets(names, [], []).set_for([COUNT, wide], lifetime=False)
