"""Power losses at moments of recorded runs: a part of what `python -m tests.power` tries."""

import logging
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.power.disk import Tree, Uniform, after
from tests.power.losses import Losses
from tests.power.trace import why_not
from tests.power.work import Scene

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]
SHARES = {"memory": 0.03, "rocksdb": 0.004, "spark": 0.1}
"""Of the moments. RocksDB has more of them, and each disk takes longer."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Warnings of snapshots that were not completed are no news here."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@dataclass(frozen=True)
class Recorded:
    """A run, and the files that it left."""

    scene: Scene
    folder: Path
    left: Tree

    def losses(self) -> Losses:
        """Return what loses power at its moments."""
        return Losses(self.scene, self.folder)


Runs = Callable[[str], Recorded]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs on each backend, recorded once."""

    @cache
    def recorded(backend: str) -> Recorded:
        losses = Losses(Scene(backend), tmp_path_factory.mktemp("power"))
        return Recorded(losses.scene, losses.folder, losses.record())

    return recorded


@pytest.mark.parametrize("backend", SHARES)
def test_machine_repeats_what_the_process_did(backend: str, runs: Runs) -> None:
    """At the end of the run, the files that the machine has are those that the process left."""
    last = None
    for machine, _ in runs(backend).losses().replay():
        last = machine
    assert last is not None
    assert after(last.root, Uniform("all", names=True)) == runs(backend).left
    assert len(last.marked) == 15


@pytest.mark.parametrize("backend", SHARES)
def test_state_outlives_a_power_loss(backend: str, runs: Runs) -> None:
    """What is left of it has all batches that had returned, whole, and continues as if nothing had been."""
    losses = runs(backend).losses()
    losses.run(SHARES[backend], 4, random.Random(18), most=3)
    assert not losses.faults
    assert losses.disks > 10


@pytest.mark.parametrize(
    ("what", "backend", "lost"),
    [
        ("journal-wal$", "spark", "had returned"),
        ("files/[^/]*$", "memory", "snapshot file"),
        (r"/\d+-[0-9a-f]{16}\.json", "memory", "manifest"),
        ("entries/[^/]*$", "memory", "savepoint"),
        (r"savepoint\.json", "memory", "savepoint"),
        ("/files$", "memory", "is missing"),
        ("/entries$", "memory", "is missing"),
        ("/place$", "memory", "had returned"),
    ],
)
def test_sync_that_is_left_out_is_noticed(what: str, backend: str, lost: str, runs: Runs) -> None:
    """Without the syncs of one sort of file, something is lost that had been acknowledged: the test above can fail."""
    assert lost in runs(backend).losses().first_fault(re.compile(what))


def test_without_waiting_the_last_batches_are_lost(tmp_path: Path) -> None:
    """With `state.sync` off, the state is an earlier one, whole."""
    losses = Losses(Scene("memory", waits=False), tmp_path)
    losses.record()
    losses.run(0, 1, random.Random(18), most=3)
    assert not losses.faults
    assert max(losses.lost) > 0
