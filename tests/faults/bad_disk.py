"""A local runner on disks that fill or become read-only: python -m tests.faults.bad_disk BACKEND FOLDER, behind `in_front`.

The journal, the local state and the snapshots have a disk each. Each line of the output says what was done and what came of it.
"""

import json
import subprocess
import sys
from pathlib import Path

from operators.runtime.local import LocalRunner
from state_backends import StateError
from tests.faults.disk import fill
from tests.faults.local import batch, rows, runner, undisturbed

_EACH = 6


def mount(at: Path, *how: str) -> None:
    """Mount a disk, or change how it is mounted."""
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", *how, str(at)], check=True)  # noqa: S607


class Trouble:
    """What befalls a disk."""

    def __init__(self, kind: str, disk: Path) -> None:
        self.kind = kind
        self.disk = disk

    def begin(self) -> None:
        """Have it befall the disk."""
        if self.kind == "full":
            fill(self.disk / "filler")
        else:
            mount(self.disk, "-o", "remount,ro")

    def end(self) -> None:
        """Repair the disk."""
        if self.kind == "full":
            (self.disk / "filler").unlink()
        else:
            mount(self.disk, "-o", "remount,rw")


class Job:
    """A runner that is started again whenever it fails."""

    def __init__(self, backend: str, home: Path, snapshots: Path) -> None:
        self._made = lambda: runner(backend, home, snapshots, "1k")
        self._runner: LocalRunner | None = None
        self.done = self.failures = 0
        self.errors: list[str] = []

    def stop(self) -> None:
        """Stop the runner."""
        if self._runner is not None:
            self._runner.close()
        self._runner = None

    def go_on(self) -> list[str] | None:
        """Return the rows of the next batch, or None after an error."""
        try:
            self._runner = self._runner or self._made()
            came = rows(self._runner.process(batch(self.done)))
        except StateError as error:
            self.errors.append(str(error))
            self.stop()
            return None
        self.failures += self._runner.metrics["snapshot_failures"]
        self.done += 1
        return came


def main(backend: str, folder: Path) -> None:
    """Have each disk fail in turn, and say what came of the batches meanwhile and after."""
    home, snapshots = folder / "home", folder / "snapshots"
    disks = {"journal": home, "local state": home / f"state-{backend}", "snapshots": snapshots}
    for disk in disks.values():
        mount(disk, "-t", "tmpfs", "-o", "size=4m", "tmpfs")
    expected = undisturbed(2 * _EACH * 2 * len(disks))
    job = Job(backend, home, snapshots)
    for kind in ("full", "read-only"):
        for name, disk in disks.items():
            trouble, before = Trouble(kind, disk), job.done
            job.errors, job.failures = [], 0
            if kind == "read-only" and name != "snapshots":
                job.stop()  # A disk with files that are open for writing cannot be mounted read-only.
            trouble.begin()
            came = [job.go_on() for _ in range(_EACH)]
            worked = job.done - before
            if kind == "read-only" and name != "snapshots":
                job.stop()
            trouble.end()
            came += [job.go_on() for _ in range(_EACH)]
            right = [one for one in came if one is not None] == expected[before : job.done]
            told = {
                "kind": kind,
                "disk": name,
                "path": str(disk),
                "worked": worked,
                "done": job.done - before,
            }
            told |= {"right": right, "errors": job.errors, "failures": job.failures}
            print(json.dumps(told), flush=True)  # noqa: T201 - the answer
    job.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
