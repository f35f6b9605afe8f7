"""Executors that are killed when some tasks of a batch have written: no query ends, and every row is there once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.effort import soak
from tests.faults.cluster import Cluster
from tests.faults.kinds import OWN
from tests.faults.plans import BACKENDS, Feed, Plan, committed
from tests.faults.processes import Driver, assert_exact

pytestmark = pytest.mark.slow

FILES = 4
SCENES = [
    pytest.param("chain", "rocksdb", 1),
    *(
        soak(kind, backend, 2)
        for kind in ("sliding", "rolling", "session", "chain", "custom", "cogroup")
        for backend in BACKENDS
    ),
    soak(OWN, "memory", 2),
]
"""Kind, backend, and how many batches with records each of two runs has; Spark adds one without, and kills come in it, too."""


@pytest.fixture(scope="module")
def remote(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, mark: str) -> Iterator[Driver]:
    """A driver with two executors; the cluster starts others in the place of lost ones."""
    started = Driver(tmp_path_factory.mktemp("remote"), mark, master=cluster.url, conf=cluster.conf())
    yield started
    started.stop()


@pytest.mark.parametrize(("kind", "backend", "batches"), SCENES)
def test_a_lost_executor_costs_its_tasks_and_not_the_query(
    tmp_path: Path, remote: Driver, kind: str, backend: str, batches: int
) -> None:
    """Kills in the first batch, in the first one of a run that goes on, and in later ones, some of which take a snapshot."""
    feed = Feed(tmp_path, files=2 * FILES * batches, rows=600, seed=7)
    plan = Plan(
        str(tmp_path / "query"),
        str(tmp_path / "in"),
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
    notes = sorted(note.name for note in Path(plan.folder, "troubles").glob("killed-*"))
    print(f"{kind}, {backend}: {committed(plan)} batches, killed in {notes}")  # noqa: T201
    assert [None, None] == restarts
    assert len(notes) > 2
    assert_exact(remote.judge([plan]))
