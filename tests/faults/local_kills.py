"""Processes with local runners that are forked, killed with SIGKILL, and forked again.

The process that forks has imported all that they need, so that a start takes milliseconds. It never uses Arrow or a backend
itself: many libraries do not work in a process that was forked while they were in use.
"""

import gc
import importlib
import json
import os
import random
import select
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.faults.local_scenes import (
    BEGAN,
    BOOTSTRAPS,
    EVOLVES,
    PHASES,
    SAVES,
    UPLOADS,
    WORKS,
    Actor,
    Scene,
    differences,
    lost,
    play_all,
)
from tests.faults.local_state import COPIED, DELETED, KEPT, PUT_BACK, strike

_SECONDS = {WORKS: 0.04, UPLOADS: 0.02, SAVES: 0.02, BOOTSTRAPS: 0.03, EVOLVES: 0.02}
"""How long after the beginning of its phase a process is killed, at most: about as long as the phase takes."""
_ANY_SECONDS = 0.12
"""How long after its start a process is killed, at most, if it is killed whatever it does then."""
_AIM_SECONDS = 0.1
"""How long a kill waits for its phase; then the process is killed whatever it does."""
_BATCH_SECONDS = 0.006
"""How long a batch takes where these times are right; on a busy machine they are longer."""
_NEAR = 8
"""A phase that comes once is aimed at if it is at most so many batches away."""
_MOST_KILLS = 60
"""Of one scene; then it is left to come to its end."""
_HANGS_SECONDS = 900.0
_BY_LETTER = {phase[0].encode(): phase for phase in PHASES}


class SceneError(Exception):
    """A scene that did not end as its twin."""


class Killer:
    """Kills the processes of scenes, and counts.

    Attributes:
        kills: how many, by what the process had said that it did.
        local: what befell the local copy of the state between two processes.
        lost: how many batches were committed by a process that was killed before it could record their rows.
        scenes: how many came to their ends.
        batches: of these.
    """

    def __init__(self, folder: Path) -> None:
        self.kills: Counter[str] = Counter()
        self.local: Counter[str] = Counter()
        self.batches = self.lost = self.scenes = 0
        self._folder = folder
        self._pace = 1.0

    def prepare(self, scene: Scene) -> None:
        """Import what a scene's processes import, found by playing it once."""
        place, names = self._folder / "prepared", self._folder / "modules"

        def play() -> None:
            play_all(scene, place)
            names.write_text(json.dumps(sorted(sys.modules)))

        self._alone(play)
        for name in json.loads(names.read_text()):
            with suppress(Exception):  # what cannot be imported here, the processes import themselves
                importlib.import_module(name)
        shutil.rmtree(place)
        gc.collect()
        gc.freeze()

    def torment(self, scene: Scene, most: int) -> None:
        """Play a scene to its end with so many kills at most, and compare it with its twin.

        Raises:
            SceneError: a process failed, or rows differ.
        """
        chance = random.Random(f"{scene.seed}-{scene.backend}")
        twin, place = self._folder / "twin", self._folder / "scene"
        for folder in (twin, place):
            shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        self._alone(lambda: play_all(scene.twin(), twin))
        self._pace = max(1.0, (time.monotonic() - began) / scene.batches / _BATCH_SECONDS)
        before = self.kills.total()
        while self._one(scene, place, chance, kill=self.kills.total() - before < min(most, _MOST_KILLS)):
            self._strike(scene, place, chance)
        found = differences(scene, place, twin)
        if found:
            raise SceneError("\n".join(found[:5]))
        self.lost += lost(place)
        self.batches += scene.batches
        self.scenes += 1

    def _alone(self, play: Callable[[], object]) -> None:
        """Do something in a process of its own that is not killed."""
        child = _Child(lambda _: play(), self._folder)
        child.wait_for(None, _HANGS_SECONDS)
        child.end()

    def _one(self, scene: Scene, place: Path, chance: random.Random, *, kill: bool) -> bool:
        """Start a process and kill it; False if it came to its end before."""
        child = _Child(lambda say: Actor(scene, place, say).play(), self._folder)
        aim, delay = _aim(scene, place, chance)
        if aim is not None:
            child.wait_for(aim, _AIM_SECONDS * self._pace)
        child.wait_for(None, delay * self._pace if kill else _HANGS_SECONDS)
        if not child.kill():
            return False
        self.kills[child.phase] += 1
        return True

    def _strike(self, scene: Scene, place: Path, chance: random.Random) -> None:
        """Now and then delete the local copy of the state, or put the one of an earlier process in its place."""
        choice = chance.choices((KEPT, DELETED, COPIED, PUT_BACK), (12, 1, 2, 2))[0]
        for part in ("first", "second"):
            state = place / part / f"state-{scene.backend.replace(':', '.')}"
            strike(choice, state, place / "aside" / part)
        self.local[choice] += 1


