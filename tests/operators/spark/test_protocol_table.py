"""The table of what a task does next."""

from itertools import product

import pytest

from operators.spark.replicas.protocol import NEXT, Heard, TaskState

ENDS = {TaskState.WRITE, TaskState.WORK_ALONE, TaskState.FAIL}


def paths(state: TaskState = TaskState.ASK) -> list[tuple[list[Heard], TaskState]]:
    """All that can be heard from a state on, and where it ends."""
    if not state.asks:
        return [([], state)]
    return [([heard, *rest], end) for heard in Heard for rest, end in paths(NEXT[state, heard])]


def test_each_state_knows_what_to_do_whatever_it_hears() -> None:
    asking = {state for state in TaskState if state.asks}
    assert {*product(asking, Heard)} == {*NEXT}
    assert ENDS == {*TaskState} - asking


def test_a_task_asks_twice_at_most() -> None:
    assert {1, 2} == {len(heard) for heard, _ in paths()}


@pytest.mark.parametrize("last", Heard)
def test_how_it_ends(last: Heard) -> None:
    """Two deaths fail, an answer is written, and with anything else the task works alone."""
    for heard, end in paths():
        if heard[-1] is not last:
            continue
        two_died = 2 == heard.count(Heard.DIED)
        assert two_died == (end is TaskState.FAIL)
        assert (last is Heard.DONE) == (end is TaskState.WRITE)
        assert {Heard.DIED} >= {*heard[:-1]}
