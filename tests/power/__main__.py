"""Power losses at every moment of runs of all backends: python -m tests.power."""

# ruff: noqa: T201 - a script that prints

import argparse
import logging
import random
import sys
import time
from pathlib import Path

from tests.power.losses import Losses
from tests.power.trace import why_not
from tests.power.work import Scene
from tests.scratch import temporary

BACKENDS = ("memory", "rocksdb", "spark")
SCENES = [
    *(Scene(backend, kind) for backend in BACKENDS for kind in ("folder", "journal")),
    *(Scene(backend, waits=False) for backend in BACKENDS),
    # The journal's log grows beyond the size at which SQLite moves it to the file.
    Scene("memory", "journal", batches=12, value=100_000),
    Scene("spark", "journal", waits=False, batches=12, value=100_000),
]


def main() -> int:
    """Lose power, and return 1 if anything acknowledged was lost, or what is left does not open."""
    parser = argparse.ArgumentParser(prog="python -m tests.power", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the moments; by default all")
    parser.add_argument(
        "--chances", type=int, default=8, help="losses by chance at each moment, beside the fixed ones"
    )
    parser.add_argument("--only", default="", help="scenes by a part of their name")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the choices")
    chosen = parser.parse_args()
    if why_not():
        print(why_not(), file=sys.stderr)
        return 2
    print(f"seed {chosen.seed}", flush=True)
    logging.disable(logging.WARNING)  # Of snapshots that another process began.
    rng, faults = random.Random(chosen.seed), 0
    for scene in SCENES:
        if chosen.only in scene.name:
            faults += run(scene, chosen.share, chosen.chances, rng)
    return 1 if faults else 0


def run(scene: Scene, share: float, chances: int, rng: random.Random) -> int:
    """Lose power in one scene, say what came of it, and return the number of faults."""
    began = time.monotonic()
    with temporary("power") as folder:
        found = Losses(scene, Path(folder))
        found.record()
        found.run(share, chances, rng)
    for fault in found.faults[:10]:
        print(f"FAILED {fault[:400]}")
    lost = ", ".join(f"{count} times {batches}" for batches, count in sorted(found.lost.items()))
    print(
        f"{scene.name}: {found.moments} moments, {found.losses} losses, {found.disks} disks, "
        f"batches lost: {lost}; {len(found.faults)} faults, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return len(found.faults)


if __name__ == "__main__":
    sys.exit(main())
