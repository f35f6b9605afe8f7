"""Settings for all tests: how long they wait, how many examples they try, and which of them share a process."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.patience import ENVIRONMENT

if TYPE_CHECKING:
    from examples.kafka.broker import Broker

os.environ.update(ENVIRONMENT)
settings.register_profile(
    "full",
    max_examples=25,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fast", settings.get_profile("full"), max_examples=20)
settings.register_profile("deep", settings.get_profile("full"), max_examples=400)
settings.register_profile(
    "mutations", settings.get_profile("fast"), phases=[Phase.explicit, Phase.generate]
)  # nobody reads their examples: they need not become small
settings.load_profile("fast")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Whether cases of the soak run, how often the fault tests kill, and by which choices."""
    parser.addoption("--soak", action="store_true", help="also run the cases that only `make soak` takes")
    parser.addoption(
        "--turn",
        type=int,
        metavar="DAY",
        help=f"of the slow cases, run one in {TURNS}: other ones the next day",
    )
    group = parser.getgroup("faults", "tests/faults")
    group.addoption("--worker-kills", type=int, default=2, help="times that workers are killed")
    group.addoption("--driver-kills", type=int, default=1, help="times that a driver is killed")
    group.addoption(
        "--sink-kills",
        type=int,
        default=1,
        help="times that a driver is killed between the sink's commit and Spark's",
    )
    group.addoption(
        "--backends", default="memory,rocksdb,spark", help="state backends, with commas between them"
    )
    group.addoption(
        "--fault-seed", type=int, default=None, help="seed of all random choices; printed by each test"
    )


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Broker]":
    """A broker of Kafka for all tests of a process that neither stop it nor need settings of their own."""
    from tests.operators.sinks.kafka_broker import broker_or_skip

    with broker_or_skip(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that all processes end together; cases of the soak and of other days are left out."""
    for item in _more_than_enough(items):
        item.add_marker(pytest.mark.slow)
    soaked = [] if config.getoption("--soak") else [item for item in items if item.get_closest_marker("soak")]
    _leave_out(config, items, soaked)
    turn = config.getoption("--turn")
    if turn is not None:
        _leave_out(config, items, _of_other_days(items, turn))
    items.sort(key=lambda item: _place(item.nodeid))


def _more_than_enough(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of tests with more than `ENOUGH` cases, those that `make test` leaves to `make test-all`."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        marked = any(item.get_closest_marker(name) for name in ("slow", "soak", "connectors"))
        if not marked and not item.nodeid.startswith(ALL_CASES):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [case for cases in tests.values() for case in _by_worth(cases)[ENOUGH:]]


def _by_worth(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Cases in a random order that is always the same, but first those with a parameter that no case before has."""
    if len(cases) <= ENOUGH:
        return cases
    seen: set[tuple[int, str]] = set()
    first, more = [], []
    for case in sorted(cases, key=lambda case: crc32(case.nodeid.encode())):
        parameters = {*enumerate(case.nodeid.partition("[")[2].split("-"))}
        (more if parameters <= seen else first).append(case)
        seen |= parameters
    return first + more


def _leave_out(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        ids = {item.nodeid for item in left_out}
        items[:] = [item for item in items if item.nodeid not in ids]


def _of_other_days(items: list[pytest.Item], turn: int) -> list[pytest.Item]:
    """The slow cases that this turn leaves out."""
    slow = [item for item in items if item.get_closest_marker("slow") and _file(item.nodeid) not in EACH_DAY]
    return [case for number, case in enumerate(slow) if (number - turn) % TURNS]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal out whole files; those on the Spark session of a folder go to one process, since they share the session."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = _file(nodeid)
            return ON_SESSION if file.startswith(ON_SESSION) and file not in APART else file

    return ByFile(config, log)


ENOUGH = 8
"""Of so many cases of one test, `make test` takes all."""
ALL_CASES = (
    "tests/conformance/",
    "tests/compatibility/",
    "tests/operators/runtime/test_going_on.py",
    "tests/operators/testing/test_aborts.py",
    "tests/operators/spark/test_batch_parts.py",
)
"""Where tests of more cases are whole: each case is a recorded one, or one that `tests/test_chosen.py` asks for."""
TURNS = 6
EACH_DAY = {"tests/docs/test_code.py"}
"""Files of which every case runs each day: a page breaks by a change elsewhere, and no other case shows it."""
ON_SESSION = "tests/operators/spark/"
APART = {f"{ON_SESSION}test_connect.py", f"{ON_SESSION}test_bounded_local.py"}
"""Files of that folder which don't use the session."""
_FIRST = (
    ON_SESSION,
    "tests/operators/sinks/test_lake.py",
    "tests/faults/",
    "tests/compatibility/",
    "tests/examples/",
    "tests/docs/",
)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _place(nodeid: str) -> tuple[bool, int]:
    """Where a test stands in the order: files that stand apart go behind those on the session."""
    file = _file(nodeid)
    folder = next((n for n, first in enumerate(_FIRST) if file.startswith(first)), len(_FIRST))
    return (folder > 0 or file in APART, folder)
