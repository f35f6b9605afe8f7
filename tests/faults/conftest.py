"""How much the fault tests disturb, and what they share."""

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import disk
from tests.faults.cluster import HOSTS, Cluster
from tests.faults.hosts import Host, why_not
from tests.faults.processes import Driver, kill_marked
from tests.operators.sinks.postgres_server import postgres_server

_LOCAL: dict[str, list[pytest.MarkDecorator]] = {
    "test_everybyte.py": [],
    "test_local_forgets.py": [pytest.mark.kill],
    "test_local_troubles.py": [],
    "test_long.py": [],
    "test_soak_local.py": [pytest.mark.kill],
    "test_kafka_kills.py": [pytest.mark.kill],
}
"""The marks of tests without Spark."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need Spark and kill processes, but for those of local runners."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for marker in _LOCAL.get(item.path.name, [pytest.mark.spark, pytest.mark.kill]):
                item.add_marker(marker)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of a test's random choices, printed so that a failure can be repeated."""
    chosen = request.config.getoption("--fault-seed")
    chosen = random.randrange(2**32) if chosen is None else chosen
    print(f"pytest tests/faults --fault-seed {chosen}")  # noqa: T201 - a failure must be repeatable
    return chosen


@pytest.fixture(scope="session")
def mark() -> Iterator[str]:
    """A mark on all processes that these tests start: whatever happens, none of them is left at the end."""
    chosen = f"{random.SystemRandom().randrange(2**64):x}"
    yield chosen
    kill_marked(chosen)


@pytest.fixture(scope="session")
def backends(request: pytest.FixtureRequest) -> list[str]:
    """The state backends; the queries of all of them run side by side, so that a fault hits them all."""
    return request.config.getoption("--backends").split(",")


@pytest.fixture(scope="session")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the driver has a small disk, on systems that let it have one."""
    return tmp_path_factory.mktemp("disk")


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory, mark: str, small_disk: Path) -> Iterator[Driver]:
    """A driver of two cores that bears three failures of a task."""
    wrapper = () if disk.why_not() else disk.in_front(small_disk, disk.MEGABYTES)
    started = Driver(tmp_path_factory.mktemp("driver"), mark, wrapper=wrapper)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """How to connect to a PostgreSQL server, which outlives the drivers."""
    with postgres_server() as conninfo:
        yield conninfo


@pytest.fixture(scope="session")
def addresses() -> tuple[str, ...]:
    """The addresses of two workers."""
    for host in HOSTS:
        with socket.socket() as probe:
            try:
                probe.bind((host, 0))
            except OSError as error:
                pytest.skip(
                    f"two executors need two addresses of the loopback device, and {host} is none: {error}"
                )
    return HOSTS


@pytest.fixture(scope="module")
def cluster(addresses: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory, mark: str) -> Cluster:
    """A master and two workers."""
    del addresses
    return Cluster(tmp_path_factory.mktemp("cluster"), mark)


@pytest.fixture(scope="module")
def rooms(addresses: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory, mark: str) -> dict[str, Host]:
    """A host with a disk of its own for each address."""
    if reason := why_not():
        pytest.skip(reason)
    shared, logs = tmp_path_factory.getbasetemp(), tmp_path_factory.mktemp("hosts")
    return {address: Host(logs / address, shared, mark) for address in addresses}


@pytest.fixture(scope="module")
def hosts(rooms: dict[str, Host], tmp_path_factory: pytest.TempPathFactory, mark: str) -> Cluster:
    """A master, and a worker on each host."""
    return Cluster(tmp_path_factory.mktemp("cluster-of-hosts"), mark, rooms)
