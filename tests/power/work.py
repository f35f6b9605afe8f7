"""What the traced process does: python -m tests.power.work SCENE PLACE MARKS.

It processes batches, closes and opens its runner, loses its local copy, gives up a batch, and writes a savepoint. Each time
that something is done for good, it writes a line to the file of marks.
"""

import random
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pyarrow as pa

from operators import SlidingWindows
from operators import aggregates as agg
from operators.runtime.local import LocalRunner

OPERATOR = SlidingWindows(size=100).group_by("k").aggregate(n=agg.count(), all=agg.collect_list("v"))
SAVEPOINTS = 4


@dataclass(frozen=True)
class Scene:
    """A run of a local runner.

    Attributes:
        backend: its name.
        snapshots: where they go: "folder" or "journal".
        waits: whether each batch waits for the disk.
        batches: how many.
        value: length of each value.
    """

    backend: str
    snapshots: str = "folder"
    waits: bool = True
    batches: int = 12
    value: int = 20

    @property
    def name(self) -> str:
        """A name that `scene_of` reads."""
        return f"{self.backend}-{self.snapshots}-{self.waits}-{self.batches}-{self.value}"

    def runner(self, place: Path) -> LocalRunner:
        """Return a runner on a folder."""
        given = {"state.snapshots.batches": "2", "state.sync": str(self.waits).lower()}
        if self.snapshots == "folder":
            given |= {
                "state.snapshots.folder": str(place / "snapshots"),
                "state.snapshots.retain": "2",
                "state.snapshots.background": "false",
            }
        return OPERATOR.local_runner("at", self.backend, place / "state", given)

    def twin(self) -> LocalRunner:
        """Return a runner that nothing disturbs."""
        return OPERATOR.local_runner("at", "memory")


def scene_of(name: str) -> Scene:
    """Return the scene of a name."""
    backend, snapshots, waits, batches, value = name.split("-")
    return Scene(backend, snapshots, waits == "True", int(batches), int(value))


def batch(scene: Scene, number: int) -> pa.Table:
    """Return a batch of three records, of which each batch has other values."""
    chance = random.Random(number)
    values = [f"{number}:" + chance.randbytes(scene.value // 2).hex() for _ in range(3)]
    return pa.table([["a", "b", f"c{number}"], [40 * number + n for n in range(3)], values], ["k", "at", "v"])


def rows_of(table: pa.Table) -> list[str]:
    """Return rows in one order."""
    return sorted(map(repr, table.to_pylist()))


@cache
def expected(scene: Scene) -> list[tuple[list[str], list[str]]]:
    """Return the rows of each batch of an undisturbed run, and the windows that are open after it."""
    with scene.twin() as runner:
        return [
            (rows_of(runner.process(batch(scene, number))), rows_of(runner.open_windows()))
            for number in range(scene.batches + 1)
        ]


def work(scene: Scene, place: Path, mark: Callable[[str], None]) -> None:
    """Process the batches of a scene."""
    runner = scene.runner(place)
    for number in range(scene.batches):
        happens = number % 6
        if happens == 2:
            runner.abort(batch(replace(scene, value=10), number))
        if happens in (3, 5):
            runner.close()
            if happens == 5:
                shutil.rmtree(place / "state" / f"state-{scene.backend}", ignore_errors=True)
            runner = scene.runner(place)
        runner.process(batch(scene, number))
        mark(f"committed {number + 1}")
        if number % SAVEPOINTS == SAVEPOINTS - 1:
            runner.savepoint(place / "saved" / str(number + 1))
            mark(f"saved {number + 1}")
    runner.close()


def main(name: str, place: str, marks: str) -> None:
    """Work."""
    # Each mark is one call, and nothing of it stays behind.
    with Path(marks).open("ab", buffering=0) as file:
        work(scene_of(name), Path(place), lambda text: file.write(f"{text}\n".encode()))


if __name__ == "__main__":
    main(*sys.argv[1:])
