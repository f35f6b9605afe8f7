"""Starting a process that holds buckets' copies, by the starter of Spark's daemon of workers, or else afresh."""

import os
import select
import subprocess
import sys
import time
from contextlib import suppress

from operators.spark.replicas.connection import Connection
from operators.spark.replicas.orders import Order
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.sockets import socket_of

_START_S = 60.0
"""How long a process may take until it listens."""
_CODE = "import sys; sys.path[:] = sys.argv[4:]; from operators.spark.replicas.state_process import main; main(*sys.argv[1:4])"
_started: list["subprocess.Popen[bytes]"] = []
"""Kept so that those that end are waited for."""
_starter = ""
"""The name of the starter's socket; "" if this worker's daemon has none."""


def use_starter(name: str) -> None:
    """Have this process, and those that are forked from it, ask a starter for processes.

    Args:
        name: the name of the starter's socket.
    """
    global _starter  # noqa: PLW0603 - a daemon has one
    _starter = name


def start(parent: Parent) -> str:
    """Return the name of the socket of a new process.

    It has this one's environment, folder, limits, search path and stderr.

    Args:
        parent: the process with which it ends.

    Raises:
        OSError: it cannot be started, or does not listen; says why.
    """
    return _forked(parent) or _afresh(parent)


def _forked(parent: Parent) -> str:
    """The same of one that the starter has forked; "" if it does not get as far as to listen."""
    with suppress(OSError, EOFError):
        path = socket_of(_starter)
        if path is not None:
            with Connection.to(path, _START_S) as asking:
                asking.send(Order.like_this_process(parent).encode())
                return asking.receive().decode("ascii")
    return ""


def _afresh(parent: Parent) -> str:
    _started[:] = [one for one in _started if one.poll() is None]
    command = [sys.executable, "-c", _CODE, *parent.arguments, *sys.path]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    name = ""
    try:
        name = _first_line(process)
    finally:
        if process.stdout is not None:
            process.stdout.close()
        if not name:
            process.kill()
            process.wait()
    _started.append(process)
    return name


def _first_line(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout is not None  # noqa: S101 - it was asked for
    deadline, said = time.monotonic() + _START_S, b""
    while not said.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0.0))
        if not ready:
            raise TimeoutError(f"it does not listen after {_START_S:g} s")
        piece = os.read(process.stdout.fileno(), 64)
        if not piece:
            raise ChildProcessError(f"it has ended with exit code {process.wait()} before it listened")
        said += piece
    return said.decode("ascii").strip()