def _aim(scene: Scene, place: Path, chance: random.Random) -> tuple[str | None, float]:
    """Return the phase at which to kill, or None for any moment, and how long to wait after its beginning."""
    if chance.random() < 0.4:
        return None, chance.uniform(0, _ANY_SECONDS)
    rows = place / "rows"
    done = len(os.listdir(rows)) if rows.exists() else 0  # noqa: PTH208 - names are enough
    aims = [WORKS]
    if "state.snapshots.folder" in scene.options and scene.backend != "spark":
        aims += [UPLOADS, UPLOADS]
    if scene.moves - _NEAR < done <= scene.moves:
        aims += [SAVES] * 3 + [BOOTSTRAPS] * 3
    if scene.evolves - _NEAR < done <= scene.evolves < scene.batches:
        aims += [EVOLVES] * 4
    aim = chance.choice(aims)
    return aim, chance.uniform(0, _SECONDS[aim])


class _Child:
    """A forked process, and what it says."""

    def __init__(self, play: Callable[[Callable[[str], None]], object], folder: Path) -> None:
        self.phase = BEGAN
        self._error = folder / "error"
        self._error.unlink(missing_ok=True)
        self._said, writes = os.pipe()
        self._status: int | None = None
        self._pid = os.fork()
        if not self._pid:
            os.close(self._said)
            _play(play, writes, self._error)
        os.close(writes)

    def wait_for(self, phase: str | None, seconds: float) -> None:
        """Wait until the process says that it is in a phase, has ended, or so much time has gone."""
        end = time.monotonic() + seconds
        while self._status is None and (phase is None or self.phase != phase):
            if not select.select([self._said], [], [], max(0.0, end - time.monotonic()))[0]:
                return
            letter = os.read(self._said, 1)
            if not letter:
                self._status = os.waitpid(self._pid, 0)[1]
            else:
                self.phase = _BY_LETTER[letter]

    def kill(self) -> bool:
        """Kill the process; False if it came to its end before.

        Raises:
            SceneError: it failed.
        """
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            while letter := os.read(self._said, 1):
                self.phase = _BY_LETTER[letter]
            self._status = os.waitpid(self._pid, 0)[1]
        os.close(self._said)
        if os.WIFSIGNALED(self._status) and os.WTERMSIG(self._status) == signal.SIGKILL:
            return True
        if self._status != 0:
            error = self._error.read_text() if self._error.exists() else "no error"
            raise SceneError(f"a process ended with status {self._status} while it {self.phase}:\n{error}")
        return False

    def end(self) -> None:
        """Make sure that the process came to its end.

        Raises:
            SceneError: it did not.
        """
        if self.kill():
            raise SceneError("a process that nobody disturbed does not come to its end")


def _play(play: Callable[[Callable[[str], None]], object], writes: int, error: Path) -> None:
    """What the forked process does."""
    status = 1
    try:
        play(lambda phase: _say(writes, phase))
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent reports it
        error.write_text(traceback.format_exc())
    finally:
        os._exit(status)


def _say(writes: int, phase: str) -> None:
    os.write(writes, phase[0].encode())
