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
from operators.spark.replicas.sockets import living, one_at_a_time, socket_of

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


def start(parent: Parent, name: str) -> None:
    """Start the process that listens under a name, unless it lives.

    It has this one's environment, folder, limits, search path and stderr.

    Args:
        parent: the process with which it ends.
        name: the name of its socket.

    Raises:
        OSError: it cannot be started, or does not listen; says why.
    """
    with one_at_a_time(name, 2 * _START_S):
        if not living(name):
            told = _forked(parent, name) or _afresh(parent, name)
            if told != name:
                raise ChildProcessError(f"it says {told!r} in place of the name of its socket")


def _forked(parent: Parent, name: str) -> str:
    """What a process says that the starter has forked, once it listens; "" if it does not get that far."""
    with suppress(OSError, EOFError):
        path = socket_of(_starter)
        if path is not None:
            with Connection.to(path, _START_S) as asking:
                asking.send(Order.like_this_process(parent, name).encode())
                return asking.receive().decode("ascii", "replace")
    return ""


def _afresh(parent: Parent, name: str) -> str:
    _started[:] = [one for one in _started if one.poll() is None]
    command = [sys.executable, "-c", _CODE, name, *parent.arguments, *sys.path]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    told = ""
    try:
        told = _first_line(process)
    finally:
        if process.stdout is not None:
            process.stdout.close()
        if not told:
            process.kill()
            process.wait()
    _started.append(process)
    return told


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
    return said.decode("ascii", "replace").strip()
