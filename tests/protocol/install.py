"""The product's modules in a simulated world: their folder, clock, threads, random tokens and processes are the world's."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread
from types import SimpleNamespace
from typing import Any

from pyarrow import fs

from state_backends.durability import (
    durable,
    folders,
    object_stores,
    pages_in_parts,
    pointer,
    schedule,
    snapshots,
    uploads,
)
from tests.protocol.tasks import SIMULATED, InlineExecutor

LEAST_SHARED = 32
"""Files of so many bytes are shared between snapshots, so that a small state has some."""


class Instead:
    """A module but for some of its functions.

    Threads that do not belong to the simulation, which other tests may have left, have the module's own.
    """

    def __init__(self, module: Any, **functions: Callable[..., Any]) -> None:
        self._module = module
        for name, function in functions.items():
            setattr(self, name, _simulated(getattr(module, name), function))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _simulated(real: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    scheduler = current_thread()

    def called(*given: Any) -> Any:
        here = current_thread()
        return (function if here is scheduler or here.name == SIMULATED else real)(*given)

    return called


@contextmanager
def installed(world: Any) -> Iterator[None]:
    """Use a world for as long as this lasts. One at a time."""
    clock = Instead(time, time=world.now)
    tokens = Instead(os, urandom=world.token)
    storage = world.storage
    changes: list[tuple[Any, str, Any]] = [
        (pointer, "os", tokens),
        (schedule, "os", tokens),
        (schedule, "time", clock),
        (snapshots, "time", clock),
        (snapshots, "ThreadPoolExecutor", InlineExecutor),
        (snapshots, "_LEAST_SHARED", LEAST_SHARED),
        (folders, "os", Instead(os, urandom=tokens.urandom, link=storage.link)),
        (folders, "sync_file", storage.sync_file),
        (folders, "sync_folder", storage.sync_folder),
        (folders, "make_folder", lambda _: None),
        (folders, "fs", _file_systems(storage)),
        (object_stores, "file_system", lambda uri, **_: (storage, uri.partition("://")[2])),
        (uploads, "ThreadPoolExecutor", lambda *_: world.executor()),
        (uploads, "socket", SimpleNamespace(gethostname=lambda: world.process().host)),
        (
            uploads,
            "os",
            Instead(os, urandom=tokens.urandom, getpid=lambda: world.process().number, kill=world.kill),
        ),
        (uploads, "_beginning", world.beginning),
        (pages_in_parts, "PART_BYTES", 64),
        (durable, "KEPT_ENTRIES", 1),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    uploads.Uploads._manifests = _shared_manifests(world)  # type: ignore[assignment]
    for module, name, new in changes:
        setattr(module, name, new)
    try:
        yield
    finally:
        for module, name, old in before:
            setattr(module, name, old)
        del uploads.Uploads._manifests


def _shared_manifests(world: Any) -> property:
    """The attribute of uploads that several tasks of a process use: the world hears of it."""

    def get(of: Any) -> Any:
        world.manifests(changes=False)
        found = of.__dict__["_manifests"]
        world.baton.heard(sorted(found))
        return found

    def put(of: Any, manifests: Any) -> None:
        world.manifests(changes=True)
        of.__dict__["_manifests"] = manifests

    return property(get, put)


def _file_systems(storage: Any) -> SimpleNamespace:
    return SimpleNamespace(
        FileSelector=fs.FileSelector,
        FileType=fs.FileType,
        LocalFileSystem=lambda: storage,
    )
