"""Where processes of one user listen: a folder that only this user can enter, with a socket for each.

A socket's name is random, and a lock on a file beside it shows that its process lives. The number of a process would not do:
containers that share the folder for temporary files have the same numbers for different processes.
"""

import fcntl
import os
import re
import socket
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from operators.spark.base.private_files import private_folder

_NAME = re.compile("[0-9a-f]{16}")
_LOCK = ".lock"
_MOST_WAITING = 128


def socket_of(name: str | None) -> Path | None:
    """Return the socket of this name, which need not exist; None for what is no name of a socket.

    Raises:
        OSError: the folder cannot be used.
    """
    return folder() / name if name is not None and _NAME.fullmatch(name) else None


def is_listening(name: str) -> bool:
    """Return whether the process of this socket lives, as far as its lock tells.

    Raises:
        OSError: the folder cannot be used.
    """
    path = socket_of(name)
    if path is None:
        return False
    try:
        descriptor = os.open(path.with_suffix(_LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process listens, as long as it lives.

    Attributes:
        name: the name of the socket.
        listener: the socket.
        lock: descriptor of the file beside it, which is locked.
    """

    name: str
    listener: socket.socket
    lock: int

    def close(self) -> None:
        """Listen no more. The next process that listens removes the files."""
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # Also while a thread waits for a connection.
        self.listener.close()
        os.close(self.lock)

    def leave(self) -> None:
        """Leave it to another process, which was forked from this one or has forked it. A second time does nothing."""
        if self.listener.fileno() >= 0:
            self.listener.close()
            os.close(self.lock)


def listen() -> Place:
    """Return a new place to listen. Those of processes that have ended are removed.

    Raises:
        PermissionError: the folder of sockets is not one that only this user can enter.
        OSError: no socket can be made.
    """
    home = folder()
    for lock in home.glob(f"*{_LOCK}"):
        if _NAME.fullmatch(lock.stem):
            with suppress(OSError):
                _remove_ended(lock)
    name, descriptor = _lock(home)
    place = Place(name, socket.socket(socket.AF_UNIX), descriptor)
    try:
        place.listener.bind(str(home / name))
        place.listener.listen(_MOST_WAITING)
    except BaseException:
        place.close()
        raise
    return place


def folder() -> Path:
    """Return the private folder of this user's sockets.

    Raises:
        PermissionError: it is not one that only this user can enter.
        OSError: it cannot be made.
    """
    return private_folder(Path(tempfile.gettempdir(), f"spark-windows-{os.getuid()}"))


def _lock(home: Path) -> tuple[str, int]:
    """Return a new name, and the descriptor of its lock file, which is locked."""
    while True:
        name = os.urandom(8).hex()
        lock = os.open(home / f"{name}{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:  # Else another process has taken it for one that is left over.
                return name, lock
        os.close(lock)


def _remove_ended(lock: Path) -> None:
    """Remove a socket and its lock file, unless a process holds the lock.

    Raises:
        BlockingIOError: one does.
        OSError: something else is in the way.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.with_suffix("").unlink(missing_ok=True)
        lock.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
