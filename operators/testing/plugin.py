"""Pytest plugin: the fixture `backend`, each state backend in turn, and the fixture `runner`, local runners on it.

What a test needs is imported when it runs: pytest loads this module in every run, of whatever project.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_BUILT_IN = ("memory", "rocksdb", "spark")


def pytest_addoption(parser: pytest.Parser) -> None:
    """State backends beside the built-in ones."""
    group = parser.getgroup("stateful windows", "spark-stateful-windows")
    group.addoption(
        "--state-backends",
        default="",
        metavar="NAMES",
        help=f"state backends for the fixture `backend`, with commas between them, beside {', '.join(_BUILT_IN)}: "
        "names from the entry-point group stateful_windows.state_backends, or module:attribute",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that use the fixture `backend` once for each backend.

    A project's own fixture or parameter of that name goes before this plugin's, whose `state_backend` is then not asked for.
    """
    if "state_backend" in metafunc.fixturenames:
        named = str(metafunc.config.getoption("--state-backends")).split(",")
        names = dict.fromkeys([*_BUILT_IN, *filter(None, map(str.strip, named))])
        metafunc.parametrize("state_backend", list(names), indirect=True)


@pytest.fixture
def state_backend(request: pytest.FixtureRequest) -> str:
    """Name of a state backend that is known and can be imported.

    Raises:
        ValueError: there is no such backend, with the known ones.
        StateError: it cannot be imported.
    """
    from state_backends import load_backend

    load_backend(request.param)
    return str(request.param)


@pytest.fixture
def backend(state_backend: str) -> str:
    """Each of memory, rocksdb, spark and those named by --state-backends, for `local_runner(..., backend=backend)`."""
    return state_backend


@pytest.fixture
def runner(backend: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes local runners: `runner(op, event_time="at", ...)`, with what else `op.local_runner` takes.

    They are on the test's backend, each in a directory of its own below `tmp_path`, and closed after the test. So state goes
    through the disk, and a second runner on the same `directory=` goes on where the first one was.
    """
    numbers = count()
    with ExitStack() as opened:

        def make(operator: Any, event_time: Any, **more: Any) -> Any:
            given = {"backend": backend, "directory": tmp_path / f"runner-{next(numbers)}", **more}
            return opened.enter_context(operator.local_runner(event_time, **given))

        yield make
