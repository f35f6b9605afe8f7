"""A limit on the memory of some processes together, as a container has it: the kernel kills one of them when they want more."""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

_ROOT = Path("/sys/fs/cgroup")
_ROOM = 32 << 20
_TAKE = "taken = []\nwhile True: taken.append(b'1' * (8 << 20))"


class MemoryLimit:
    """A control group of the kernel, version 1 or 2.

    Raises:
        OSError: this user cannot make one.
    """

    def __init__(self) -> None:
        first = (_ROOT / "memory").is_dir()
        self._root = _ROOT / "memory" if first else _ROOT
        self._group = self._root / f"windows-{uuid4().hex}"
        self._group.mkdir()
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control")
        limit, usage, kills = names if first else ("memory.max", "memory.current", "memory.events")
        self._limit, self._usage, self._kills = (self._group / name for name in (limit, usage, kills))
        self._none = "-1" if first else "max"
        if not self._limit.exists():
            self._group.rmdir()
            raise FileNotFoundError(f"{self._limit}: the system limits no memory here")

    def hold(self, processes: Iterable[int]) -> None:
        """Count processes, and all that they start from now on."""
        for process in processes:
            with suppress(ProcessLookupError):
                (self._group / "cgroup.procs").write_text(str(process))

    @contextmanager
    def used_up(self) -> Iterator[None]:
        """Leave little room, and have one more process take it, until the end of the block."""
        self._limit.write_text(str(int(self._usage.read_text()) + _ROOM))
        join = f'echo $$ > {self._group}/cgroup.procs && exec {sys.executable} -c "{_TAKE}"'
        taker = subprocess.Popen(["/bin/sh", "-c", join])
        try:
            yield
        finally:
            taker.kill()
            taker.wait()
            self._limit.write_text(self._none)

    def kills(self) -> int:
        """Return how many processes were killed."""
        return int(re.findall(r"^oom_kill (\d+)$", self._kills.read_text(), re.MULTILINE)[0])

    def remove(self) -> None:
        """Let the processes go, and forget the group."""
        while members := (self._group / "cgroup.procs").read_text().split():
            for member in members:
                with suppress(ProcessLookupError):
                    (self._root / "cgroup.procs").write_text(member)
        self._group.rmdir()


def why_not() -> str:
    """Return why there is no such limit here, or nothing."""
    try:
        MemoryLimit().remove()
    except OSError as error:
        return f"a limit on memory needs a control group of the kernel, as root: {error}"
    return ""
