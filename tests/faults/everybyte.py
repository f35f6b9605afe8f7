"""Every byte of every file of a small checkpoint, damaged one at a time: python -m tests.faults.everybyte.

After each damage the state is read from copies of the files. There must be exactly the right rows, or an error that names the
file or the blob in it. Damage of a local copy gives the right rows, whatever it is: the journal has all of them.
"""

# ruff: noqa: T201 - a script that prints

import argparse
import logging
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from operators import SlidingWindows
from operators import aggregates as agg
from serializers import SerializationError
from state_backends import StateError
from tests.progress import told
from tests.scratch import temporary

BACKENDS = ("memory", "rocksdb", "spark")
OPERATOR = (
    SlidingWindows(size=100, grace=1_000).group_by("k").aggregate(n=agg.count(), all=agg.collect_list("v"))
)
LAST = pa.table([["a", "c"], [150, 400], ["last", "row"]], ["k", "at", "v"])
RUN = 512
"""Bytes of a sector, which may be lost as a whole."""
ERRORS = (StateError, SerializationError)


@dataclass(frozen=True)
class Scene:
    """A checkpoint, and what reads it.

    Attributes:
        name: for the report.
        folder: that holds it.
        read: returns the rows that come of it, given a folder with a copy.
        named: texts of which each error has one. Without any, no error may come.
        damaged: the folder in it whose files are damaged.
    """

    name: str
    folder: Path
    read: Callable[[Path], object]
    named: tuple[str, ...]
    damaged: str = "."

    def files(self) -> list[Path]:
        """Return its files, without those that hold nothing."""
        return sorted(
            path for path in (self.folder / self.damaged).rglob("*") if path.is_file() and path.stat().st_size
        )


def batches() -> Iterator[pa.Table]:
    """Yield small batches."""
    for number in range(3):
        keys = ["a", "b", "\N{SNOWMAN}"]
        yield pa.table([keys, [40 * number + n for n in range(3)], [f"v{number}"] * 3], ["k", "at", "v"])


def options(root: Path) -> dict[str, str]:
    """Return the options of a runner with its directory: snapshots in a folder beside it, each second batch."""
    return {
        "state.snapshots.folder": str(root / "snapshots"),
        "state.snapshots.batches": "2",
        "state.snapshots.background": "false",
    }


def scenes(root: Path) -> list[Scene]:
    """Return a checkpoint of each backend with snapshots in a folder and without, and a savepoint."""
    found = []
    for backend in BACKENDS:
        for kind in ("folder", "journal"):
            place = root / f"{backend}-{kind}"
            given = options(place) if kind == "folder" else {"state.snapshots.batches": "2"}
            with OPERATOR.local_runner("at", backend, place / "state", given) as runner:
                for table in batches():
                    runner.process(table)
                if (backend, kind) == ("memory", "journal"):
                    runner.savepoint(root / "savepoint" / "saved")
            if backend == "rocksdb":
                copied = place.with_name(f"{place.name}-copy")
                # RocksDB's reports, and options that it does not read.
                shutil.copytree(place, copied, ignore=shutil.ignore_patterns("LOG*", "OPTIONS-*"))
                resumed = Resumed(backend, kind)
                found.append(
                    Scene(f"rocksdb, the local copy, {kind}", copied, resumed, (), "state/state-rocksdb")
                )
            shutil.rmtree(place / "state" / "state-rocksdb", ignore_errors=True)
            found.append(Scene(f"{backend}, snapshots in the {kind}", place, Resumed(backend, kind), NAMED))
    return [*found, Scene("savepoint", root / "savepoint", started, NAMED)]


NAMED = (
    "journal",
    "manifest",
    "snapshot file",
    "savepoint",
    "changelog entry",
    "state pointer",
    "the state of this query",
    "the entry",
    "the blob",
    "stored page",
)


@dataclass(frozen=True)
class Resumed:
    """Continues from a copy of a checkpoint."""

    backend: str
    kind: str

    def __call__(self, place: Path) -> object:
        """Return the rows of one more batch, and the windows that are open after it."""
        given = options(place) if self.kind == "folder" else {"state.snapshots.batches": "2"}
        with OPERATOR.local_runner("at", self.backend, place / "state", given) as runner:
            return rows_of(runner.process(LAST)), rows_of(runner.open_windows())


