"""Two applications of one user on the same hosts: what one leaves there when it ends, and what the other notices of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.faults.cluster import HOSTS, Cluster
from tests.faults.hosts import Host
from tests.faults.plans import BACKENDS, Feed, Plan, more_batches, plans_for
from tests.faults.processes import Driver, assert_exact, kill, python_daemons
from tests.patience import wait_until
from tests.state_processes import is_ours, starters, state_processes

pytestmark = pytest.mark.soak
_HALF = {"spark.executor.cores": "1", "spark.cores.max": "2", "spark.executor.memory": "500m"}
_SOCKETS = "spark-windows-*"
"""The folder of sockets on a host's disk."""


def ours(rooms: Mapping[str, Host]) -> set[int]:
    """The processes for state on all hosts, and those that fork them."""
    members = [pid for room in rooms.values() for pid in room.processes()]
    return {pid for pid in members if is_ours(pid)}


def wait_for_batches(driver: Driver, plans: Sequence[Plan], feed: Feed, count: int) -> None:
    """Wait until each query of a driver has so many batches more."""
    more = more_batches(plans, feed, count)

    def there() -> bool:
        assert not driver.waits(), driver.answer()
        return more()

    wait_until(there, "batches", driver.moved)


@pytest.mark.parametrize("reuse", ["true", "false"])
def test_an_application_that_ends_leaves_nothing_and_the_other_goes_on(
    tmp_path: Path, hosts: Cluster, rooms: dict[str, Host], reuse: str
) -> None:
    """With workers that are used again and those that are not; an executor and a daemon of workers are killed on the way."""
    conf = {**_HALF, "spark.python.worker.reuse": reuse}
    before = ours(rooms)
    with hosts.driver(tmp_path / "stays", conf) as stays:
        feeds = [Feed(tmp_path / name, files=60, rows=300, seed=3) for name in ("one", "other")]
        mine = plans_for(tmp_path / "one", BACKENDS, until=str(tmp_path / "end"))
        stays.ask("run", mine)
        wait_for_batches(stays, mine, feeds[0], 2)
        first = ours(rooms) - before
        with hosts.driver(tmp_path / "ends", conf) as ends:
            others = plans_for(tmp_path / "other", BACKENDS, until=str(tmp_path / "end"))
            ends.ask("run", others)
            wait_for_batches(ends, others, feeds[1], 2)
            second = ours(rooms) - before - first
            assert second
            executors = [hosts.executors(host)[0] for host in HOSTS]
            daemons = [daemon for executor in executors for daemon in python_daemons(executor)]
            gone = {*state_processes(daemons), *starters(daemons)}
            kill(python_daemons(executors[0])[0])
            kill(executors[1])
            wait_for_batches(stays, mine, feeds[0], 3)
            wait_for_batches(ends, others, feeds[1], 3)
            wait_until(lambda: not gone & ours(rooms), "the end of their processes", stays.moved)
            (tmp_path / "end").touch()
            assert not any(ends.answer())
            assert_exact(ends.judge(others))
        assert not any(stays.answer())
        assert_exact(stays.judge(mine))
    wait_until(lambda: not ours(rooms) - before, "the end of all processes", lambda: ours(rooms))
    sockets = [len([*folder.iterdir()]) for room in rooms.values() for folder in room.disk.glob(_SOCKETS)]
    print(f"{len(first)} and {len(second)} processes; {sockets} files beside sockets at the end")  # noqa: T201
