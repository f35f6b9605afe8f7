"""Two executors: speculative attempts, and executors and machines that are lost in mid-query."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.effort import soak
from tests.faults.cluster import HOSTS, Cluster
from tests.faults.plans import Feed, committed, in_flight, plans_for
from tests.faults.processes import Driver, assert_exact
from tests.patience import wait_until

pytestmark = pytest.mark.slow

_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.python.task.killTimeout": "500ms",
}


@pytest.fixture(scope="module")
def remote(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver whose tasks run on the cluster."""
    with cluster.driver(tmp_path_factory.mktemp("remote"), _SPECULATION) as started:
        yield started


@pytest.mark.soak
def test_speculative_attempts_leave_no_trace(tmp_path: Path, remote: Driver, backends: list[str]) -> None:
    """Two attempts of a task do all their work on two executors; whichever wins, each row comes once."""
    Feed(tmp_path, files=4, rows=600, seed=4).give(4)
    plans = plans_for(tmp_path, backends, trouble="Overtaken")
    assert not any(remote.run(plans))
    assert_exact(remote.judge(plans))
    for plan in plans:
        notes = [note.name.split("-") for note in Path(plan.folder, "troubles").iterdir()]
        twins = {batch for what, batch, _, _ in notes if what == "twin"}
        winners = {note[3] for note in notes if (note[0], note[2]) == ("done", "0") and note[1] in twins}
        assert {"0", "1"} == winners


@pytest.mark.parametrize("step", [soak(2), soak(1)])
def test_a_lost_executor_costs_no_row(
    tmp_path: Path, cluster: Cluster, remote: Driver, backends: list[str], step: int
) -> None:
    """An executor is killed, then a worker with its executor: the queries go on, here or on the other one, and none ends.

    Every backend or every second one: `test_lost_executors` has the one between.
    """
    for host in HOSTS:
        cluster.start_worker(host)
    feed = Feed(tmp_path, files=240, rows=600, seed=6)
    plans = plans_for(tmp_path, backends[::step], until=str(tmp_path / "end"))
    remote.ask("run", plans)
    restarts: list[str] = []

    def lose(host: str, how: Callable[[str], None]) -> None:
        """Lose it in mid-batch, after a batch of each query."""
        done = [committed(plan) for plan in plans]

        def there() -> bool:
            if remote.waits():
                restarts.extend(error for error in remote.answer() if error)
                remote.ask("run", plans)
            feed.give_if_idle(plans)
            went_on = all(committed(plan) > then for plan, then in zip(plans, done, strict=True))
            return went_on and any(map(in_flight, plans)) and bool(cluster.executors(host))

        wait_until(there, "a batch that runs", remote.moved)
        how(host)

    lose(HOSTS[0], cluster.kill_executor)
    lose(HOSTS[1], cluster.kill_worker)
    (tmp_path / "end").touch()
    while any(errors := remote.answer()):
        restarts.extend(error for error in errors if error)
        remote.ask("run", plans)
    print(f"{[committed(plan) for plan in plans]} batches, restarts: {restarts}")  # noqa: T201
    assert_exact(remote.judge(plans))
    assert [] == restarts
