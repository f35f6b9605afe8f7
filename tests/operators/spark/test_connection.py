"""Messages between processes: each step has a limit, and only processes of this user are talked to."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from operators.spark.replicas.connection import Connection
from tests.patience import wait_until

FOREVER_S = 300.0
SOON_S = 0.2
NOBODY = 65534
"""The number of a user who is not this one."""


@contextmanager
def pair(first_s: float = FOREVER_S, second_s: float = FOREVER_S) -> Iterator[tuple[Connection, Connection]]:
    """Two ends of a connection, with their patience."""
    one, other = socket.socketpair(socket.AF_UNIX)
    with Connection(one, first_s) as first, Connection(other, second_s) as second:
        yield first, second


def test_messages_arrive_as_they_were_sent() -> None:
    """Also those that are larger than what a socket holds; signs of life are no messages."""
    messages = [b"x", bytes(range(256)), os.urandom(3_000_000), b"last"]
    with pair() as (first, second):

        def send() -> None:
            for message in messages:
                first.sign()
                first.send(message)
                first.sign()

        thread = Thread(target=send)
        thread.start()
        assert messages == [second.receive() for _ in messages]
        thread.join()


def test_silence_has_a_limit() -> None:
    with pair(second_s=SOON_S) as (_, second), pytest.raises(TimeoutError):
        second.receive()


def test_a_message_that_nobody_reads_has_a_limit() -> None:
    with pair(first_s=SOON_S) as (first, _), pytest.raises(TimeoutError):
        first.send(bytes(10_000_000))


def test_half_a_message_has_a_limit() -> None:
    """The length that is claimed takes no memory: it may be anything."""
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, Connection(other, SOON_S) as second:
        one.sendall(b"\x7f" * 8 + b"begun")
        with pytest.raises(TimeoutError):
            second.receive()


def test_an_end_is_noticed_at_once() -> None:
    with pair() as (first, second):
        first.close()
        with pytest.raises(EOFError):
            second.receive()


def test_a_sign_of_life_never_waits() -> None:
    """The process that gets it may stand still, with all that a socket holds unread, or have ended."""
    with pair(first_s=SOON_S) as (first, second):
        with pytest.raises(TimeoutError):
            first.send(bytes(10_000_000))
        first.sign()
        second.close()
        first.sign()
        first.close()
        first.sign()


def test_a_sign_of_life_does_not_wait_for_a_message() -> None:
    """Nor does it come into the middle of one."""
    message = bytes(10_000_000)
    with pair() as (first, second):
        sending, signing = Thread(target=first.send, args=(message,)), Thread(target=first.sign)
        sending.start()
        wait_until(first._sending.locked, "the message", lambda: 0)
        signing.start()
        signing.join(FOREVER_S)
        assert not signing.is_alive()
        assert sending.is_alive()
        assert message == second.receive()
        sending.join()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder whose name is short enough for a socket."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def test_a_process_that_accepts_nothing_has_a_limit(place: Path) -> None:
    """As one that stands still, when enough others wait for it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "full"))
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as waits:
            waits.connect(str(place / "full"))
            with pytest.raises(TimeoutError):
                Connection.to(place / "full", SOON_S)


def test_nobody_is_waited_for_who_has_ended(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "ended"))
    with pytest.raises(ConnectionRefusedError):
        Connection.to(place / "ended", FOREVER_S)
    with pytest.raises(FileNotFoundError):
        Connection.to(place / "never", FOREVER_S)


OTHER_USER = """
import os, socket, sys
os.setuid(int(sys.argv[3]))
with socket.socket(socket.AF_UNIX) as own:
    if sys.argv[1] == "listens":
        own.bind(sys.argv[2])
        own.listen()
        print("ready", flush=True)
        try:
            print(own.accept()[0].recv(100))
        except ConnectionError:
            print(b"")
    else:
        own.connect(sys.argv[2])
        print(own.recv(100))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run a process of another user")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the user of another process")
def test_processes_of_another_user_are_not_talked_to(place: Path) -> None:
    """Whichever of the two listens: nothing is sent, nothing read."""
    place.chmod(0o777)
    theirs, ours = str(place / "theirs"), str(place / "ours")

    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-c", OTHER_USER, *arguments, str(NOBODY)]

    with subprocess.Popen(command("listens", theirs), stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert b"ready\n" == other.stdout.readline()
        with pytest.raises(PermissionError, match=f"number {NOBODY}"):
            Connection.to(Path(theirs), FOREVER_S)
        assert b"b''\n" == other.stdout.read()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(ours)
        Path(ours).chmod(0o777)
        listener.listen()
        with subprocess.Popen(command("connects", ours), stdout=subprocess.PIPE) as other:
            with pytest.raises(PermissionError, match=f"number {NOBODY}"):
                Connection(listener.accept()[0], FOREVER_S)
            assert other.stdout is not None
            assert b"b''\n" == other.stdout.read()
