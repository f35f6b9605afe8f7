"""Pytest plugin: the fixture `backend`, which is each state backend in turn, and the fixture `runner` for local runners.

Modules are imported only when a test needs them, since pytest loads this plugin in every run of any project.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_BUILT_IN = ("memory", "rocksdb", "spark")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for further state backends."""
    group = parser.getgroup("stateful windows", "spark-stateful-windows")
    group.addoption(
        "--state-backends",
        default="",
        metavar="NAMES",
        help=f"comma-separated state backends for the fixture `backend`, in addition to {', '.join(_BUILT_IN)}: "
        "names from the entry-point group stateful_windows.state_backends, or module:attribute",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that use the fixture `backend` once for each backend.

    A fixture or parameter `backend` of the project takes precedence: then `state_backend` of this plugin is not requested.
    """
    if "state_backend" in metafunc.fixturenames:
        named = str(metafunc.config.getoption("--state-backends")).split(",")
        names = dict.fromkeys([*_BUILT_IN, *filter(None, map(str.strip, named))])
        metafunc.parametrize("state_backend", list(names), indirect=True)


@pytest.fixture
def state_backend(request: pytest.FixtureRequest) -> str:
    """Name of a state backend that exists and can be imported.

    Raises:
        ValueError: the backend is unknown; the message lists the known backends.
        StateError: the backend cannot be imported.
    """
    from state_backends import load_backend

    load_backend(request.param)
    return str(request.param)


@pytest.fixture
def backend(state_backend: str) -> str:
    """Each of memory, rocksdb, spark and the backends of --state-backends, for `local_runner(..., backend=backend)`."""
    return state_backend


@pytest.fixture
def runner(backend: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes local runners: `runner(op, event_time="at", ...)`, with the arguments of `op.local_runner`.

    Runners use the backend of the test, have separate directories in `tmp_path`, and are closed after the test. So state is
    written to disk, and a second runner with the same `directory=` continues from the state of the first.
    """
    numbers = count()
    with ExitStack() as runners:

        def make(operator: Any, event_time: Any, **more: Any) -> Any:
            arguments = {"backend": backend, "directory": tmp_path / f"runner-{next(numbers)}", **more}
            return runners.enter_context(operator.local_runner(event_time, **arguments))

        yield make
