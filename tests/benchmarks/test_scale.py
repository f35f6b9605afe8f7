"""The simulation of a cluster: where nothing is skewed, slow or lost it is what the formulas say; and what else is certain."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scale.model import Cluster, Job, Measured, batch, batches_of_a_snapshot, restore_seconds
from benchmarks.scale.simulation import Simulation, makespan

ROOT = Path(__file__).parents[2]
JOB = Job(keys=1e6, state_bytes=1e9, rows_a_second=10_000.0, buckets=40, interval=10.0, skew=0.0)
CLUSTER = Cluster(executors=5, cores=4, straggle=0.0, lost_an_hour=0.0)
EVERYTHING = 360.0
"""Losses an hour at which every executor is lost in every batch of ten seconds."""


def simulated(job=JOB, cluster=CLUSTER, measured=Measured(), batches=200, seed=0):  # noqa: B008 - it is frozen
    return Simulation(job, cluster, measured, seed).run(batches)


@pytest.mark.parametrize("buckets", [20, 40, 41, 400])
@pytest.mark.parametrize("interval", [1.0, 10.0])
def test_where_all_is_equal_it_is_the_formula(buckets, interval) -> None:
    """Seconds are exact; requests and bytes on average, since a bucket writes a snapshot every so many batches."""
    job = replace(JOB, buckets=buckets, interval=interval)
    found, formula = simulated(job), batch(job, CLUSTER, Measured())
    assert np.allclose(found.seconds, formula.seconds)
    period = batches_of_a_snapshot(job, Measured())
    assert np.isclose(found.snapshots.mean(), formula.snapshots, atol=buckets / 200, rtol=1 / period)
    assert np.isclose(found.requests.mean() / interval, formula.requests, rtol=0.05)


def test_uploads_are_what_was_changed() -> None:
    """All that was changed goes to the storage: once as changelog, and rewritten in snapshots, as far as these were due."""
    job = replace(JOB, snapshot_bytes=1.0)
    found, formula = simulated(job), batch(job, CLUSTER, Measured())
    assert np.allclose(found.uploaded_bytes[1:], formula.uploaded_bytes)
    assert not found.waiting_bytes.any()
    assert (found.snapshots == job.buckets).all()


def test_a_slow_storage_lets_snapshots_wait() -> None:
    """What it cannot take waits, batch after batch."""
    job, cluster = replace(JOB, snapshot_bytes=1.0), replace(CLUSTER, storage_bytes=4e5)
    formula = batch(job, cluster, Measured())
    found = simulated(job, cluster, batches=50)
    took = cluster.storage_bytes * cluster.executors * max(formula.seconds, job.interval)
    assert np.allclose(np.diff(found.waiting_bytes), formula.uploaded_bytes - took)


def test_too_few_requests_make_batches_longer() -> None:
    """A batch cannot be shorter than its requests."""
    cluster = replace(CLUSTER, requests=1.0)
    found = simulated(cluster=cluster)
    assert np.allclose(found.seconds - Measured().batch_seconds, found.requests)


def test_a_lost_executor_costs_a_restore_once() -> None:
    """One of two is lost: its buckets go to the other, which restores them beside its own work."""
    cluster = Cluster(executors=1, cores=4, straggle=0.0, lost_an_hour=EVERYTHING)
    job = replace(JOB, buckets=4)
    usual = batch(job, cluster, Measured()).seconds
    found = simulated(job, cluster, batches=3)
    assert (found.restored == job.buckets).all()
    assert np.allclose(found.seconds, usual + restore_seconds(job, cluster, Measured()))


def test_lost_buckets_go_to_executors_that_have_fewest() -> None:
    """The number of buckets of an executor stays near the mean, whatever was lost."""
    simulation = Simulation(JOB, replace(CLUSTER, lost_an_hour=EVERYTHING / 10), Measured(), seed=3)
    for _ in range(20):
        simulation._lose()
        counts = np.bincount(simulation._home, minlength=CLUSTER.executors)
        assert counts.sum() == JOB.buckets
        assert counts.max() <= 2 * JOB.buckets / (CLUSTER.executors - 2)


def test_unequal_buckets_and_slow_tasks_only_add() -> None:
    """The longest task decides."""
    usual = batch(JOB, CLUSTER, Measured()).seconds
    assert (simulated(replace(JOB, skew=1.0)).seconds > usual).all()
    assert np.median(simulated(cluster=replace(CLUSTER, straggle=0.5)).seconds) > usual


@pytest.mark.parametrize(
    ("tasks", "cores", "longest"),
    [([1.0] * 8, 4, 2.0), ([1.0] * 9, 4, 3.0), ([4, 1, 1, 1], 2, 4.0), ([], 2, 0.0)],
)
def test_makespan(tasks, cores, longest) -> None:
    """A task begins on the core that is free first."""
    assert makespan(tasks, cores) == longest


@pytest.mark.slow
def test_the_command_prints_a_table_and_draws(tmp_path: Path) -> None:
    """Any number can be given."""
    picture = tmp_path / "scale.svg"
    options = "--buckets", "20", "--executors", "4", "--rows-a-second", "1000", "--row-us", "30"
    command = [sys.executable, "-m", "benchmarks.scale", *options, "--picture", picture]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert "processor: 0 of 32 cores" in lines
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
    assert picture.read_text().startswith("<?xml")
