"""Many kills of local runners, without Spark: python -m tests.faults.soak_local --kills 10000 --backend rocksdb --seed 1."""

# ruff: noqa: T201 - a script that prints

import argparse
import logging
import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.faults.local_kills import Killer, SceneError
from tests.faults.local_scenes import KINDS, scene_of
from tests.faults.plans import BACKENDS

_EVERY_SECONDS = 10.0


def main() -> int:
    """Kill as often as was asked, say what was done, and return 1 if a row is missing, wrong or there twice."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak_local", description=__doc__)
    parser.add_argument("--kills", type=int, default=10_000, help="how often to kill, for each backend")
    parser.add_argument("--backend", help="one state backend; by default each in turn")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of all random choices")
    parser.add_argument("--scene", type=int, help="begin with this scene, as a failure named it")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # of copies that have to be restored
    exact = True
    for backend in [options.backend] if options.backend else BACKENDS:
        with tempfile.TemporaryDirectory(prefix="soak-local-", ignore_cleanup_errors=True) as folder:
            exact &= soak(Path(folder), backend, options.kills, options.seed, options.scene or 0)
    return 0 if exact else 1


def soak(folder: Path, backend: str, kills: int, seed: int, first: int = 0) -> bool:
    """Torment scenes until so many processes were killed, and return whether all ended as their twins."""
    print(f"{backend}: {kills} kills, seed {seed}", flush=True)
    killer, began, number = Killer(folder), time.monotonic(), first
    shown = began
    for kind in range(len(KINDS)):
        killer.prepare(replace(scene_of(seed, kind, backend), batches=6, rows=5))
    while killer.kills.total() < kills:
        scene = scene_of(seed, number, backend)
        try:
            killer.torment(scene, kills - killer.kills.total())
        except SceneError as failure:
            print(f"FAILED {scene}\n{failure}\nafter {summary(killer, began)}")
            again = f"--backend {backend} --seed {seed} --scene {number}"
            print(f"run again: python -m tests.faults.soak_local {again}", flush=True)
            return False
        number += 1
        if time.monotonic() > shown + _EVERY_SECONDS:
            shown = time.monotonic()
            print(f"{backend}, seed {seed}: {summary(killer, began)}", flush=True)
    print(f"{backend}, seed {seed}: {summary(killer, began)}: exact", flush=True)
    return True


def summary(killer: Killer, began: float) -> str:
    """Return what was done so far."""
    seconds, kills = time.monotonic() - began, killer.kills.total()
    while_ = ", ".join(f"{phase} {times}" for phase, times in sorted(killer.kills.items()))
    local = ", ".join(f"{what} {times}" for what, times in sorted(killer.local.items()))
    return (
        f"{kills} kills ({while_}), {kills / seconds:.1f} per second, local state {local}, {killer.scenes} scenes, "
        f"{killer.batches} batches, {killer.lost} whose rows were lost with their caller, {seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
