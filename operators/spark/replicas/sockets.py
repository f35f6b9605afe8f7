"""Where processes of one user listen: a folder that only this user can enter, with a socket for each.

A process listens under a name that others know beforehand, or under a random one. A lock on a file beside the socket shows
that it lives, and a token in the file which process it is. The number of a process would not do: containers that share the
folder for temporary files have the same numbers for different processes.
"""

import fcntl
import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from operators.spark.base.private_files import private_folder

_NAME = re.compile("[0-9a-f]{16}(-[0-9]{1,4})?")
_LOCK, _TURN = ".lock", ".turn"
_TOKEN_BYTES = 16
_MOST_WAITING = 128
_AGAIN_S = 0.01


def socket_of(name: str | None) -> Path | None:
    """Return the socket of this name, which need not exist; None for what is no name of a socket.

    Raises:
        OSError: the folder cannot be used.
    """
    return folder() / name if name is not None and _NAME.fullmatch(name) else None


def living(name: str) -> str:
    """Return the token of the process that listens under this name, as far as its lock tells; "" if there is none.

    Raises:
        OSError: the folder cannot be used.
    """
    path = socket_of(name)
    if path is None:
        return ""
    try:
        descriptor = os.open(path.with_suffix(_LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, _TOKEN_BYTES, 0).decode("ascii", "replace")
    finally:
        os.close(descriptor)
    return ""


@contextmanager
def one_at_a_time(name: str, patience_s: float) -> Iterator[None]:
    """Run the block while no other process does so for this name.

    Args:
        name: the name of a socket.
        patience_s: how long to wait for others, in seconds.

    Raises:
        TimeoutError: another process takes longer.
        OSError: the folder cannot be used.
    """
    path, deadline = folder() / f"{name}{_TURN}", time.monotonic() + patience_s
    while (descriptor := _try_lock(path)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"another process has held {path} for {patience_s:g} s")
        time.sleep(_AGAIN_S)
    try:
        yield
    finally:
        os.close(descriptor)


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


def listen(name: str = "") -> Place:
    """Return a new place to listen. Those of processes that have ended are removed.

    Args:
        name: the name of the socket; a random one if it is empty.

    Raises:
        BlockingIOError: another process listens under this name.
        PermissionError: the folder of sockets is not one that only this user can enter.
        OSError: no socket can be made.
    """
    home = folder()
    for path in home.iterdir():
        if path.suffix in (_LOCK, _TURN) and _NAME.fullmatch(path.stem) and path.stem != name:
            with suppress(OSError):
                _remove_ended(path)
    name = name or os.urandom(8).hex()
    path = home / name
    descriptor = _try_lock(path.with_suffix(_LOCK))
    if descriptor is None:
        raise BlockingIOError(f"another process listens at {path}")
    place = Place(name, socket.socket(socket.AF_UNIX), descriptor)
    try:
        os.pwrite(descriptor, os.urandom(_TOKEN_BYTES // 2).hex().encode(), 0)
        path.unlink(missing_ok=True)  # Of a process that was killed.
        place.listener.bind(str(path))
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


def _try_lock(path: Path) -> int | None:
    """Return the descriptor of a lock file, which is locked; None if another process has locked it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if os.fstat(descriptor).st_nlink:  # Else another process has taken it for one that is left over.
            return descriptor
        os.close(descriptor)


def _remove_ended(path: Path) -> None:
    """Remove a lock file and the socket beside it, unless a process holds the lock.

    Raises:
        BlockingIOError: one does.
        OSError: something else is in the way.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.suffix == _LOCK:
            path.with_suffix("").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
