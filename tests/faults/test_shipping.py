"""Hosts whose Python lacks this library, and each way of the page On a cluster to give it to them."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.connect_server import connect_server
from tests.faults.cluster import Cluster
from tests.faults.connect_user import FUNCTIONS, Task
from tests.faults.hosts import NAME
from tests.faults.plans import BACKENDS, Feed, Plan, more_batches, plans_for
from tests.faults.processes import ROOT, Driver, assert_exact, kill
from tests.faults.shipped import Shipped
from tests.patience import files, wait_until

pytestmark = pytest.mark.soak
FILES = 4


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    """Environments, and what is sent."""
    return Shipped.made(tmp_path_factory.mktemp("shipped"))


@contextmanager
def driver_for(
    hosts: Cluster, folder: Path, python: Path | str, conf: Mapping[str, str] | None = None
) -> Iterator[Driver]:
    """A driver in a folder, whose workers run another Python, and find no packages but what that has, or what they are sent."""
    folder.mkdir(exist_ok=True)
    wrapper = ["env", "-C", str(folder), f"PYTHONPATH={ROOT}"]
    wrapper += [f"PYSPARK_PYTHON={python}", f"PYSPARK_DRIVER_PYTHON={sys.executable}"]
    with hosts.driver(folder, {"spark.executorEnv.PYTHONPATH": "", **(conf or {})}, wrapper) as started:
        yield started


def run_on(driver: Driver, folder: Path) -> None:
    """Run a query on each backend: every row is there once."""
    Feed(folder, files=FILES, rows=600, seed=5).give(FILES)
    plans = plans_for(folder, BACKENDS)
    assert [None] * len(plans) == driver.run(plans)
    assert_exact(driver.judge(plans))


def test_a_host_without_packages_is_named_before_anything_runs(
    tmp_path: Path, hosts: Cluster, shipped: Shipped
) -> None:
    """With each package and what to install; so is one that has all but the library."""
    with driver_for(hosts, tmp_path / "bare", shipped.bare) as driver:
        said = driver.check() or ""
        for name in ("spark-stateful-windows", "numpy", "pyarrow", "msgpack", "rocksdict"):
            assert f"host {NAME!r} lacks {name}: install {name} " in said
    with driver_for(hosts, tmp_path / "dependencies", shipped.dependencies) as driver:
        said = driver.check() or ""
        (line,) = (line for line in said.splitlines() if line.startswith("  - "))
        assert line.startswith(f"  - host {NAME!r} lacks spark-stateful-windows: install ")


def test_a_packed_environment(tmp_path: Path, hosts: Cluster, shipped: Shipped) -> None:
    """The hosts' own Python has nothing; Spark unpacks the archive on each. The driver starts a Python of that name, too."""
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "environment").symlink_to(shipped.complete.parents[1])
    conf = {"spark.archives": f"{shipped.archive}#environment"}
    with driver_for(hosts, tmp_path / "driver", "./environment/bin/python", conf) as driver:
        assert driver.check() is None
        run_on(driver, tmp_path / "run")


def test_an_image(tmp_path: Path, hosts: Cluster, shipped: Shipped) -> None:
    """The hosts' Python has the library at the same path, as containers of one image do."""
    with driver_for(hosts, tmp_path / "driver", shipped.complete) as driver:
        assert driver.check() is None
        run_on(driver, tmp_path / "run")


def test_the_library_as_a_file_of_the_program(tmp_path: Path, hosts: Cluster, shipped: Shipped) -> None:
    """The hosts' Python has what the library needs; `spark.submit.pyFiles` brings the library itself."""
    conf = {"spark.submit.pyFiles": str(shipped.library)}
    with driver_for(hosts, tmp_path / "driver", shipped.dependencies, conf) as driver:
        run_on(driver, tmp_path / "run")


@pytest.mark.parametrize("way", ["library", "archive"])
def test_what_a_client_of_connect_sends(
    tmp_path: Path, hosts: Cluster, shipped: Shipped, mark: str, way: str
) -> None:
    """The wheel to hosts that have what it needs, and the packed environment to those that have nothing; for bounded frames."""
    Feed(tmp_path, files=FILES, rows=600, seed=5).give(FILES)
    plan = Plan(str(tmp_path / "query"), str(tmp_path / "in"), "rocksdb")
    conf = {**hosts.conf(), "spark.executorEnv.PYTHONPATH": ""}
    python = {"PYSPARK_PYTHON": str(shipped.dependencies if way == "library" else shipped.bare)}
    with connect_server(tmp_path / "server", hosts.url, conf, python, mark) as server:
        task = Task(server.url, plan, {way: str(getattr(shipped, way))}, bounded=True)
        assert_exact([task.end(task.start(tmp_path / "client", mark), tmp_path / "client")])


_VERSION = """
def add(total, v):
    return total + {factor} * v


def merge(one, other):
    return one + other
"""


def test_two_clients_of_connect_with_versions_of_a_function(
    tmp_path: Path, hosts: Cluster, mark: str
) -> None:
    """Each has rows of its own version. One is killed: its query goes on, and a new client takes it over."""
    feed = Feed(tmp_path, files=60, rows=600, seed=6)
    with connect_server(tmp_path / "server", hosts.url, hosts.conf(), mark=mark) as server:
        tasks = []
        for factor in (1, 100):
            folder = tmp_path / f"times-{factor}"
            functions = folder / f"{FUNCTIONS}.py"
            folder.mkdir()
            functions.write_text(_VERSION.format(factor=factor))
            plan = Plan(str(folder), str(tmp_path / "in"), "rocksdb", until=str(tmp_path / "end"))
            tasks.append(Task(server.url, plan, {"functions": str(functions)}))
        clients = [task.start(Path(task.plan.folder, "client"), mark) for task in tasks]
        plans = [task.plan for task in tasks]

        def batches(count: int) -> None:
            wait_until(more_batches(plans, feed, count), "batches", files(tmp_path))

        batches(2)
        kill(clients[0].pid)
        batches(2)
        clients[0] = tasks[0].start(Path(plans[0].folder, "client"), mark)
        batches(2)
        (tmp_path / "end").touch()
        verdicts = [
            task.end(client, Path(task.plan.folder, "client"))
            for task, client in zip(tasks, clients, strict=True)
        ]
    assert_exact(verdicts)
