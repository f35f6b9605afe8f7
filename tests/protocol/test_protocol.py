"""A part of the search of the commit protocol: `python -m tests.protocol` searches further."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from state_backends.durability.folders import Folder
from state_backends.errors import StateError
from tests.protocol.bugs import BUGS
from tests.protocol.install import installed
from tests.protocol.judge import Failure
from tests.protocol.runs import Run, drawing, random_run, replay, scenario_of, shortest
from tests.protocol.search import exhaustive
from tests.protocol.storage import Storage
from tests.protocol.tasks import SimulatedError
from tests.protocol.world import Scenario, World
from tests.protocol.worlds import QUIET, TINY

ROOT = Path(__file__).parents[2]
RUNS = 200


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_all_runs_of_a_small_world(name) -> None:
    """No interleaving breaks a promise, whatever the fault."""
    scenario = TINY[name]
    search = exhaustive(scenario)
    assert search.failed is None, drawing(shortest(scenario, search.failed))
    assert search.complete


@pytest.mark.slow
@pytest.mark.parametrize("name", QUIET)
def test_some_runs_of_a_small_world(name) -> None:
    """The first interleavings of two attempts in three batches, in the order of the search."""
    search = exhaustive(QUIET[name], lambda search: search.runs < RUNS)
    assert search.failed is None, drawing(shortest(QUIET[name], search.failed))


@pytest.mark.slow
def test_random_runs() -> None:
    """Runs of larger worlds keep all promises, and each kind of fault strikes in most runs that plan it."""
    planned, struck = Counter[str](), Counter[str]()
    for seed in range(RUNS):
        run = random_run(scenario_of(seed), seed)
        assert run.failure is None, f"seed {seed}:\n{drawing(shortest(scenario_of(seed), run))}"
        planned.update(run.planned)
        struck.update(run.struck)
    assert {"death", "failure", "lost answer", "clock", "read", "return", "power"} == {*planned}
    assert all(struck[kind] > 0.4 * planned[kind] for kind in planned), (planned, struck)


def test_a_seed_is_a_run() -> None:
    """The same seed does the same, to the byte, and so do the choices that it made."""
    first, again = (random_run(scenario_of(3), 3) for _ in range(2))
    played = replay(scenario_of(3), first.chosen)
    assert first.log == again.log == played.log
    assert first.chosen == again.chosen == played.chosen


@pytest.mark.slow
def test_planted_bugs_are_found() -> None:
    """The seed that stands with each planted bug finds it; without the bug, it finds nothing."""
    command = [sys.executable, "-m", "tests.protocol", "bugs", "--recorded"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    found = re.findall(
        r"^ ?[0-9]+[.] .*: (?:Failure|CorruptDataError|IndexError|KeyError): ", done.stdout, re.MULTILINE
    )
    assert len(BUGS) == len(found), done.stdout
    for seed in {bug.seed for bug in BUGS}:
        assert random_run(scenario_of(seed), seed).failure is None


@pytest.mark.slow
def test_a_failing_run_becomes_short(monkeypatch) -> None:
    """Only what the failure needs is left of a run, and its drawing has a column for each process."""

    def lost(self, *given: object) -> None:
        del given
        if self._world.struck.count("death"):
            raise Failure("a process died")

    monkeypatch.setattr("tests.protocol.judge.Judge.ends", lost)
    runs = (random_run(scenario_of(seed), seed) for seed in range(100))
    failing = next(run for run in runs if run.failure and len(run.struck) > 1)
    short = shortest(scenario_of(0), Run(chosen=failing.chosen, failure=failing.failure))
    assert ["death"] == short.struck
    lines = drawing(short).splitlines()
    assert "=> Failure: a process died" == lines[-1]
    assert {"A", "fault"} <= {*lines[0].split()}


def test_a_task_that_waits_for_ever_is_found(monkeypatch) -> None:
    """A step whose wake-up is lost is told by name."""
    monkeypatch.setattr(
        "tests.protocol.tasks.Task.can_go_on",
        property(lambda task: not task.done and "write" not in task.name),
    )
    run = replay(Scenario(batches=1), [])
    assert isinstance(run.failure, Failure)
    assert "waits for ever: ['A1.1 write']" == str(run.failure)


class _Fails(Storage):
    """A storage where closing a file, or writing to it, reports a failure."""

    def __init__(self, world: World, at: str) -> None:
        super().__init__(world.baton, world, disk=False)
        self._at = at

    def open_output_stream(self, path: str) -> object:
        stream = super().open_output_stream(path)
        real, at = stream.write, self._at

        class Stream(type(stream)):
            def write(self, data: bytes) -> int:
                if at == "write":
                    real(data[:2])
                    raise SimulatedError(5, "no answer came")
                return real(data)

            def close(self) -> None:
                was_open = not self.closed
                super().close()
                if was_open and at == "close":
                    raise SimulatedError(5, "no answer came")

        stream.__class__ = Stream
        return stream


@pytest.mark.parametrize(("at", "left"), [("close", b"whole"), ("write", None)])
def test_a_file_whose_answer_was_lost_stays(at, left) -> None:
    """Others may have read it: a whole file is not removed because its writer heard nothing. A part of one is."""
    world = World(Scenario())
    world.storage = _Fails(world, at)
    with installed(world):
        folder = Folder("s3://bucket")
        with pytest.raises(StateError, match="no answer came"):
            folder.write("name", b"whole")
        assert left == folder.read("name")
    world.close()
