"""Temporary folders of a process in a directory that others may use too: only the library's own are ever removed.

PARENT/TOKEN/                            of one writer, with a random name
PARENT/TOKEN/of-spark-stateful-windows   locked as long as that works with it
"""

import fcntl
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

MARKER = "of-spark-stateful-windows"
"""A file in each folder that the library may remove with all that is in it."""
_NAME = re.compile("[0-9a-f]{16}")


def mark(folder: Path) -> None:
    """Say that a folder is the library's."""
    with suppress(FileExistsError):
        os.close(os.open(folder / MARKER, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def is_own(folder: Path) -> bool:
    """Return whether a folder has such a name as the library gives, and its mark; never for a link."""
    marker = folder / MARKER
    named = _NAME.fullmatch(folder.name) is not None
    return named and not folder.is_symlink() and marker.is_file() and not marker.is_symlink()


class Scratch:
    """A temporary folder. What a killed process left beside it is removed.

    Args:
        parent: where the folder is made when it is needed.
    """

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        self._lock: int | None = None
        self._folder = Path()
        self._sweep()

    @property
    def folder(self) -> Path:
        """The folder, which is there from the first call on.

        Raises:
            OSError: it cannot be made.
        """
        if self._lock is None:
            self._folder = self.parent / os.urandom(8).hex()
            self._folder.mkdir(0o700, parents=True)
            mark(self._folder)
            self._lock = os.open(self._folder / MARKER, os.O_RDONLY | os.O_NOFOLLOW)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self._folder

    def close(self) -> None:
        """Remove the folder, and its parent if nothing else is in it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(lock)
        with suppress(OSError):
            self.parent.rmdir()

    def _sweep(self) -> None:
        if self.parent.is_symlink() or not self.parent.is_dir():
            return
        for left in self.parent.iterdir():
            with suppress(OSError):
                if is_own(left):
                    _remove_unless_held(left)
        with suppress(OSError):
            self.parent.rmdir()  # unless something else is in it


def _remove_unless_held(folder: Path) -> None:
    """Remove a folder that no process works with.

    Raises:
        OSError: another process has it, or has removed it.
    """
    lock = os.open(folder / MARKER, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
