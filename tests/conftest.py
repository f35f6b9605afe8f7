"""Settings for all tests, which run in several processes, a file's tests in one."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How often the fault tests kill, and by which choices."""
    group = parser.getgroup("faults", "tests/faults")
    group.addoption("--worker-kills", type=int, default=4, help="times that workers are killed")
    group.addoption("--driver-kills", type=int, default=2, help="times that a driver is killed")
    group.addoption(
        "--backends", default="memory,rocksdb,spark", help="state backends, with commas between them"
    )
    group.addoption(
        "--fault-seed", type=int, default=None, help="seed of all random choices; printed by each test"
    )
