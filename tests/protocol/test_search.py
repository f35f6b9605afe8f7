"""The search of small worlds leaves out orders of steps, and no end that a run can come to."""

from dataclasses import replace
from threading import Event, Thread

import pytest

from operators.spark.replicas import bucket_service
from state_backends.contract import Pages
from tests.effort import few
from tests.protocol.footprints import Footprint
from tests.protocol.judge import Judge
from tests.protocol.runs import drawing, replay, shortest
from tests.protocol.search import exhaustive
from tests.protocol.world import Scenario
from tests.protocol.worlds import TINY, TWO_WORKERS

ONE_BATCH = Scenario(batches=1, every=1)
WORLDS = {
    **TINY,
    **{f"one batch, {kind}": replace(ONE_BATCH, allowed=(kind,)) for kind in ("failure", "read")},
    "two workers": TWO_WORKERS,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", few(WORLDS, 6))
def test_no_end_is_left_out(name) -> None:
    """The search comes to all ends that it comes to if it tries each order, and with fewer runs."""
    full, search = exhaustive(WORLDS[name], full=True), exhaustive(WORLDS[name])
    assert full.complete
    assert search.complete
    assert full.ends == search.ends
    # Two workers wait for one process: few of their steps can come in another order with the same end.
    assert full.runs > (1.3 if WORLDS[name] is TWO_WORKERS else 2) * search.runs


def test_other_threads_are_not_heard() -> None:
    """A thread that another test has left uses the real clock, and the tasks of a run know nothing of it."""
    world = replace(TWO_WORKERS, attempts=0)
    alone = exhaustive(world)
    ended, asked = Event(), []

    def asks() -> None:
        while not ended.wait(0.001):
            asked.append(bucket_service.time.monotonic())

    thread = Thread(target=asks, daemon=True)
    thread.start()
    try:
        beside = exhaustive(world)
    finally:
        ended.set()
        thread.join()
    assert asked
    assert asked == sorted(asked)
    assert (alone.ends, alone.runs, alone.states) == (beside.ends, beside.runs, beside.states)


@pytest.mark.slow
def test_a_run_that_fails_is_found(monkeypatch) -> None:
    """A promise that only one order of steps breaks is found broken, and the run can be played again and made short."""
    committed = Judge.committed

    def commits(self, batch: int, pages: Pages) -> None:
        committed(self, batch, pages)
        if "B" == self._world.process().name:
            self._report("B was faster")

    monkeypatch.setattr("tests.protocol.judge.Judge.committed", commits)
    scenario = replace(ONE_BATCH, faults=0)
    search = exhaustive(scenario)
    assert search.failed is not None
    again = replay(scenario, search.failed.chosen, late=True)
    assert "B was faster" == str(again.failure) == str(search.failed.failure)
    assert "=> Failure: B was faster" == drawing(shortest(scenario, search.failed)).splitlines()[-1]


def test_a_world_with_two_faults_is_refused() -> None:
    """Two faults may exclude each other, which the search knows of one only."""
    with pytest.raises(ValueError, match="at most one fault, not 2"):
        exhaustive(Scenario(faults=2))


def test_steps_that_meet() -> None:
    """Two that write one file meet, two that write files of one folder do not, and both meet one that lists the folder."""
    steps = {name: Footprint() for name in ("first", "again", "other", "list", "power")}
    for step in steps.values():
        step.clear()
    for name, path in (("first", "f/1"), ("again", "f/1"), ("other", "f/2")):
        steps[name].use(path)
        steps[name].change("below f/")
    steps["list"].read("below f/")
    steps["power"].everything()
    meeting = {
        f"{a}, {b}"
        for a in steps
        for b in steps
        if a < b and (steps[a].changes & steps[b].reads or steps[a].reads & steps[b].changes)
    }
    assert {"again, first", "again, list", "first, list", "list, other"} == {
        pair for pair in meeting if "power" not in pair
    }
    assert 4 == sum("power" in pair for pair in meeting)
