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
from pathlib import Path

from operators.spark.private_files import private_folder

_NAME = re.compile("[0-9a-f]{16}")
_LOCK = ".lock"
_MOST_WAITING = 128


def socket_of(name: str | None) -> Path | None:
    """Return the socket of this name, which need not exist; None for what is no name of a socket.

    Raises:
        OSError: the folder cannot be used.
    """
    return _folder() / name if name is not None and _NAME.fullmatch(name) else None


def listen() -> tuple[str, socket.socket]:
    """Return the name of a new socket, and the socket. Those of processes that have ended are removed.

    The name stays this process's as long as it lives.

    Raises:
        PermissionError: the folder of sockets is not one that only this user can enter.
        OSError: no socket can be made.
    """
    folder = _folder()
    for lock in folder.glob(f"*{_LOCK}"):
        with suppress(OSError):
            _remove_ended(lock)
    name = _locked_name(folder)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(folder / name))
        listener.listen(_MOST_WAITING)
    except BaseException:
        listener.close()
        raise
    return name, listener


def _folder() -> Path:
    return private_folder(Path(tempfile.gettempdir(), f"spark-windows-{os.getuid()}"))


def _locked_name(folder: Path) -> str:
    """Return a new name, whose lock file this process holds until it ends."""
    while True:
        name = os.urandom(8).hex()
        lock = os.open(folder / f"{name}{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:  # Else another process has taken it for one that is left over.
                return name
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
