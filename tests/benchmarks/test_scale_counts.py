"""What the formulas say of files, tasks and bytes is what a real query on Spark writes, moves and sends."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scale.counted import ROWS
from benchmarks.scale.model import Cluster, Job, Measured, batch

pytestmark = [pytest.mark.spark, pytest.mark.soak]
ROOT = Path(__file__).parents[2]
BUCKETS = 2, 4, 8


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory):
    """The counts of small queries, by system and buckets."""
    folder = tmp_path_factory.mktemp("counts")
    command = [sys.executable, "-m", "benchmarks.scale.counted", str(folder), *map(str, BUCKETS)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(one["system"], one["buckets"]): one for one in found}


@pytest.mark.parametrize("buckets", BUCKETS)
@pytest.mark.parametrize("system", ["memory", "own"])
def test_files_and_tasks_of_a_batch(counts, system, buckets) -> None:
    """A file for each bucket, offsets and a commit; a task for each bucket, and one that reads."""
    one = counts[system, buckets]
    formula = batch(Job(buckets=buckets), Cluster(), Measured())
    assert one["state_files"] + one["other_files"] == formula.files
    assert one["tasks"] == buckets + 1


@pytest.mark.parametrize("buckets", BUCKETS)
def test_bytes_of_a_batch(counts, buckets) -> None:
    """Bytes of the shuffle follow the rows, and those of the driver the buckets."""
    one = counts["memory", buckets]
    job = replace(Job(), rows_a_second=float(ROWS), interval=1.0, buckets=buckets)
    formula = batch(job, Cluster(), Measured())
    assert one["shuffle_bytes"] == pytest.approx(formula.shuffle_bytes, rel=0.15)
    assert one["result_bytes"] == pytest.approx(formula.driver_bytes, rel=0.3)
