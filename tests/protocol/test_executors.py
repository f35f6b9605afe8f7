"""A part of the search of what workers and processes with copies say to each other."""

from collections import Counter

import pytest

from tests.effort import slow, soak
from tests.protocol.executor_judge import ExecutorJudge
from tests.protocol.executor_world import Executors, ExecutorWorld
from tests.protocol.judge import Failure
from tests.protocol.runs import drawing, executors_of, random_run, replay, shortest
from tests.protocol.search import exhaustive
from tests.protocol.worlds import TWO_WORKERS

RUNS, MANY_RUNS = 40, 2_000


@pytest.mark.parametrize("runs", [slow(RUNS), soak(MANY_RUNS)])
def test_random_runs(runs) -> None:
    """Whoever dies, stands still or begins anew: rows are right, and afterwards one process has the copy."""
    planned, struck = Counter[str](), Counter[str]()
    for seed in range(runs):
        run = random_run(executors_of(seed), seed)
        assert run.failure is None, f"seed {seed}:\n{drawing(shortest(executors_of(seed), run))}"
        planned.update(run.planned)
        struck.update(run.struck)
    assert {*Executors().allowed} == {*planned}
    assert all(struck[kind] > 0.4 * planned[kind] for kind in planned), (planned, struck)


@pytest.mark.slow
def test_all_runs_of_two_attempts() -> None:
    """No interleaving of two attempts of a batch, in two workers, breaks a promise."""
    search = exhaustive(TWO_WORKERS)
    assert search.failed is None, drawing(shortest(TWO_WORKERS, search.failed))
    assert search.complete


@pytest.mark.slow
def test_a_seed_is_a_run() -> None:
    """The same seed does the same, and so do the choices that it made."""
    first, again = (random_run(executors_of(4), 4) for _ in range(2))
    played = replay(executors_of(4), first.chosen)
    assert first.log == again.log == played.log
    assert first.chosen == again.chosen == played.chosen


def test_wrong_rows_are_found(monkeypatch) -> None:
    """The judge knows what a batch comes to, by the functions of the run that commits it."""
    after = ExecutorJudge._after
    monkeypatch.setattr(ExecutorJudge, "_after", lambda judge, batch, code: after(judge, batch, code + 1))
    run = replay(Executors(batches=1, faults=0), [])
    assert isinstance(run.failure, Failure)
    assert "batch 1 with code 1 gives {'c': 1, 'a': 1}, not {'c': 2, 'a': 2}" == str(run.failure)


def test_a_copy_that_is_lost_is_found(monkeypatch) -> None:
    """A process that forgets its copy after each batch restores it with the next one."""
    work = ExecutorWorld.attempt

    def attempt(world, batch, process):
        for member in world.members:
            if member.service is not None:
                for copy in member.copies.values():
                    copy.lock.release()
                member.copies.clear()
        return work(world, batch, process)

    monkeypatch.setattr(ExecutorWorld, "attempt", attempt)
    run = replay(Executors(batches=1, executors=1, faults=0), [])
    assert "executor 0 restores in a quiet batch" == str(run.failure)
