"""Executors that are killed when some tasks of a batch have written: no query ends, and every row is there once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cluster import Cluster
from tests.faults.kinds import OWN
from tests.faults.plans import BACKENDS, Feed, Plan, committed, counted, notes_of
from tests.faults.processes import Driver, assert_exact

pytestmark = pytest.mark.slow

FILES = 4


@pytest.fixture(scope="module")
def remote(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver with two executors; the cluster starts others in the place of lost ones."""
    with cluster.driver(tmp_path_factory.mktemp("remote")) as started:
        yield started


def test_a_lost_executor_costs_its_tasks_and_not_the_query(tmp_path: Path, remote: Driver) -> None:
    """Kills in the first batch, in the first one of a run that goes on, and in later ones, some of which take a snapshot."""
    _lose(tmp_path, remote, "chain", "rocksdb", batches=1)


@pytest.mark.soak
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["sliding", "rolling", "session", "chain", "custom", "cogroup"])
def test_operators_of_all_kinds_lose_executors(
    tmp_path: Path, remote: Driver, kind: str, backend: str
) -> None:
    """More batches, so that each kind of batch is hit."""
    _lose(tmp_path, remote, kind, backend, batches=2)


@pytest.mark.soak
def test_sparks_own_chain_loses_executors(tmp_path: Path, remote: Driver) -> None:
    """What the others are compared with."""
    _lose(tmp_path, remote, OWN, "memory", batches=2)


def _lose(folder: Path, remote: Driver, kind: str, backend: str, batches: int) -> None:
    """Run a query twice, and kill an executor in nearly every batch.

    Args:
        batches: with records, in each of the two runs. Spark adds one without, and kills come in it, too.
    """
    feed = Feed(folder, files=2 * FILES * batches, rows=600, seed=7)
    plan = Plan(
        str(folder / "query"),
        str(folder / "in"),
        backend,
        kind,
        trouble="Killed",
        files=FILES,
        conf={"spark.windows.state.snapshots.batches": "2"},
    )
    restarts: list[str | None] = []
    for _ in range(2):
        feed.give(FILES * batches)
        restarts += remote.run([plan])
    kills = notes_of(plan, "killed")
    (verdict,) = remote.judge([plan])
    counts = f"{committed(plan)} batches, {verdict['rows']} rows"
    print(f"{kind}, {backend}: {counts}, seconds to the commit: {kills}")  # noqa: T201
    assert [None, None] == restarts
    assert len(kills) > 2
    assert_exact([verdict])
    if kind != OWN:  # What a task counted that ran twice counts once.
        name = "first" if kind == "chain" else "windows"
        told = [counted(plan, f"{name}_in", "rows"), counted(plan, f"{name}_out", "rows")]
        assert [600 * feed.given] * 2 == told
        assert 0 == counted(plan, f"{name}_out", "late")
