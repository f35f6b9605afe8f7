"""The starter forks the processes that hold buckets' copies; all that they import is loaded in it.

A process that begins afresh imports for about a second. A worker does not fork instead: it may have threads, and a fork of a
process with threads may stand still. So Spark's daemon of workers, which has no threads, forks the starter when it has loaded
this library. The starter has none either. It gets orders at a socket; the new process answers.
"""

import os
import signal
import traceback
from contextlib import suppress
from pathlib import Path

from operators.spark.replicas.connection import Connection
from operators.spark.replicas.orders import Order
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.sockets import Place, listen
from operators.spark.replicas.state_process import main, show_name

NAME = "windows-starter"
"""What the system shows as its name."""
_LOOK_S = 1.0
"""How often it looks whether the daemon lives."""
_PATIENCE_S = 5.0
"""How long it waits for an order of a worker that has connected."""


def fork_starter() -> str:
    """Return the name of the socket of a starter, which ends with this process; "" if there can be none.

    To be called by Spark's daemon, before it begins.
    """
    os.setpgid(0, 0)  # The daemon does the same later; the starter is to be in its group, and to end with it.
    try:
        place = listen()
    except OSError:
        return ""
    daemon = Parent.of(os.getpid())
    if os.fork():
        place.leave()
        return place.name
    try:
        _serve(place, daemon)
    except BaseException:  # noqa: BLE001 - it must not go on as a second daemon
        traceback.print_exc()
    finally:
        os._exit(0)


def _serve(place: Place, daemon: Parent) -> None:
    """Fork a process for each order, as long as the daemon lives."""
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody waits for those that end.
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # Java and the daemon talk through the two.
    show_name(NAME)
    place.listener.settimeout(_LOOK_S)
    while daemon.lives():
        # Nothing that one worker does keeps the others from getting processes.
        with suppress(OSError, EOFError, ValueError, TypeError):
            connected, _ = place.listener.accept()
            with Connection(connected, _PATIENCE_S) as asked:
                order = Order.decode(asked.receive())
                if not os.fork():
                    place.leave()
                    _become(order, asked)


def _become(order: Order, asked: Connection) -> None:
    """Be the process that is asked for. Does not return."""
    try:
        order.take_over()
        main(order.name, *order.parent, tell=lambda name: _answer(asked, name))
    except BaseException:  # noqa: BLE001 - it must not go on as a second starter
        traceback.print_exc()
    finally:
        os._exit(1)


def _answer(asked: Connection, name: str) -> None:
    asked.send(name.encode("ascii"))
    asked.close()
