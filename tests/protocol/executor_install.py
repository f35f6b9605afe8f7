"""The modules of workers and of processes with copies, in a simulated world: sockets, clock and processes are the world's."""

import os
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from filelock import FileLock

from operators.spark.replicas import bucket_service, copies, where_held
from state_backends.durability import durable, pointer, schedule
from tests.protocol.executor_world import End
from tests.protocol.install import Instead


class _OfProcess(MutableMapping[Any, Any]):
    """What a module keeps in each process."""

    def __init__(self, world: Any, name: str) -> None:
        self._world = world
        self._name = name

    def _held(self) -> dict[Any, Any]:
        return getattr(self._world.member(), self._name)

    def __getitem__(self, key: Any) -> Any:
        return self._held()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._held()[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._held()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held())

    def __len__(self) -> int:
        return len(self._held())


class _Parents:
    """The executor of the process that runs."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def parent(self) -> Any:
        return self._world.member()


def _locks(world: Any) -> type[FileLock]:
    """Locks on the directories of copies: the world hears of each."""

    class Lock(FileLock):
        def acquire(self, *given: Any, **named: Any) -> Any:
            world.baton.touched.use("claims")
            return super().acquire(*given, **named)

        def release(self, *given: Any, **named: Any) -> None:
            world.baton.touched.use("claims")
            super().release(*given, **named)

    return Lock


@contextmanager
def installed(world: Any) -> Iterator[None]:
    """Use a world for as long as this lasts. One at a time."""
    clock = Instead(time, time=world.monotonic, monotonic=world.monotonic, sleep=world.sleep)
    tokens = Instead(os, urandom=world.token)
    changes: list[tuple[Any, str, Any]] = [
        (copies, "_copies", _OfProcess(world, "copies")),
        (copies, "time", clock),
        (copies, "FileLock", _locks(world)),
        (durable, "KEPT_ENTRIES", 1),
        (where_held, "Connection", End),
        (where_held, "_resting", _OfProcess(world, "resting")),
        (where_held, "living", world.living),
        (where_held, "parents", _Parents(world)),
        (where_held, "socket_of", world.socket_of),
        (where_held, "start", world.start),
        (where_held, "time", clock),
        (pointer, "os", tokens),
        (schedule, "os", tokens),
        (schedule, "time", clock),
        (bucket_service, "log_at", lambda _: None),
        (bucket_service, "prepare_worker", lambda: None),
        (bucket_service, "time", clock),
        (time, "perf_counter", lambda: 0.0),  # What took how long is told with the answer.
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, new in changes:
        setattr(module, name, new)
    try:
        with world.current():
            yield
    finally:
        for module, name, old in before:
            setattr(module, name, old)
