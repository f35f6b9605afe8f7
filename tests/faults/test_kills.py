"""Queries whose drivers and workers are killed with SIGKILL in mid-batch, against the result of undisturbed ones."""

from pathlib import Path

import pytest

from tests.faults.plans import CHAIN_AND_KINDS, Feed, plans_for
from tests.faults.processes import assert_exact
from tests.faults.torment import Torment, victims


def test_a_query_outlives_a_worker_and_its_driver(tmp_path: Path, seed: int, mark: str) -> None:
    """Workers are killed until one of them dies in a task, then the driver: every row comes once."""
    feed = Feed(tmp_path, files=60, rows=600, seed=5)
    torment = Torment(tmp_path, plans_for(tmp_path, ["rocksdb"]), feed, seed, mark)
    torment.kill_workers_in_a_task()
    torment.kill_driver()
    assert_exact(torment.finish())


@pytest.mark.soak
def test_queries_killed_at_random_times_end_with_the_rows_of_undisturbed_ones(
    tmp_path: Path, backends: list[str], seed: int, mark: str, request: pytest.FixtureRequest
) -> None:
    """Drivers, process groups and workers are killed, local state is deleted or set back: every row comes once."""
    workers, drivers = request.config.getoption("--worker-kills"), request.config.getoption("--driver-kills")
    feed = Feed(tmp_path, files=20 + 10 * (workers + drivers), rows=600, seed=5)
    torment = Torment(tmp_path, plans_for(tmp_path, backends, kinds=CHAIN_AND_KINDS), feed, seed, mark)
    for victim in victims(workers, drivers, seed):
        done = torment.kill_driver() if victim == "driver" else torment.kill_workers()
        print(f"batches {torment.batches}: {done}")  # noqa: T201 - what a failure came after
    assert workers + drivers == torment.kills.total()
    torment.kill_workers_in_a_task()
    verdicts = torment.finish()
    print(torment.starts, "starts,", torment.lost_tasks(), "lost tasks,", torment.errors)  # noqa: T201
    assert_exact(verdicts)
    assert torment.lost_tasks() > 0
