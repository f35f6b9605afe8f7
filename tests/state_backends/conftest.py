"""Backends to run a test on, each in a directory of its own, and randomness whose seed is printed."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from state_backends import StateBackend, load_backend
from state_backends.registry import ENTRY_POINTS

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


PLUGIN = '''
"""A backend of somebody else."""

from state_backends.backends.memory import MemoryBackend


class Plugged(MemoryBackend):
    @classmethod
    def open(cls, directory, options):
        backend = cls()
        backend.opened_with = (directory, dict(options))
        return backend

    @classmethod
    def known_options(cls):
        return {"depth": "how deep", "url": "where"}


no_class = 5


class NoBackend:
    pass
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a backend of its own, installed with two entry points; returns its name."""
    name = f"plugged_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(PLUGIN)
    info = tmp_path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{ENTRY_POINTS}]\nplugged = {name}:Plugged\nmissing = {name}_not_there:Plugged\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return name
