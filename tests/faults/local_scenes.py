"""What a killed local runner does: a scene, which goes on from whatever the processes before have left."""

import json
import os
import random
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from operators import (
    HoppingWindows,
    RollingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from operators import aggregates as agg
from operators.runtime.local import LocalRunner
from state_backends.checkpoints.savepoint import HEADER
from state_backends.durability.pointer import read_pointer
from state_backends.durability.uploads import Uploads
from state_backends.sqlite_journal import SqliteJournal
from tests.faults.runs import Runs

BEGAN, WORKS, UPLOADS, SAVES, BOOTSTRAPS, EVOLVES = (
    "began",
    "works",
    "uploads",
    "saves",
    "bootstraps",
    "evolves",
)
PHASES = (BEGAN, WORKS, UPLOADS, SAVES, BOOTSTRAPS, EVOLVES)
"""What a process says that it does; the first letters are what it writes."""
LOST = "lost"
"""In place of the rows of a batch that was committed before the process that had its rows was killed."""

_RESULTS = {"n": agg.count(), "total": agg.sum("v"), "low": agg.min("v")}
_MORE = {"mean": agg.avg("x"), "high": agg.max("x"), "last": agg.last("v")}
_BATCH_MS = 400
_FEW_ROWS = 120
"""With more, keys have hundreds of event times in their windows, and so several pages in a segment."""


_GRACE = "500 ms"
WINDOWS: dict[str, Any] = {
    "sliding": SlidingWindows("1 second", grace=_GRACE),
    "hopping": HoppingWindows("1 second", "250 ms", grace=_GRACE),
    "tumbling": TumblingWindows("700 ms", grace=_GRACE),
    "session": SessionWindows("40 ms", grace=_GRACE),
    "rolling": RollingWindows({"short": "100 ms", "long": "1 second", "ever": "lifetime"}, _GRACE),
}
KINDS = (*WINDOWS, "session on update", "custom")


@dataclass(frozen=True)
class Scene:
    """What a run of processes does, one after another, until it is done.

    Attributes:
        seed: of everything that is random in it.
        backend: of its state.
        kind: of its operator, one of `KINDS`.
        batches: how many; the state moves to another directory by a savepoint after a third of them, and the operator gets more
            aggregates after two thirds.
        rows: of each batch.
        options: of the state, with {folder} for the scene's folder.
        rows_first: whether a batch's rows are recorded before its commit, as a sink on Spark does it, and not after it.
    """

    seed: str
    backend: str
    kind: str
    batches: int
    rows: int
    options: dict[str, str]
    rows_first: bool

    @property
    def moves(self) -> int:
        """The first batch in the second directory."""
        return self.batches // 3

    @property
    def evolves(self) -> int:
        """The first batch under the changed operator, if the operator can be changed."""
        return self.batches if self.kind == "custom" else 2 * self.batches // 3

    def operator(self, batch: int) -> Any:
        """Return the operator of a batch."""
        if self.kind == "custom":
            return Runs(grace=_GRACE).group_by("k")
        windows = WINDOWS[self.kind.removesuffix(" on update")].group_by("k")
        made = windows.aggregate(**_RESULTS, **(_MORE if batch >= self.evolves else {}))
        return made.emit("on_update") if self.kind.endswith("on update") else made

    def table(self, batch: int) -> pa.Table:
        """Return the records of a batch: out of order, with ties, some of them late."""
        rng = np.random.default_rng([*self.seed.encode(), batch])
        ms = batch * _BATCH_MS + rng.integers(0, _BATCH_MS, self.rows) - rng.integers(0, 600, self.rows)
        keys = [None if k == 7 else f"key-{k}" for k in rng.integers(0, 8, self.rows)]
        tick = 1 if self.rows > _FEW_ROWS else 5
        times = pa.array(1_700_000_000_000 + ms // tick * tick, pa.timestamp("ms", "UTC"))
        values = {"v": rng.integers(-100, 100, self.rows), "x": rng.integers(0, 1_000, self.rows) / 8}
        return pa.table({"k": pa.array(keys, pa.string()), "at": times, **values})

    def twin(self) -> "Scene":
        """Return the scene as it is compared with: in memory, with snapshots in the journal."""
        return Scene(self.seed, "memory", self.kind, self.batches, self.rows, {}, rows_first=False)


def scene_of(seed: int, number: int, backend: str) -> Scene:
    """Return a scene of a soak."""
    name = f"{seed}-{number}"
    chance = random.Random(name)
    options = {
        "state.snapshots.batches": str(chance.choice((1, 2, 3, 7))),
        "state.snapshots.bytes": chance.choice(("1k", "4k", "16m")),
        "state.snapshots.retain": str(chance.choice((1, 2, 5))),
        "state.snapshots.background": chance.choice(("true", "false")),
    }
    if chance.random() < 0.7:
        options["state.snapshots.folder"] = "{folder}/snapshots"
    kind = KINDS[number % len(KINDS)]
    batches, rows = chance.choice((24, 36, 60)), chance.choice((5, 30, _FEW_ROWS, 1_000))
    return Scene(name, backend, kind, batches, rows, options, rows_first=chance.random() < 0.75)


class WrongRowsError(AssertionError):
    """A batch that was repeated had other rows than before."""


class Actor:
    """A process that plays a scene from where it was left.

    Args:
        scene: to play.
        folder: where everything of the scene lies.
        say: is told what the process does now.
    """

    def __init__(self, scene: Scene, folder: Path, say: Callable[[str], None]) -> None:
        self._scene = scene
        self._folder = folder
        self._say = say
        self._rows = folder / "rows"
        self._rows.mkdir(parents=True, exist_ok=True)
        announce_uploads(say)

    def play(self) -> None:
        """Do all that is left, and note the open windows at the end."""
        scene = self._scene
        if not (self._folder / "saved" / HEADER).exists():
            self._run(self._folder / "first", 0, scene.moves, save=True)
        self._run(self._folder / "second", scene.moves, scene.evolves, last=scene.evolves == scene.batches)
        if scene.evolves < scene.batches:
            self._run(self._folder / "second", scene.evolves, scene.batches, last=True)

    def _run(self, directory: Path, first: int, end: int, *, save: bool = False, last: bool = False) -> None:
        """Process the batches of a part that are left."""
        at = max(first, self._next_batch(directory, first))
        if at >= end and not save and not last:
            return
        with self._runner(directory, at) as runner:
            if at >= end:
                runner.abort(self._scene.table(0).slice(0, 0))  # binds the operator, and is no batch
            for batch in range(at, end):
                self._say(self._phase(batch))
                self._batch(runner, batch)
                self._say(WORKS)
            if save:
                self._say(SAVES)
                runner.savepoint(self._folder / "saved")
                self._say(WORKS)
            if last:
                self._write("open", lines(runner.open_windows()))

    def _phase(self, batch: int) -> str:
        phases = {self._scene.moves: BOOTSTRAPS, self._scene.evolves: EVOLVES}
        return phases.get(batch, WORKS)

    def _next_batch(self, directory: Path, first: int) -> int:
        """Return the number of the next batch as the journal has it."""
        if not (directory / "journal").exists():
            return first
        with closing(SqliteJournal(directory / "journal")) as journal:
            pointer = read_pointer(journal)
        at = first if pointer is None else pointer.progress.sequence
        lost = self._rows / str(at - 1)
        if at > first and not lost.exists() and not self._scene.rows_first:
            self._write(lost.name, [LOST])
        return at

    def _runner(self, directory: Path, batch: int) -> LocalRunner:
        options = {
            key: value.replace("{folder}", str(self._folder)) for key, value in self._scene.options.items()
        }
        if batch >= self._scene.moves and directory.name == "second":
            options["state.savepoint"] = str(self._folder / "saved")
        if batch >= self._scene.evolves:
            options["state.evolution"] = "adapt"
        return self._scene.operator(batch).local_runner("at", self._scene.backend, directory, options)

    def _batch(self, runner: LocalRunner, batch: int) -> None:
        table = self._scene.table(batch)
        if not self._scene.rows_first:
            self._write(str(batch), lines(runner.process(table)))
            return
        journal = runner._journal
        runner._journal = held = HeldJournal(journal)
        try:
            self._write(str(batch), lines(runner.process(table)))
        finally:
            runner._journal = journal
        held.commit_now()

    def _write(self, name: str, found: list[str]) -> None:
        """Record rows, whole or not at all; those of a batch that is repeated must be the same."""
        path, text = self._rows / name, "\n".join(found)
        if path.exists():
            if path.read_text() != text:
                raise WrongRowsError(f"batch {name} was repeated, and its rows are others than before")
            return
        aside = self._rows / f"aside-{os.getpid()}"
        aside.write_text(text)
        aside.rename(path)


class HeldJournal:
    """A journal whose commit comes later, as Spark commits state after the rows are written."""

    def __init__(self, journal: Any) -> None:
        self.get, self.put, self.remove = journal.get, journal.put, journal.remove
        self.rollback, self.commit_now = journal.rollback, journal.commit

    def commit(self) -> None:
        """Wait for `commit_now`."""


def announce_uploads(say: Callable[[str], None]) -> None:
    """Have snapshots say when they begin."""
    begin = Uploads.begin

    def announced(self: Uploads, *args: Any) -> None:
        say(UPLOADS)
        begin(self, *args)

    setattr(Uploads, "begin", announced)  # noqa: B010 - a method of a class whose type says what it is


def lines(table: pa.Table) -> list[str]:
    """Return rows in one order."""
    return sorted(map(repr, table.to_pylist()))


def differences(scene: Scene, folder: Path, twin: Path) -> list[str]:
    """Return what of a scene's rows is not as in its twin; rows that were lost with their caller are no difference."""
    found = []
    for name in [*map(str, range(scene.batches)), "open"]:
        path, expected = folder / "rows" / name, (twin / "rows" / name).read_text()
        if not path.exists():
            found.append(f"batch {name} was never recorded")
        elif path.read_text() not in (expected, LOST):
            found.append(f"batch {name} has\n{path.read_text()[:600]}\nin place of\n{expected[:600]}")
    return found


def lost(folder: Path) -> int:
    """Return how many batches were committed by a process that was killed before it could record their rows."""
    return sum(path.read_text() == LOST for path in (folder / "rows").iterdir())


def play_all(scene: Scene, folder: Path) -> dict[str, float]:
    """Play a scene undisturbed, and return how long each phase took at most."""
    longest: dict[str, float] = {}
    since = [BEGAN, time.monotonic()]

    def say(phase: str) -> None:
        now = time.monotonic()
        longest[str(since[0])] = max(longest.get(str(since[0]), 0.0), now - float(since[1]))
        since[:] = phase, now

    Actor(scene, folder, say).play()
    say(WORKS)
    (folder / "longest").write_text(json.dumps(longest))
    return longest
