"""Local runners that are killed while they forget keys: no key is half gone, and no other one is touched."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.local_forgets import BATCHES, GONE, KEYS, WITH
from tests.faults.processes import ROOT

_KILLS = 8
"""At most; fewer if the batch was committed before one of them."""


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["memory", "rocksdb", "spark"])
def test_a_forget_of_a_local_runner_that_is_killed(tmp_path: Path, backend: str, seed: int) -> None:
    """Kills come while the batch that forgets is worked on, or right after it: the keys begin anew with it, others go on."""
    rng, kills = random.Random(seed), 0
    command = [sys.executable, "-m", "tests.faults.local_forgets", str(tmp_path), backend]
    for _ in range(_KILLS):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            if process.stdout.readline() != "forgets\n":
                break
            time.sleep(rng.uniform(0, 0.5))
            process.kill()
            kills += 1
    assert kills
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    begun = BATCHES - WITH
    gone = set(GONE)
    assert {key: begun if key in gone else BATCHES for key in KEYS} == found
