"""Local runners that are killed again and again: a part of what `python -m tests.faults.soak_local` does, and what it finds."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.plans import BACKENDS

_ROOT = Path(__file__).parents[2]
_KILLS = 12

pytestmark = pytest.mark.slow


def soaked(module: str, backend: str, kills: int, seed: int) -> "subprocess.CompletedProcess[str]":
    """Run a soak in a process of its own: this one has threads, so that it cannot be forked."""
    options = ["--kills", str(kills), "--backend", backend, "--seed", str(seed)]
    command = [sys.executable, "-m", module, *options]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_runners_end_with_the_rows_of_undisturbed_ones(backend: str, seed: int) -> None:
    """Rows and open windows are those of a twin after each kill."""
    done = soaked("tests.faults.soak_local", backend, _KILLS, seed)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert f"{_KILLS} kills (" in done.stdout.splitlines()[-1]
    assert done.stdout.splitlines()[-1].endswith("exact")


def test_a_bug_that_only_kills_show_is_found(seed: int) -> None:
    """Each change of the journal is committed on its own: the soak fails, and says how to run the same scene again."""
    done = soaked("tests.faults.broken", "memory", 2_000, seed)
    assert 1 == done.returncode, done.stdout + done.stderr
    assert "FAILED Scene(" in done.stdout
    assert f"--seed {seed} --scene " in done.stdout.splitlines()[-1]
