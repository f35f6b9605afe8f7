"""The processes that hold buckets' copies for an executor: a numbered file for each, in the private folder of sockets.

The file has the name of the process's socket. Who chooses a process holds a lock on its file while that works, so that tasks
that run at the same time choose different ones: there are as many processes as tasks at once.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from operators.spark.replicas.sockets import folder, is_listening

_SUFFIX = ".slot"
_FILES = re.compile(f"[0-9a-f]{{16}}-[0-9]{{1,3}}{re.escape(_SUFFIX)}")
_MOST_BYTES = 64
MOST_SLOTS = 256


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a process, which this one has locked.

    Attributes:
        descriptor: the file descriptor.
    """

    descriptor: int

    @property
    def name(self) -> str:
        """The name of the process's socket; "" if there has been none."""
        return os.pread(self.descriptor, _MOST_BYTES, 0).decode("ascii", "replace")

    def fill(self, name: str) -> None:
        """Have the process of this socket in the slot."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, name.encode("ascii"), 0)


@contextmanager
def free_slot(key: str, passed: frozenset[str]) -> Iterator[Slot]:
    """The first slot that nobody uses at this moment.

    Args:
        key: the key of the executor.
        passed: names of sockets whose slots are not taken.

    Raises:
        OSError: the folder cannot be used, or there are too many slots.
    """
    for number in count():
        if number == MOST_SLOTS:
            raise OSError(f"all {MOST_SLOTS} processes for state are in use")
        slot = _lock(folder() / f"{key}-{number}{_SUFFIX}")
        if slot is None:
            continue
        try:
            if slot.name in passed:
                continue
            yield slot
            return
        finally:
            os.close(slot.descriptor)


def remove_old_slots() -> None:
    """Remove the slots whose process has ended, and that nobody uses."""
    for path in folder().iterdir():
        if not _FILES.fullmatch(path.name):
            continue
        with suppress(OSError):
            slot = _lock(path, create=False)
            if slot is None:
                continue
            try:
                if not is_listening(slot.name):
                    path.unlink(missing_ok=True)
            finally:
                os.close(slot.descriptor)


def _lock(path: Path, *, create: bool = True) -> Slot | None:
    """Lock a slot's file; None if another has."""
    while True:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if os.fstat(descriptor).st_nlink:  # Else it was removed as an old one, and there may be a new one.
            return Slot(descriptor)
        os.close(descriptor)
