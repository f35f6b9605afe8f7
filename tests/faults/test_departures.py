"""Executors that leave in other ways, and shuffles that are lost while they live: no query ends, and no row is lost."""

import re
from pathlib import Path

import pytest

from tests.faults.cluster import HOSTS, Cluster
from tests.faults.kinds import OWN
from tests.faults.plans import Feed, Plan, committed, notes_of, plans_for
from tests.faults.processes import Driver, assert_exact
from tests.faults.query import TOLD
from tests.faults.troubles import KilledInARow
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.soak]

FILES = 4
KINDS = [("chain", "rocksdb"), ("rolling", "memory"), ("session", "spark"), (OWN, "memory")]
"""Kinds and backends. Spark's own windows bear each scene, too."""
_ALIVE = {"spark.executor.cores": "1"}
_DECOMMISSION = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "1s",
}
SCENES = [
    pytest.param("Decommissioned", "told", _DECOMMISSION, "Migrated ", id="decommissioned"),
    pytest.param(
        "OutOfMemory", "filled", {"spark.executor.memory": "512m"}, "OutOfMemoryError", id="no memory"
    ),
    pytest.param("ShuffleGone", "deleted", _ALIVE, "FetchFailed", id="files of the shuffle are gone"),
]
"""A step behind the operator, what its notes say, the conf, and what executors or the driver say of it in their logs."""
_DYNAMIC = {
    **_ALIVE,
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "2",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
}
_ROUNDS = 3
_BORNE = 4
"""Losses in a row that end a query, by Spark's own conf."""


def _logs(cluster: Cluster, driver: Driver) -> dict[Path, str]:
    """What the executors and the driver have said."""
    return cluster.logs() | {driver.log: driver.log.read_text(errors="replace")}


@pytest.mark.parametrize(("trouble", "what", "conf", "said"), SCENES)
def test_no_query_ends(
    tmp_path: Path, cluster: Cluster, trouble: str, what: str, conf: dict[str, str], said: str
) -> None:
    """In most batches, after some tasks have written."""
    with cluster.driver(tmp_path / "driver", conf) as driver:
        for kind, backend in KINDS:
            folder = tmp_path / kind
            feed = Feed(folder, files=2 * FILES, rows=600, seed=7)
            plan = Plan(
                str(folder / "query"), str(folder / "in"), backend, kind, trouble=trouble, files=FILES
            )
            before = _logs(cluster, driver)
            errors: list[str | None] = []
            for _ in range(2):
                feed.give(FILES)
                errors += driver.run([plan])
            (verdict,) = driver.judge([plan])
            after = _logs(cluster, driver)
            events = sum(log.removeprefix(before.get(path, "")).count(said) for path, log in after.items())
            shown = f"{committed(plan)} batches, {verdict['rows']} rows, {len(after) - len(before)} executors more"
            print(f"{trouble}, {kind}, {backend}: {shown}, {events} x {said}, {notes_of(plan, what)}")  # noqa: T201
            assert [None, None] == errors
            assert len(notes_of(plan, what)) > 2
            assert events > 0
            assert_exact([verdict])


@pytest.mark.parametrize(("kind", "backend"), [("sliding", "rocksdb"), (OWN, "memory")])
def test_more_losses_than_spark_bears_end_a_query_and_are_told(
    tmp_path: Path, cluster: Cluster, kind: str, backend: str
) -> None:
    """A task that takes each executor with it: the error says which, and that the query may be started again; it goes on."""
    Feed(tmp_path, files=FILES, rows=600, seed=9).give(FILES)
    folder, source = str(tmp_path / "query"), str(tmp_path / "in")
    plan = Plan(folder, source, backend, kind, trouble="KilledInARow", files=FILES)
    with cluster.driver(tmp_path / "driver") as driver:
        (error,) = driver.run([plan])
        assert error is not None
        told = error.partition(TOLD)[2]
        print(f"{kind}: {told}")  # noqa: T201
        named = r"(?:\d named: executor \d+[^;]*; )?"
        found = re.match(
            rf"executors of Spark were lost \({named}(\d+) in the last ten minutes: ((?:executor \d+(?:, )?)+)\)",
            told,
        )
        assert found is not None, error
        number = int(found[1])
        assert number == found[2].count("executor")
        assert number >= _BORNE - 1  # Spark may hear of the last one later.
        assert "start it again" in told
        assert "spark.stage.maxConsecutiveAttempts" in told
        Path(plan.folder, "troubles", KilledInARow.SPARED).touch()
        assert [None] == driver.run([plan])
        assert_exact(driver.judge([plan]))


def test_executors_come_and_go_with_the_load(tmp_path: Path, cluster: Cluster) -> None:
    """Dynamic allocation takes all executors when nothing comes, with what they hold, and gives others when records come."""
    feed = Feed(tmp_path, files=2 * _ROUNDS, rows=600, seed=8)
    kinds = ("chain", "rolling", "session")
    plans = plans_for(tmp_path, ["rocksdb", "memory", "spark"], until=str(tmp_path / "end"), kinds=kinds)
    plans.append(
        Plan(str(tmp_path / "own"), str(tmp_path / "in"), "memory", OWN, until=str(tmp_path / "end"))
    )
    before = cluster.logs()

    def running() -> int:
        return sum(len(cluster.executors(host)) for host in HOSTS)

    with cluster.driver(tmp_path / "driver", _DYNAMIC) as driver:
        driver.ask("run", plans)
        for _ in range(_ROUNDS):
            feed.give(2)
            wait_until(lambda: running() > 0 or driver.waits(), "executors that come", driver.moved)
            wait_until(lambda: running() == 0 or driver.waits(), "executors that go", driver.moved)
            assert not driver.waits(), driver.answer()
        (tmp_path / "end").touch()
        errors = driver.answer()
        verdicts = driver.judge(plans)
    executors = len(cluster.logs()) - len(before)
    counts = (
        f"{[committed(plan) for plan in plans]} batches, {[verdict['rows'] for verdict in verdicts]} rows"
    )
    print(f"{counts}, {executors} executors")  # noqa: T201
    assert [None] * len(plans) == errors
    assert executors >= 2 * _ROUNDS - 1
    assert_exact(verdicts)
