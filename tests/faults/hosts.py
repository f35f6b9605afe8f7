"""Hosts on one machine: each has process numbers, a host name and a disk of its own, and shares one folder with the others.

A host is a process in namespaces of its own, which others enter. It sees the machine's files, but for /tmp, which is its
disk: a tmpfs that lasts as long as the host does. Where this checkout or its environment lie in /tmp, hosts see them too.
"""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.faults.disk import SmallDisk
from tests.faults.processes import ROOT, alive, descendants, kill, pids, running, start
from tests.patience import files, wait_until

NAME = "worker"
"""The host name of each: like containers of one image, they differ by their addresses only."""
DISK = Path("/tmp")  # noqa: S108 - the tests' own, as each host sees it
SPARK_FILES = DISK / "spark"
"""What Spark has on a host's disk: its executors fail every task once these are deleted."""
MEGABYTES = 512
_ROOM = ("--user", "--mount", "--pid", "--uts")
_UNSHARE = ("unshare", *_ROOM, "--map-root-user", "--fork", "--mount-proc")
_BEGIN = """
set -e
hostname "$1"
size="$2"
shift 2
mount -t tmpfs tmpfs /mnt
number=0
for path in "$@"; do
    number=$((number + 1))
    mkdir "/mnt/$number"
    mount --bind "$path" "/mnt/$number"
done
mount -t tmpfs -o size="$size"m tmpfs /tmp
number=0
for path in "$@"; do
    number=$((number + 1))
    mkdir -p "$path"
    mount --bind "/mnt/$number" "$path"
done
umount --recursive /mnt
set +e
echo ready
while :; do sleep 1; done
"""


def why_not() -> str:
    """Return why this machine cannot have such hosts, or nothing."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return "hosts with disks of their own need the Linux tools unshare and nsenter (util-linux)"
    done = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    return f"this system allows no namespaces: {done.stderr.strip()}" if done.returncode else ""


class Host:
    """A host without a process of its own yet.

    Args:
        log: where what it says goes.
        shared: the folder that it has with others; it may lie in /tmp.
        mark: on all of its processes, for `kill_marked`.
        megabytes: size of its disk.
    """

    def __init__(self, log: Path, shared: Path, mark: str, megabytes: int = MEGABYTES) -> None:
        self._kept = _outermost([shared, ROOT, Path(sys.prefix), Path(pyspark.__file__).parent])
        begin = [*_UNSHARE, "sh", "-c", _BEGIN, "host", NAME, str(megabytes), *map(str, self._kept)]
        outer = start(begin, log, mark)
        wait_until(lambda: "ready" in log.read_text(), "a host", files(log.parent))
        self._init = next(pid for pid in descendants(outer.pid) if pid != outer.pid)
        self._small_disk = SmallDisk(self._init, DISK)

    def command(self, command: Sequence[str]) -> list[str]:
        """Return what to start for a command to run on the host."""
        rooms = ("nsenter", "--target", str(self._init), *_ROOM, "--preserve-credentials")
        return [*rooms, *command]

    @property
    def disk(self) -> Path:
        """Where its disk is for those outside."""
        return Path(f"/proc/{self._init}/root{DISK}")

    def processes(self) -> list[int]:
        """Return the processes on the host, by their numbers outside, but for the host's own."""
        room, own = _room(self._init), {self._init, *running(self._init, "sleep")}
        return [pid for pid in pids() if pid not in own and _room(pid) == room and alive(pid)]

    def crash(self) -> None:
        """SIGKILL all processes, as if the power was cut. The disk stays; new processes get the same numbers again."""
        while found := self.processes():
            for pid in found:
                kill(pid)
            time.sleep(0.01)
        subprocess.run(self.command(["sh", "-c", "echo 2 > /proc/sys/kernel/ns_last_pid"]), check=True)

    def freeze(self) -> None:
        """Stop all processes, as a host that swaps or whose machine is moved."""
        for pid in self.processes():
            kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        for pid in self.processes():
            kill(pid, signal.SIGCONT)

    def wipe(self) -> None:
        """Delete all that is on the disk."""
        self._sweep(self.disk, before=float("inf"))

    def sweep(self, seconds: float) -> None:
        """Delete files that were neither read nor written for so long, as systemd does with those of /tmp, but for Spark's."""
        self._sweep(self.disk, before=time.time() - seconds, kept=[SPARK_FILES])

    def _sweep(self, folder: Path, before: float, kept: Sequence[Path] = ()) -> None:
        """Delete older files, but for some; what others see too stays, as the folders that lead to it do."""
        for path in list(folder.iterdir()):
            inside = DISK / path.relative_to(self.disk)
            if inside in self._kept or inside in kept:
                continue
            try:
                found = path.lstat()
                if path.is_dir() and not path.is_symlink():
                    self._sweep(path, before, kept)
                    if not any(path.iterdir()) and max(found.st_mtime, found.st_ctime) < before:
                        path.rmdir()
                elif max(found.st_atime, found.st_mtime, found.st_ctime) < before:
                    path.unlink()
            except FileNotFoundError:
                continue

    def fill(self) -> None:
        """Write to the disk until nothing more fits."""
        self._small_disk.fill()

    def make_space(self) -> None:
        """Take away what `fill` has written."""
        self._small_disk.make_space()

    def used(self, folder: str) -> tuple[int, int]:
        """Return how many files a folder of the disk has, and their bytes."""
        found = [path.stat().st_size for path in (self.disk / folder).rglob("*") if path.is_file()]
        return len(found), sum(found)


def _outermost(paths: Sequence[Path]) -> list[Path]:
    """Those of the paths that lie where a host has its disk, and in none of the others."""
    within = {path.absolute() for path in paths if path.absolute().is_relative_to(DISK)}
    return sorted(path for path in within if not within & {*path.parents})


def _room(pid: int) -> str:
    """The namespace of process numbers that a process is in, or nothing."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""
