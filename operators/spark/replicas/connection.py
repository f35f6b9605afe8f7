"""Messages between two processes of one user on one machine. No step waits without a limit.

A message is its length in 8 bytes, and its bytes. An empty one is a sign of life: `receive` takes it as a reason to go on
waiting, so that long work is not cut off, and a process that stands still is noticed.
"""

import os
import select
import socket
import struct
import time
from pathlib import Path
from threading import Lock

PATIENCE_S = 20.0
"""How long a process may be silent, or leave unread what it is sent, before it is taken for one that stands still."""
_LENGTH = struct.Struct("!Q")
_CREDENTIALS = struct.Struct("iII")
_PIECE = 1 << 20
_AGAIN_S = 0.02


class Connection:
    """A connection to another process of this user.

    Args:
        connected: the socket. It is closed with the connection, and if this raises an error.
        patience_s: how long the other process may leave a message unread, or be silent, in seconds.

    Raises:
        PermissionError: the other process is of another user.
    """

    def __init__(self, connected: socket.socket, patience_s: float) -> None:
        self._socket = connected
        self._sending = Lock()
        try:
            connected.settimeout(patience_s)
            _check_user(connected)
        except BaseException:
            connected.close()
            raise

    @classmethod
    def to(cls, path: Path, patience_s: float) -> "Connection":
        """Return a connection to the process that listens on this socket.

        Raises:
            TimeoutError: it accepts no connection.
            OSError: nobody listens there, or a process of another user.
        """
        connecting = socket.socket(socket.AF_UNIX)
        try:
            _connect(connecting, path, time.monotonic() + patience_s)
        except BaseException:
            connecting.close()
            raise
        return cls(connecting, patience_s)

    def send(self, message: bytes) -> None:
        """Send a message.

        Raises:
            TimeoutError: the other process does not read it.
            OSError: it has ended.
        """
        with self._sending:
            for part in (_LENGTH.pack(len(message)), message):
                rest = memoryview(part)
                while rest:
                    rest = rest[self._socket.send(rest[:_PIECE]) :]

    def receive(self) -> bytes:
        """Return the next message that is not empty.

        Raises:
            TimeoutError: neither a message nor a sign of life comes.
            EOFError: the other process has closed the connection, or has ended.
        """
        while not (length := _LENGTH.unpack(self._receive(_LENGTH.size))[0]):
            pass
        return self._receive(length)

    def _receive(self, length: int) -> bytes:
        # Memory grows with what arrives, not with the length that is claimed.
        data, arrived = bytearray(min(length, _PIECE)), 0
        while arrived < length:
            if arrived == len(data):
                data += bytes(min(length - arrived, arrived))
            with memoryview(data) as room:
                piece = self._socket.recv_into(room[arrived:])
            if not piece:
                raise EOFError("the connection was closed")
            arrived += piece
        return bytes(data)

    def sign(self) -> None:
        """Send a sign of life, from any thread. It never waits: where a message is on its way, none is needed."""
        if not self._sending.acquire(blocking=False):
            return
        try:
            os.write(self._socket.fileno(), bytes(_LENGTH.size))
        except OSError:
            pass  # A process that does not read needs no sign; one that has ended is noticed by the next message.
        finally:
            self._sending.release()

    def has_ended(self) -> bool:
        """Return whether the other process has closed the connection before this one, without a wait, from any thread."""
        poll = select.poll()
        try:
            poll.register(self._socket, 0)  # What is always told: ends and errors.
            return bool(poll.poll(0))
        except (OSError, ValueError):  # It is closed on this side.
            return False

    def close(self) -> None:
        """Close the socket."""
        with self._sending:
            self._socket.close()

    def leave(self) -> None:
        """Leave it to the process that this one was forked from, where another thread may have been sending."""
        self._socket.close()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _connect(connecting: socket.socket, path: Path, deadline: float) -> None:
    connecting.setblocking(False)
    while True:
        try:
            return connecting.connect(str(path))
        except BlockingIOError:  # Too many others wait to be accepted.
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} accepts no connection") from None
            time.sleep(_AGAIN_S)


def _check_user(connected: socket.socket) -> None:
    """Refuse a process of another user. Systems other than Linux do not tell: there the folder of the socket has to do."""
    if not hasattr(socket, "SO_PEERCRED"):
        return
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    if user != os.getuid():
        raise PermissionError(f"the other process is of another user (number {user})")
