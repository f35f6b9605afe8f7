"""The rows of a first stage follow from its input, the plan and the batch alone.

When an executor is lost, its tasks run again in other processes, which get shuffled rows in another order; Spark compares the
sums of what they send, and ends the query where these differ.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.operators.spark.stage_kinds import KINDS, THREE

STAGES = [
    stage
    for kind in KINDS
    for stage in (f"{kind}, from files", f"{kind}, after a shuffle", f"what follows {kind}")
] + [f"third after {kind}" for kind in THREE]
Sent = dict[str, list[str]]


def sent(folder: Path, arrival: int, age: str) -> Sent:
    """What a process of its own sends to buckets."""
    command = [sys.executable, "-m", "tests.operators.spark.stage_worker", str(folder), str(arrival), age]
    found: Sent = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sent, Sent]:
    """What two attempts send: one in a process that ran the batch before, one in a process that knows its journals only."""
    folder = tmp_path_factory.mktemp("stages")
    return sent(folder, 1, "old"), sent(folder, 2, "new")


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_another_attempt_sends_the_same_rows(twice: tuple[Sent, Sent], stage: str) -> None:
    """In a process of another age, in batches of other sizes, and in another order where a shuffle lies below."""
    first, second = (one[stage] for one in twice)
    assert len(first) > 3
    assert first == second
