"""The rows of open windows are those that come out when everything closes, and reading them changes nothing."""

import random

import pytest
from feeds import BACKENDS, KINDS, POLICIES, Feed, operator, rows

from operators import aggregates as agg
from operators.columns.records import FAR_FUTURE
from state_backends import StateError

RESULTS = {"n": agg.count(), "s": agg.sum("v"), "low": agg.min("v"), "all": agg.collect_list("v")}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_open_windows_are_those_that_everything_closing_emits(kind: str, policy: str) -> None:
    """After one batch and after several, on each backend, whatever is emitted when."""
    chance = random.Random(f"{kind} {policy}")
    op, on_close = operator(kind, policy, RESULTS), operator(kind, "on_close", RESULTS)
    steps = Feed(chance).steps(6)[:-1]
    for count in (1, 3, len(steps)):
        with op.local_runner("at", chance.choice(BACKENDS)) as runner, on_close.local_runner("at") as twin:
            for step in steps[:count]:
                runner.process(*step)
                twin.process(*step)
            found = runner.open_windows()
            expected = twin.process(steps[0][0].slice(0, 0), FAR_FUTURE // 2)
            came_already = kind == "rolling" and policy == "on_update"
            assert rows(found) == ([] if came_already else rows(expected))
            assert rows(found) == rows(runner.open_windows())


def test_a_runner_without_state_has_no_windows() -> None:
    """Before the first batch, it says what to do."""
    with (
        operator("tumbling", "on_close", RESULTS).local_runner("at") as runner,
        pytest.raises(StateError, match="process a batch first"),
    ):
        runner.open_windows()
