"""States with snapshots, a storage for them, and a clock that tests can set."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from rocksdict import Options
from s3_server import CREDENTIALS, S3, running

from state_backends.backends import rocksdb
from state_backends.durability import pages_in_parts, schedule
from tests.state_backends.durability.snapshot_store import KINDS, Store


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of copy."""
    return str(request.param)


@pytest.fixture
def compacting() -> None:
    """RocksDB compacts when it wants to."""


@pytest.fixture
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Store]]:
    """Makes states whose copies are closed after the test.

    RocksDB compacts in them only when it is told to, unless the test uses `compacting`: which files snapshots share does not
    depend on how busy the machine is.
    """
    made = rocksdb.rocks_options

    def options(given: Mapping[str, str]) -> Options:
        rocks = made(given)
        rocks.set_disable_auto_compactions(True)
        return rocks

    if "compacting" not in request.fixturenames:
        monkeypatch.setattr(rocksdb, "rocks_options", options)
    stores: list[Store] = []

    def make(home: Path, uri: str | None = None, **policy: object) -> Store:
        stores.append(Store(home, uri, **policy))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots of all pages come often, with a part for each few pages."""
    monkeypatch.setattr(pages_in_parts, "PART_BYTES", 400)
    monkeypatch.setattr(schedule, "LOG_TO_SNAPSHOT", 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock for pending snapshots that tests can set."""
    hands = SimpleNamespace(now=time.time())
    monkeypatch.setattr(schedule, "time", SimpleNamespace(time=lambda: hands.now))
    return hands


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    """A server with one bucket."""
    with running() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        server.bucket("bucket")
        yield server


@pytest.fixture
def living() -> Iterator[str]:
    """The name of another process that lives."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield f"{socket.gethostname()}:{child.pid}"
    child.kill()
    child.communicate()
