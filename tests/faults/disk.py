"""A disk of a few megabytes that can be filled: a tmpfs that only one process and its children see."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEGABYTES = 24


def why_not() -> str:
    """Return why this machine lets nobody make such a disk, or nothing."""
    if shutil.which("unshare") is None:
        return "a disk that is full needs the Linux tool unshare"
    done = subprocess.run([*in_front(Path("/mnt"), 1), "true"], capture_output=True, text=True, check=False)
    return (
        f"this system lets tests mount no disk of their own: {done.stderr.strip()}" if done.returncode else ""
    )


def in_front(at: Path, megabytes: int) -> list[str]:
    """Return what to put before a command so that it sees a disk of that size there; the disk goes when the command ends."""
    mount = f'mount -t tmpfs -o size={megabytes}m tmpfs "$0" && exec "$@"'
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(at)]


@contextmanager
def kept_disk(at: Path, megabytes: int) -> Iterator["SmallDisk"]:
    """A disk of that size that is there until the end of the block, whichever processes write to `SmallDisk.root`."""
    call = [*in_front(at, megabytes), "sh", "-c", "echo mounted; exec sleep infinity"]
    with subprocess.Popen(call, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert b"mounted\n" == holder.stdout.readline()
        try:
            yield SmallDisk(holder.pid, at)
        finally:
            holder.kill()


def fill(filler: Path) -> None:
    """Write to a file until nothing more fits on its disk."""
    with filler.open("ab", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


class SmallDisk:
    """The disk of a process, seen from outside.

    Attributes:
        root: the disk's own folder, as other processes of this user reach it.
    """

    def __init__(self, pid: int, at: Path) -> None:
        self.root = Path(f"/proc/{pid}/root{at}")
        self._filler = self.root / "filler"

    def fill(self) -> None:
        """Write until nothing more fits."""
        fill(self._filler)

    def make_space(self) -> None:
        """Take away what `fill` has written."""
        self._filler.unlink(missing_ok=True)
