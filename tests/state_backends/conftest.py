"""Backends to run a test on, each in a directory of its own, and randomness whose seed is printed."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from state_backends import StateBackend, load_backend

pytest.register_assert_rewrite("state_backends.contract")
Opener = Callable[[str], StateBackend]


@pytest.fixture(params=["memory", "rocksdb"])
def backend_name(request: pytest.FixtureRequest) -> str:
    """Each built-in backend that lives on this machine alone."""
    return str(request.param)


@pytest.fixture
def open_copy(backend_name: str, tmp_path: Path) -> Iterator[Opener]:
    """Opens a local copy under a name, and closes it after the test."""
    opened: list[StateBackend] = []

    def open_(copy: str) -> StateBackend:
        opened.append(load_backend(backend_name).open(tmp_path / "copies" / copy, {}))
        return opened[-1]

    yield open_
    for backend in opened:
        backend.close()


@pytest.fixture
def rng() -> random.Random:
    """A random generator of a new seed in each run."""
    seed = random.randrange(2**32)
    print(f"seed = {seed}")  # noqa: T201 - pytest shows it where the test fails
    return random.Random(seed)


@pytest.fixture
def backend(open_copy: Opener) -> StateBackend:
    """An empty backend."""
    return open_copy("only")
