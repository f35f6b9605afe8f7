"""Queries whose drivers and workers are killed with SIGKILL in mid-batch, against the result of undisturbed ones."""

from pathlib import Path

import pytest

from tests.faults.plans import CHAIN_AND_KINDS, Feed, plans_for
from tests.faults.processes import assert_exact
from tests.faults.torment import Torment, victims


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
    verdicts = torment.finish()
    print(torment.starts, "starts,", torment.lost_tasks(), "lost tasks,", torment.errors)  # noqa: T201
    assert_exact(verdicts)
    assert workers + drivers == torment.kills.total()
    assert torment.lost_tasks() > 0
