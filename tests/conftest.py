"""Settings for all tests: how long they wait, how many examples they try, and which of them share a process."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.patience import ENVIRONMENT

os.environ.update(ENVIRONMENT)
settings.register_profile(
    "full",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fast", settings.get_profile("full"), max_examples=20)
settings.register_profile(
    "mutations", settings.get_profile("fast"), phases=[Phase.explicit, Phase.generate]
)  # nobody reads their examples: they need not become small
settings.load_profile("fast")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How often the fault tests kill, and by which choices."""
    group = parser.getgroup("faults", "tests/faults")
    group.addoption("--worker-kills", type=int, default=3, help="times that workers are killed")
    group.addoption("--driver-kills", type=int, default=2, help="times that a driver is killed")
    group.addoption(
        "--backends", default="memory,rocksdb,spark", help="state backends, with commas between them"
    )
    group.addoption(
        "--fault-seed", type=int, default=None, help="seed of all random choices; printed by each test"
    )


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on Spark's session share a process, since they share the session; so do other tests of a file.

    What takes longest comes first, so that all processes end together.
    """
    for item in items:
        group = "spark" if _on_session(item) else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (not _on_session(item), not _of_processes(item)))


def _on_session(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def _of_processes(item: pytest.Item) -> bool:
    """Whether a test most likely waits for other processes."""
    folders = item.nodeid.partition("::")[0].split("/")
    return "spark" in folders or "faults" in folders
