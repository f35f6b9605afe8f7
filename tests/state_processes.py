"""How tests find the processes that hold buckets' copies, and the one that forks them."""

import os
from contextlib import suppress
from pathlib import Path

from operators.spark.replicas import starter, state_process


def is_state_process(number: int) -> bool:
    """Whether a process is one for state, by the name that it shows."""
    return _shown(number) == state_process.NAME


def is_ours(number: int) -> bool:
    """Whether a process is one for state, or one that forks these."""
    return _shown(number) in (state_process.NAME, starter.NAME)


def state_processes(daemons: list[int]) -> list[int]:
    """The processes for state of these daemons of workers: they are in the daemon's group, whoever has started them."""
    return _of(daemons, state_process.NAME)


def starters(daemons: list[int]) -> list[int]:
    """The processes that fork those for state."""
    return _of(daemons, starter.NAME)


def holders(file: Path) -> set[int]:
    """The processes that have a file open, such as the lock of a copy."""
    found = set[int]()
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal() and any(one.samefile(file) for one in (process / "fd").iterdir()):
                found.add(int(process.name))
    return found


def _of(daemons: list[int], name: str) -> list[int]:
    numbers = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return sorted(number for number in numbers if _shown(number) == name and _group(number) in daemons)


def _shown(number: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{number}/comm").read_text().strip()
    return ""


def _group(number: int) -> int:
    with suppress(ProcessLookupError):
        return os.getpgid(number)
    return 0
