"""A process that holds buckets' copies for an executor. Spark neither knows it nor ends it when it has no work for a minute.

It has the environment, limits and folder of the worker that asked for it. It ends when

- the parent of the workers has ended, and with it the executor;
- no task has asked for work for an hour, or none at all for two minutes: the worker that started it may be dead.

It is in the process group of Spark's daemon of workers, which ends all of it with itself.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

from operators.spark.replicas.bucket_service import BucketService
from operators.spark.replicas.copies import drop_all, drop_ordered
from operators.spark.replicas.local_files import UNUSED_S
from operators.spark.replicas.parents import Parent
from operators.spark.replicas.sockets import Place, listen

_UNKNOWN_S = 120.0
_LOOK_S = 1.0
"""How often it looks whether there is a reason to end."""
NAME = "windows-state"
"""What the system shows as its name."""


def show_name(name: str) -> None:
    """Have the system show this name for the process, where it can: at most 15 letters."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name, "ascii")


def print_name(name: str) -> None:
    """Write the name of the socket to the standard output, which goes where that of Spark's workers goes from then on."""
    os.write(1, f"{name}\n".encode())
    os.dup2(2, 1)


def main(name: str, number: str, began: str, tell: Callable[[str], None] = print_name) -> None:
    """Hold copies until there is nobody to hold them for.

    Args:
        name: the name of the socket.
        number: the process number of the workers' parent.
        began: when that began.
        tell: gets the name of the socket, once the process listens.

    Raises:
        OSError: the socket cannot be made, or another process listens there.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    show_name(NAME)
    place, service = listen(name), BucketService()
    place.listener.settimeout(_LOOK_S)
    # What a user's function forks may outlive this process, and nobody is to wait for an answer of it.
    os.register_at_fork(after_in_child=place.leave)
    os.register_at_fork(after_in_child=service.leave)
    attending = partial(_attend, service, place, Parent(int(number), began))
    Thread(target=attending, name="tasks", daemon=True).start()
    tell(place.name)
    _work(service)
    service.end()
    place.close()
    while service.serve_next(_LOOK_S):  # What was accepted meanwhile.
        pass
    drop_all()
    # Not as programs end: that waits for all threads, also for those that functions of users have left.
    os._exit(0)


def _work(service: BucketService) -> None:
    """Work for tasks until there have been none for long."""
    looked = time.monotonic()
    while service.idle_s() <= (UNUSED_S if service.known else _UNKNOWN_S):
        service.serve_next(_LOOK_S)
        if time.monotonic() - looked >= _LOOK_S:
            looked = time.monotonic()
            with suppress(OSError):
                drop_ordered()


def _attend(service: BucketService, place: Place, parent: Parent) -> None:
    """Accept what tasks ask for, and end the process with the parent, whatever it does."""
    while parent.lives():
        service.accept(place.listener)
    os._exit(0)