def started(place: Path) -> object:
    """Return the rows of a batch of a runner that begins from a savepoint, and the windows that are open after it."""
    with OPERATOR.local_runner("at", None, None, {"state.savepoint": str(place / "saved")}) as runner:
        return rows_of(runner.process(LAST)), rows_of(runner.open_windows())


def rows_of(table: pa.Table) -> list[str]:
    """Return rows in one order."""
    return sorted(map(repr, table.to_pylist()))


def damages(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield each damage of a file."""
    for at in range(len(data)):
        yield "flipped", at
        yield "cut", at
        yield "zeroed", at
        if at % 16 == 0:
            yield "a sector zeroed", at


def damaged(data: bytes, how: str, at: int) -> bytes:
    """Return the bytes with one damage."""
    if how == "cut":
        return data[:at]
    if how == "flipped":
        return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
    size = min(RUN if how == "a sector zeroed" else 1, len(data) - at)
    return data[:at] + bytes(size) + data[at + size :]


class EveryByte:
    """Damages the files of a scene one at a time.

    Attributes:
        outcomes: how often there was each, by file and damage.
        failures: what must not be.
    """

    def __init__(self, scene: Scene, scratch: Path) -> None:
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        self._scene = scene
        self._scratch = scratch
        self._expected = self._read()

    def _fresh(self) -> Path:
        shutil.rmtree(self._scratch, ignore_errors=True)
        shutil.copytree(self._scene.folder, self._scratch)
        # Snapshots are found by the folder that the pointer names: the copy takes the place of the original.
        return self._scratch

    def _read(self) -> object:
        return self._scene.read(self._fresh())

    def run(self, cases: Iterable[tuple[Path, str, int]]) -> None:
        """Damage a file, read, and note what came of it."""
        for path, how, at in cases:
            name = path.relative_to(self._scene.folder)
            data = path.read_bytes()
            bad = damaged(data, how, at)
            if bad == data:
                continue
            (self._fresh() / name).write_bytes(bad)
            self._note(f"{name} of {len(data)} bytes {how} at {at}")

    def _note(self, what: str) -> None:
        try:
            found = self._scene.read(self._scratch)
        except ERRORS as error:
            self.outcomes["refused"] += 1
            if not any(one in str(error) for one in self._scene.named):
                self.failures.append(f"{what}: the error names no file: {error}")
        except Exception as error:  # noqa: BLE001 - any other is a failure
            self.failures.append(f"{what}: {type(error).__name__}: {error}")
        else:
            self.outcomes["right"] += 1
            if found != self._expected:
                self.failures.append(f"{what}: WRONG ROWS")


def every_case(scene: Scene) -> list[tuple[Path, str, int]]:
    """Return all damages of all files of a scene."""
    return [(path, how, at) for path in scene.files() for how, at in damages(path.read_bytes())]


def main() -> int:
    """Damage, and return 1 if wrong rows came, or an error that names nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.everybyte", description=__doc__)
    parser.add_argument("--sample", type=int, help="so many of each scene's damages; by default all")
    parser.add_argument("--only", default="", help="scenes by a part of their name")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the sample")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    failures = 0
    logging.disable(logging.WARNING)  # of damaged snapshots
    with temporary("everybyte") as folder:
        for scene in scenes(Path(folder, "scenes")):
            if chosen.only in scene.name:
                failures += run(scene, Path(folder, "copy"), chosen.sample, random.Random(chosen.seed))
    return 1 if failures else 0


def run(scene: Scene, scratch: Path, sample: int | None, rng: random.Random) -> int:
    """Damage the files of one scene, say what came of it, and return the number of failures."""
    cases, began = every_case(scene), time.monotonic()
    torment = EveryByte(scene, scratch)
    chosen = cases if sample is None or sample > len(cases) else rng.sample(cases, sample)
    torment.run(told(scene.name, chosen, len(chosen)))
    for failure in torment.failures[:20]:
        print(f"FAILED {failure[:400]}")
    done = ", ".join(f"{outcome} {times}" for outcome, times in sorted(torment.outcomes.items()))
    print(
        f"{scene.name}: {len(scene.files())} files, {done}, {len(torment.failures)} failures, "
        f"{time.monotonic() - began:.0f} s",
        flush=True,
    )
    return len(torment.failures)


if __name__ == "__main__":
    sys.exit(main())
