"""Power losses at the moments of a recorded run, and what is left after each."""

import hashlib
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.power.disk import UNIFORM, Chance, Loss, Tree, after
from tests.power.judge import Verdict, judge, lay_out
from tests.power.machine import Machine, moments
from tests.power.trace import calls, record
from tests.power.work import Scene
from tests.progress import told

_UNIMPORTANT = re.compile(r"/LOG(\.old\.\d+)?$|-shm$")
"""RocksDB's messages, and an index that SQLite makes anew: they change often, and hold no state."""
_FIRST, _LATER = 16, 1 / 64
"""Thousands of calls in a row write a large file: so many of them are moments of a power loss, and this share of the others."""


@dataclass
class Losses:
    """The disks that power losses leave of one run, and what they are worth.

    Attributes:
        scene: that ran.
        folder: for the record of the calls, and for the disks, which are where the run had its files.
        moments: how many there were.
        losses: how many there were, of all ways at all moments.
        lost: by how many batches the states were older than the last that had returned.
        faults: what must not be.
    """

    scene: Scene
    folder: Path
    moments: int = 0
    losses: int = 0
    lost: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _known: dict[bytes, Verdict] = field(default_factory=dict)

    @property
    def disks(self) -> int:
        """How many different disks were left."""
        return len(self._known)

    @property
    def place(self) -> Path:
        """Where the run had its files."""
        return self.folder / "place"

    @property
    def marks(self) -> Path:
        """Where the run says what is done."""
        return self.folder / "marks"

    def record(self) -> Tree:
        """Run the scene, record its calls, and return what it left."""
        self.place.mkdir(parents=True)
        program = [sys.executable, "-m", "tests.power.work"]
        record([*program, self.scene.name, str(self.place), str(self.marks)], self.folder / "calls")
        return {
            str(path.relative_to(self.place)): None if path.is_dir() else path.read_bytes()
            for path in self.place.rglob("*")
        }

    def replay(self, forgets: re.Pattern[str] | None = None) -> Iterator[tuple[Machine, str]]:
        """Repeat the calls, and yield the machine at each moment, with the path of what changed."""
        machine = Machine(str(self.place), str(self.marks))
        for path in moments(machine, calls(self.folder / "calls"), forgets):
            if not _UNIMPORTANT.search(path):
                self.moments += 1
                yield machine, path

    def run(self, share: float, chances: int, rng: random.Random, most: int | None = None) -> None:
        """Cut the power at moments of the run, in several ways, and note what is wrong with what is left.

        Args:
            share: of the moments, but for most of a large file's; the power is cut after each mark in any case.
            chances: at each of them, how many losses by chance, beside those that are the same everywhere.
            rng: makes the choices.
            most: how many ways are tried at each moment; by default all.
        """
        before, row = "", 0
        for machine, path in told(f"{self.scene.name}, moments", self.replay()):
            before, row = path, row + 1 if path == before else 0
            if path == machine.marks or rng.random() < share * (1 if row < _FIRST else _LATER):
                ways = [*UNIFORM, *(Chance(rng.randrange(1 << 48)) for _ in range(chances))]
                for way in ways if most is None else rng.sample(ways, most):
                    self._lose(machine, way, path)
        shutil.rmtree(self.place, ignore_errors=True)

    def first_fault(self, forgets: re.Pattern[str]) -> str:
        """Cut the power after marks, without the syncs of some paths, until something is wrong; return what it is."""
        for machine, path in self.replay(forgets):
            for way in UNIFORM if path == machine.marks else ():
                self._lose(machine, way, path)
            if self.faults:
                return self.faults[0]
        return ""

    def _lose(self, machine: Machine, way: Loss, path: str) -> None:
        verdict = self._verdict(after(machine.root, way))
        self.losses += 1
        done = sum(mark.startswith("committed") for mark in machine.marked)
        self.lost[max(0, done - verdict.batches)] += 1
        for fault in verdict.faults(machine.marked, waits=self.scene.waits):
            self.faults.append(f"moment {self.moments} ({path}), {way}: {fault}")

    def _verdict(self, tree: Tree) -> Verdict:
        digest = hashlib.sha256()
        for name, data in tree.items():
            if not _UNIMPORTANT.search(f"/{name}"):
                digest.update(repr((name, data and hashlib.sha256(data).digest())).encode())
        key = digest.digest()
        if key not in self._known:
            lay_out(tree, self.place)
            self._known[key] = judge(self.scene, self.place)
        return self._known[key]
