"""How much memory does one worker need for 10 million live keys on rocksdb, and how fast is it then?

Two processes: one gives each key a record and works on for 20 batches; the other starts again on what is on disk: it reopens
the copy and reads all of it once to know what is due. Seconds of a stage are those of all its batches, memory is the most that
the process has had until its end.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.marks import full
from benchmarks.measure import Measure

ROOT = Path(__file__).parents[2]
MOST_MB = 1_500
Stages = dict[str, dict[str, Any]]

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux has the memory of a process in /proc"
)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Stages]:
    """What runs the two processes for so many keys, once, and returns what their stages took."""

    @cache
    def run(keys: int) -> Stages:
        folder = tmp_path_factory.mktemp("many-keys")
        found: Stages = {}
        for what in ("fill", "restart"):
            command = [sys.executable, "-m", "benchmarks.state.many_keys", what, str(keys), str(folder)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            for line in done.stdout.splitlines():
                found |= json.loads(line)
        return found

    return run


@pytest.mark.parametrize("stage", ["growing", "steady", "restart", "steady after"])
@pytest.mark.parametrize("keys", [1_000_000, full(2_000_000), full(10_000_000)])
def test_live_keys(measure: Measure, stages: Callable[[int], Stages], keys: int, stage: str) -> None:
    found = measure.benchmark.pedantic(stages, (keys,))[stage]
    measure.taken(
        [found["seconds"]],
        section="10 million live keys",
        system="rocksdb",
        rows=found["rows"],
        keys=keys,
        stage=stage,
    )
    measure.note(
        resident_mb=found["resident_mb"],
        processor_us_a_row=round(1e6 * found["processor"] / found["rows"], 2),
        lookups_a_row=round(found["lookups"] / found["rows"], 2),
    )
    assert MOST_MB > found["resident_mb"]
    if stage != "restart":
        assert found["windows"] > 0.9 * found["rows"]
